from pathlib import Path

import pytest
import torch
from executed import composer, executed
from figure_runs import runs_in
from predicted import predicted

from repro.config.compose import compose_run
from repro.mappings import Sparsemax
from repro.models.entailment.alignment import SequentialAligner, StructuredAligner, WordAligner
from repro.models.entailment.classifiers import AlignedLabels
from repro.report.figures import figure_kind
from repro.results.files import read_rows
from repro.tasks.nli_alignment.task import NliAlignmentTask
from repro.training.seeding import seed_everything

CPU = torch.device("cpu")
config = composer(
    "task=nli_alignment", "hardware=cpu", "hardware.parallel_runs=1", "model.vector_size=6",
    "model.hidden_size=6", "data.train_premises=16", "task.stored_examples=4",
    "training.max_epochs=2", "model.embedding_std=1",
)  # fmt: skip
ALIGNERS = {"words": WordAligner, "sequential": SequentialAligner, "matching": StructuredAligner}


SPARSE = {"words": ("mapping=sparsemax",)}
"""Settings of alignments that use a mapping."""


def made(root: Path, alignment: str, *overrides: str) -> NliAlignmentTask:
    seed_everything(1)
    return NliAlignmentTask(config(root, f"model.alignment={alignment}", *overrides), CPU)


@pytest.mark.parametrize("alignment", ALIGNERS)
def test_the_setting_chooses_the_aligner(root, alignment):
    task = made(root, alignment, "model.max_iter=7", *SPARSE.get(alignment, ()))
    assert type(task.model.aligner) is ALIGNERS[alignment]
    if alignment != "words":
        assert task.model.aligner.max_iter == 7


@pytest.mark.parametrize("alignment", ALIGNERS)
def test_described_weights_are_those_of_each_pair_alone(root, alignment):
    task = made(root, alignment, *SPARSE.get(alignment, ()))
    task.model.eval()
    encoded = task.data.dev
    with torch.no_grad():
        rows = task.weight_rows(task.data.dev, task.stored_pairs())
        alone = [task.read_batch(encoded.collate([place])).alignment for place in range(4)]
    assert [row["index"] for row in rows] == [0, 1, 2, 3]
    for row, alignment_alone in zip(rows, alone, strict=True):
        for direction in ("premise_to_hypothesis", "hypothesis_to_premise"):
            kept, expected = torch.tensor(row[direction]), getattr(alignment_alone, direction)[0]
            torch.testing.assert_close(kept, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("alignment", "directions"), [("words", 0), ("sequential", 2), ("matching", 1)]
)
def test_weights_are_mixtures_of_the_structures(root, alignment, directions):
    task = made(root, alignment)
    task.model.eval()
    for row in task.weight_rows(task.data.dev, task.stored_pairs()):
        assert len(row["structures"]) == directions
        for direction, structures in row["structures"].items():
            mixture = torch.zeros(torch.tensor(row[direction]).shape)
            for one in structures:
                for place, partner in enumerate(one["partners"]):
                    if partner >= 0:
                        mixture[place, partner] += one["weight"]
            kept = torch.tensor(row[direction])
            torch.testing.assert_close(mixture, kept, atol=1e-4, rtol=0)
            weights = [one["weight"] for one in structures]
            assert weights == sorted(weights, reverse=True)
        if alignment == "matching":
            back = torch.tensor(row["hypothesis_to_premise"])
            torch.testing.assert_close(back.T, torch.tensor(row["premise_to_hypothesis"]))


def test_weights_of_both_directions_are_counted(root):
    scores = torch.tensor([[[9.0, 0.0], [0.0, 0.5]], [[1.0, 7.0], [7.0, 7.0]]])
    lengths = torch.tensor([[2, 2], [2, 1]])
    task = made(root, "words")
    found = AlignedLabels(torch.zeros(2, 3), WordAligner(Sparsemax())(scores, lengths, lengths))
    # Row 2 and column 2 of the first pair keep both words; the second pair has one column.
    nonzeros = (1 + 2 + 1 + 2) + (2 + 1)
    batch = task.data.dev.collate([0, 1])
    assert task.count_weights(found, batch) == (nonzeros, 8 + 4)


def test_structures_are_sparser_than_softmax(root):
    shares = {}
    for alignment in ALIGNERS:
        task = made(root, alignment)
        task.model.eval()
        with torch.no_grad():
            shares[alignment] = task.predict_split(task.data.dev).nonzeros
    assert shares["words"] == 100
    assert max(shares["sequential"], shares["matching"]) < 95


@pytest.mark.parametrize("alignment", ALIGNERS)
def test_a_run_leaves_weights_and_records(root, alignment):
    folder = executed(config(root, f"model.alignment={alignment}", "data.source=multinli"))
    assert {"test/label_accuracy", "test/alignment_nonzeros", "train/pairs_per_second"} <= (
        folder.read_record().metrics.keys()
    )
    kind = figure_kind("alignment_grids")
    example = kind.gather(runs_in(**{alignment: folder}))
    assert kind.describe(example)
    assert kind.draw(example).axes

    (path,) = (root / "demo").rglob("*_dev_matched.jsonl")
    found = predicted(folder.path, path.read_text("utf-8").splitlines(), weights=True)
    by_pair = {row["pairID"]: one for row, one in zip(read_rows(path), found, strict=True)}
    for row in read_rows(folder.predictions / "test.jsonl"):
        assert by_pair[row["id"]].output == row["label"]
    for row in folder.read_attention():
        one = by_pair[row["pair"]]
        assert ([*one.attention.rows], [*one.reverse.rows]) == (row["premise"], row["hypothesis"])
        forth = torch.tensor(row["premise_to_hypothesis"])
        torch.testing.assert_close(one.attention.weights, forth, atol=1e-5, rtol=0)
        assert len(one.candidates) == sum(map(len, row["structures"].values()))


def test_the_demo_learns_more_than_chance(tmp_path):
    changes = ["model.alignment=matching", "data.train_premises=300", "training.max_epochs=3"]
    folder = executed(compose_run(["task=nli_alignment", *changes, f"results_dir={tmp_path}"]))
    assert folder.read_record().metrics["test/label_accuracy"] > 40
