import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from executed import composer, executed
from figure_runs import runs_in
from predicted import own_examples, predicted, printed
from stored_statistics import assert_sums_give_the_records

from repro.config import ConfigError
from repro.config.compose import compose_run
from repro.data.batching import collate_trees
from repro.data.dependencies.conllu import parse_conllu
from repro.data.vocabulary import SPECIALS
from repro.errors import DataError
from repro.evaluation.metrics import METRICS
from repro.evaluation.metrics.parsing import ParsedSentences
from repro.report.figures import figure_kind
from repro.results import OWN_SPLIT
from repro.runs.job import locate
from repro.runs.train import ensemble_evaluation
from repro.structures import Arborescence, sparsemap
from repro.tasks.parsing.corpus import encode_treebank, identify, restored_treebank
from repro.tasks.parsing.task import (
    CandidateStatistics,
    ParsingTask,
    sparsity_trends,
    weighted_trees,
)
from repro.training.seeding import seed_everything

CPU = torch.device("cpu")
config = composer(
    "task=parsing", "hardware=cpu", "hardware.parallel_runs=1", "model.word_size=8",
    "model.tag_size=4", "model.lstm_size=8", "model.arc_size=8", "task.stored_examples=5",
    "training.max_epochs=2",
)  # fmt: skip


@pytest.fixture
def task(tmp_path: Path) -> ParsingTask:
    seed_everything(1)
    return ParsingTask(config(tmp_path), CPU)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_the_loss_of_a_batch_is_made_of_its_sentences_alone(tmp_path, reduction):
    seed_everything(1)
    task = ParsingTask(config(tmp_path, f"task.reduction={reduction}"), CPU)
    task.model.eval()
    batch = task.batches(0)[0]
    loss, words = task.loss(batch)
    alone = [task.loss(collate_trees(task.data.train, [i]))[0] for i in batch.indices.tolist()]
    expected = torch.stack(alone)
    torch.testing.assert_close(loss, expected.sum() if reduction == "sum" else expected.mean())
    assert int(words) == sum(len(task.data.train[i].words) for i in batch.indices.tolist())
    assert task.tally["sentences_per_second"] == 2 * len(batch)
    assert task.tally["inference_share"] > 0


def test_predictions_are_trees_with_a_single_root(task):
    task.model.eval()
    for sentence, heads in zip(task.data.dev, task.analyze(task.data.dev).heads, strict=True):
        assert len(heads) == len(sentence.words)
        assert heads.count(0) == 1
        for place in range(1, len(heads) + 1):
            steps = 0
            while place:
                place, steps = heads[place - 1], steps + 1
                assert steps <= len(heads)


def test_several_roots_are_a_choice(tmp_path):
    seed_everything(1)
    task = ParsingTask(
        config(tmp_path, "task.single_root=false", "task.train_single_root=true"), CPU
    )
    assert not task.structure.single_root
    assert isinstance(task.criterion.structure, Arborescence)
    assert task.criterion.structure.single_root


def test_validation_counts_the_trees_of_every_sentence(task):
    task.model.eval()
    with torch.no_grad():
        found = task.validate()
    assert 0 < found.metrics["uas"] < 100
    trees, parents = found.details["trees_counts"], found.details["parents_counts"]
    size = len(task.data.dev)
    assert sum(count for _, count in trees) == sum(count for _, count in parents) == size
    mean = sum(value * count for value, count in trees) / size
    assert found.metrics["trees"] == pytest.approx(mean)


@pytest.mark.parametrize("count", [0, 3, 10_000])
def test_validation_counts_the_trees_of_some_training_sentences(tmp_path, count):
    task = ParsingTask(config(tmp_path, f"task.compared={count}"), CPU)
    task.model.eval()
    with torch.no_grad():
        details = task.validate().details
    size = min(count, len(task.data.train))
    assert ("training_trees_counts" in details) == (count > 0)
    for name in ("trees", "parents") if count else ():
        assert sum(number for _, number in details[f"training_{name}_counts"]) == size


