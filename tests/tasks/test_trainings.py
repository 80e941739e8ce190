"""What is true of the training of every task: epochs, interruptions, precision, absent corpora."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from executed import executed
from stored_statistics import untimed

from repro.config.compose import compose_run
from repro.config.schema import RunConfig
from repro.errors import DataError
from repro.runs.execute import execute
from repro.runs.job import locate
from repro.tasks import task_spec
from repro.training import loop
from repro.training.seeding import seed_everything

TRANSLATOR = [
    "model.embedding_size=8", "model.hidden_size=8", "model.layers=1", "training.max_steps=5",
    "decoding.max_length=12",
]  # fmt: skip
CLASSIFIER = ["model.vector_size=6", "model.hidden_size=6", "data.train_premises=40"]
SMALL = {
    "morphology": [*TRANSLATOR, "task.setting=medium"],
    "nmt": [*TRANSLATOR, "model.fertility.epochs=1", "decoding.beam_size=2"],
    "parsing": ["model.word_size=8", "model.tag_size=4", "model.lstm_size=8", "model.arc_size=8"],
    "snli": [*CLASSIFIER, "training.batch_size=32"],
    "nli_alignment": [*CLASSIFIER, "model.embedding_std=1"],
}


def config(task: str, root: Path, *overrides: str) -> RunConfig:
    common = [f"task={task}", "hardware=cpu", "task.stored_examples=2", "training.max_epochs=2"]
    return compose_run([*common, *SMALL[task], f"results_dir={root}", *overrides])


@pytest.mark.parametrize("name", ["morphology", "nmt", "parsing", "snli"])
def test_an_epoch_holds_every_example_once(name, tmp_path):
    task: Any = task_spec(name).build(config(name, tmp_path), torch.device("cpu"))
    seen, again, other = (
        [int(i) for batch in task.batches(epoch) for i in batch.indices] for epoch in (3, 3, 4)
    )
    train = task.data.splits["train"] if name == "nmt" else task.data.train
    assert sorted(seen) == list(range(len(getattr(train, "examples", train))))
    assert seen == again != other


@pytest.mark.parametrize(
    "choice",
    [
        *(f"snli mapping={one}" for one in ("sparsemax", "fusedmax", "oscarmax", "entmax")),
        *(f"nli_alignment model.alignment={one}" for one in ("words", "sequential", "matching")),
        *(f"parsing loss={one}" for one in ("crf", "margin_crf", "structured_svm", "sparsemap")),
        "nmt mapping=csparsemax",
        "nmt mapping=csoftmax model.coverage_vector=true",
        "nmt mapping=softmax model.coverage_vector=true",
    ],
)
def test_every_learned_parameter_moves(choice, root):
    name, *overrides = choice.split()
    seed_everything(1)
    task = task_spec(name).build(config(name, root, *overrides), torch.device("cpu"))
    task.loss(task.batches(0)[0])[0].backward()
    for parameter_name, parameter in task.model.named_parameters():
        if not parameter_name.startswith("fertility."):  # trained before the model
            assert parameter.grad is not None, parameter_name
            assert parameter.grad.isfinite().all(), parameter_name
            # Not every transition need have a weight at first.
            moves = parameter_name.startswith("aligner.") or parameter.grad.abs().sum() > 0
            assert moves, parameter_name


@pytest.mark.parametrize(
    ("name", "last", "overrides"),
    [
        ("nmt", 3, ["mapping=csparsemax", "loss=cross_entropy"]),
        ("parsing", 24, ["loss=margin_sparsemap"]),
        ("snli", 5, ["mapping=sparsemax"]),
    ],
)
def test_a_killed_run_continues_to_the_same_numbers(name, last, overrides, tmp_path, monkeypatch):
    """It stops behind its last checkpoint, one update earlier, in the second epoch if there is."""
    extra = ("training.checkpoint_minutes=0", *overrides)
    first = executed(config(name, tmp_path / "whole", *extra))
    original, updates = loop.update, []

    def dying(*arguments: Any) -> Any:
        updates.append(1)
        if len(updates) > last:
            raise RuntimeError("killed")
        return original(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "update", dying)
        assert execute(locate(config(name, tmp_path / "cut", *extra))).status == "failed"
    second = executed(config(name, tmp_path / "cut", *extra))
    assert second.run_id == first.run_id
    assert untimed(first.read_record()) == untimed(second.read_record())
    histories = [folder.read_history() for folder in (first, second)]
    for row in (*histories[0], *histories[1]):
        assert row.pop("seconds") > 0
    assert histories[0] == histories[1]


@pytest.mark.parametrize(
    ("name", "override"),
    [
        ("morphology", "mapping=entmax"),
        ("parsing", "loss=crf"),
        ("snli", "mapping=sparsemax"),
        ("nli_alignment", "model.alignment=sequential"),
        ("nli_alignment", "model.alignment=matching"),
    ],
)
def test_bfloat16_trains(name, override, tmp_path):
    short = "training.max_steps=2"
    folder = executed(config(name, tmp_path, "precision=bf16", short, override))
    metrics = folder.read_record().metrics
    assert all(map(math.isfinite, metrics.values()))


@pytest.mark.parametrize(
    ("name", "scale", "message"),
    [
        ("morphology", "small", "repro data fetch sigmorphon2018"),
        ("snli", "small", r"no snli_1.0/snli_1.0_train.jsonl"),
        ("parsing", "full", r"UD_Vietnamese: expected one file \*-ud-train"),
    ],
)
def test_a_missing_corpus_is_refused_before_any_work(name, scale, message, tmp_path):
    with pytest.raises(DataError, match=message):
        task_spec(name).identify(config(name, tmp_path, f"scale={scale}", f"data_dir={tmp_path}"))