def test_sentences_to_show_are_stored_wherever_they_stand(tmp_path):
    words = encode_treebank(config(tmp_path)).treebank.dev[7].column("FORM")
    task = ParsingTask(
        config(tmp_path, "task.stored_examples=2", f"task.shown=['{' '.join(words)} !']"), CPU
    )
    task.model.eval()
    assert task.stored_sentences() == [0, 1, 7]


def test_only_sparsemap_losses_count_trees(tmp_path):
    task = ParsingTask(config(tmp_path, "loss=crf"), CPU)
    assert task.candidates is None
    assert set(task.validate().metrics) == {"uas"}


def test_statistics_of_a_known_solution():
    """Two words: equal scores of both heads of the second give two trees of weight one half."""
    scores = torch.full((2, 3, 3), -9.0, dtype=torch.float64)
    scores[:, 0, 1] = 9.0
    scores[0, 0, 2] = scores[0, 1, 2] = 1.0
    scores[1, 1, 2] = 9.0
    lengths = torch.tensor([2, 2])
    solution = sparsemap(Arborescence(), scores, lengths=lengths)
    statistics = CandidateStatistics()
    statistics.add(solution, lengths)
    assert statistics.trees == [2, 1]
    assert statistics.parents == [1.5, 1.0]
    assert statistics.means() == {"trees": 1.5, "parents": 1.25, "single_tree": 50.0}
    assert statistics.distributions() == {
        "trees_counts": [[1, 1], [2, 1]],
        "parents_counts": [[1.0, 1], [1.5, 1]],
    }
    first, second = weighted_trees(solution, lengths)
    assert sorted(tree["heads"] for tree in first) == [[0, 0], [0, 1]]
    assert [tree["weight"] for tree in first] == pytest.approx([0.5, 0.5])
    assert second == [{"heads": [0, 1], "weight": 1.0}]


@pytest.mark.parametrize(
    ("trees", "ratio"), [([], None), ([8.0], None), ([8.0, None, 4.0], 0.5), ([2.0, 3.0], 1.5)]
)
def test_the_trend_of_sparsity_compares_the_last_validation_with_the_first(trees, ratio):
    rows = [{} if one is None else {"dev_trees": one, "dev_parents": 2 * one} for one in trees]
    wanted = {f"train/{name}_ratio": ratio for name in ("trees", "parents")}
    assert sparsity_trends(rows) == ({} if ratio is None else wanted)


def test_a_run_leaves_predictions_candidates_and_records(tmp_path):
    run = config(tmp_path)
    folder = executed(run)
    treebank = encode_treebank(run).treebank
    for split, gold in (("dev", treebank.dev), ("test", treebank.test)):
        path = folder.predictions / f"{split}.conllu"
        parses = parse_conllu(path.read_bytes(), path)
        assert [s.column("FORM") for s in parses] == [s.column("FORM") for s in gold]
        parsed = ParsedSentences([s.heads for s in gold], [s.heads for s in parses])
        assert folder.read_record().metrics[f"{split}/uas"] == METRICS["uas"].value(parsed)
    assert_sums_give_the_records(folder)
    assert {"dev/trees", "dev/parents", "train/inference_share", "train/sentences_per_second"} <= (
        folder.read_record().metrics.keys()
    )
    assert 0 < folder.read_record().metrics["train/inference_share"] < 1
    first, last = folder.read_history()
    ratio = last["dev_trees"] / first["dev_trees"]
    assert folder.read_record().metrics["train/trees_ratio"] == pytest.approx(ratio)
    rows = folder.read_candidates()
    assert [row["index"] for row in rows] == [0, 1, 2, 3, 4]
    assert rows[0]["gold"] == treebank.dev[0].heads
    for name in ("dependency_arcs", "sparsity_over_training"):
        kind = figure_kind(name)
        assert kind.describe(kind.gather(runs_in(SparseMAP=folder)))

    given = treebank.files["test"].read_text("utf-8")
    stored = (folder.predictions / "test.conllu").read_text("utf-8")
    assert "Heads=" in stored
    assert printed(folder.path, given.split("\n")[:-1]) == stored
    headless = re.sub(r"(?m)^((?:[^\t\n]+\t){6})\d+", r"\1_", given)
    assert printed(folder.path, headless.rstrip("\n").split("\n")) == stored
    lines = treebank.files["dev"].read_text("utf-8").split("\n")
    shown = predicted(folder.path, lines[:-1], weights=True)[: len(rows)]
    for row, one in zip(rows, shown, strict=True):
        assert [*one.attention.columns] == ["ROOT", *row["words"]]
        kept = {tuple(tree["heads"]): tree["weight"] for tree in row["candidates"]}
        assert {tuple(tree.structure): tree.weight for tree in one.candidates} == pytest.approx(
            kept, abs=1e-5
        )
        mixed = torch.zeros_like(one.attention.weights)
        for tree in one.candidates:
            mixed[range(len(tree.structure)), tree.structure] += tree.weight
        torch.testing.assert_close(one.attention.weights, mixed, atol=1e-5, rtol=0)
    own = own_examples(folder.path, run.results_path / "own.conllu", lines[:-1], ())
    for row, one in zip(rows, own.read_candidates()[: len(rows)], strict=True):
        assert one["split"] == OWN_SPLIT
        assert one | {"candidates": [], "split": ""} == row | {"candidates": [], "split": ""}
        weights = [[tree["weight"] for tree in found["candidates"]] for found in (one, row)]
        assert weights[0] == pytest.approx(weights[1], abs=1e-5)
    with pytest.raises(DataError, match=r"input\.txt:1: expected tags, found _ as UPOS"):
        predicted(folder.path, ["1\tgo\t_\t_\t_\t_\t_\t_\t_\t_", ""])


def offsets_baseline(data: Any) -> float:
    """Accuracy of each tag's most frequent distance to the head, learned on the training data."""
    counts: dict[int, Counter[int]] = {}
    for tree in data.train:
        for place, (tag, head) in enumerate(zip(tree.tags, tree.heads, strict=True), start=1):
            counts.setdefault(tag, Counter())[head and head - place] += 1
    right = total = 0
    for tree in data.dev:
        for place, (tag, head) in enumerate(zip(tree.tags, tree.heads, strict=True), start=1):
            right += (head and head - place) == counts[tag].most_common(1)[0][0]
            total += 1
    return 100 * right / total


def test_the_demo_parser_learns_more_than_distances(tmp_path):
    run = compose_run(
        ["task=parsing", "loss=sparsemap", f"results_dir={tmp_path}", "training.max_epochs=4"]
    )
    baseline = offsets_baseline(encode_treebank(run))
    folder = executed(run)
    assert 50 < baseline + 10 < folder.read_record().metrics["dev/uas"]


def test_the_treebank_is_part_of_the_identity(tmp_path):
    first = identify(config(tmp_path))
    other = identify(config(tmp_path, "data.treebank=UD_Demo-Final"))
    assert first.fingerprint != other.fingerprint
    assert first.name == "UD_Demo-Initial demo"


def test_a_treebank_without_tags_is_refused_before_a_run_folder_exists(tmp_path):
    with pytest.raises(DataError, match=r"-ud-train\.conllu: XPOS .*task\.tags=upos"):
        locate(config(tmp_path, "task.tags=xpos"))
    assert not list(tmp_path.glob("*/runs/*"))


def test_there_are_no_ensembles_of_parsers():
    with pytest.raises(ConfigError, match="task=parsing has no ensembles"):
        ensemble_evaluation("parsing")


@pytest.mark.parametrize(
    ("name", "value"), [("frequency", [1]), ("frequency", "x"), ("column", "HEADS"), ("tags", [])]
)
def test_a_preparation_that_no_run_wrote_is_refused(name, value):
    symbols = [*SPECIALS, "a"]
    whole = {"words": symbols, "tags": symbols, "frequency": [0] * 5, "column": "UPOS"}
    assert restored_treebank(whole).encoder.frequency == [0] * 5
    with pytest.raises(ValueError, match=name if name != "tags" else "vocabulary"):
        restored_treebank({**whole, name: value})


def test_the_default_structure_has_one_identity(tmp_path):
    assert config(tmp_path, "structure=arborescence").structure is None
