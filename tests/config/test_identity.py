import pytest

from repro.config.compose import compose_run
from repro.config.identity import ensemble_id, flattened, run_id, settings, training_id
from repro.tasks.nmt import SPEC

BASE = ["mapping.alpha=1.5", "seed=1"]


def identity(*overrides: str, fingerprint: str = "f") -> str:
    return run_id(compose_run([*BASE, *overrides]), fingerprint)


@pytest.mark.parametrize(
    "override",
    [
        "hardware=cpu", "hardware.threads=1", "logger=tensorboard",
        "results_dir=/elsewhere", "data_dir=/elsewhere", "fail_fast=true",
        "training.checkpoint_minutes=1", "task.shown=[a]",
    ],
)  # fmt: skip
def test_what_changes_no_number_changes_no_identity(override: str) -> None:
    assert identity(override) == identity()


@pytest.mark.parametrize(
    "override",
    [
        "seed=2", "mapping.alpha=1.25", "loss.alpha=2", "precision=bf16", "training.decay=0.9",
        "task.setting=medium", "decoding.beam_size=4", "task.languages=[a]", "scale=small",
    ],
)  # fmt: skip
def test_what_may_change_a_number_changes_the_identity(override: str) -> None:
    assert identity(override) != identity()


def test_the_corpus_is_part_of_the_identity() -> None:
    assert identity(fingerprint="g") != identity()


def test_writing_out_a_default_changes_nothing() -> None:
    assert identity("training.max_grad_norm=5.0") == identity()


def training(*overrides: str) -> str:
    return training_id(compose_run(["task=nmt", *overrides]), "f", SPEC.unread_in_training)


@pytest.mark.parametrize(
    "override",
    [
        "decoding.beam_size=3", "decoding.max_length=9", "decoding.tune_penalties=true",
        "decoding.coverage_penalty=0.2", "decoding.min_length=2", "task.tuned_metric=bleu_lc",
        "task.stored_examples=3", "hardware=cpu",
    ],
)  # fmt: skip
def test_what_only_search_reads_changes_no_training(override: str) -> None:
    assert training(override) == training()


@pytest.mark.parametrize(
    "override", ["decoding.batch_size=3", "seed=2", "mapping=softmax", "training.max_epochs=3"]
)
def test_what_training_reads_changes_it(override: str) -> None:
    assert training(override) != training()


def test_an_ensemble_does_not_depend_on_the_order_of_its_members() -> None:
    assert ensemble_id(["a", "b"]) == ensemble_id(["b", "a"]) != ensemble_id(["a"])


def test_recorded_runs_keep_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that came later leaves earlier runs alone until it is used."""
    monkeypatch.setattr("repro.config.identity.NUMERIC_EPOCH", 3)
    alone = ["model.embedding_dropout=null", "model.output_bias=true"]
    assert run_id(compose_run(["task.setting=medium"]), "f") == "3cc5ed1fee63"
    assert run_id(compose_run(["scale=full", *alone]), "f") == "1a0506af69e9"
    assert identity("training.patience=3") != identity()


@pytest.mark.parametrize(
    ("override", "recorded"),
    [
        ("training.schedule=decay_after_epoch", ("training.decay_when", "late_epochs")),
        ("training.monitor=label_accuracy", ("training.select", "label_accuracy")),
        ("model.embedding_std=0.3", ("model.vector_deviation", 0.3)),
        ("data.train_premises=7", ("data.premises", 7)),
        ("data.check_size=false", ("data.expected", "any")),
    ],
)
def test_renamed_settings_are_recorded_by_their_earlier_names(
    override: str, recorded: tuple[str, object]
) -> None:
    content = flattened(settings(compose_run(["task=snli", override])))
    assert recorded in content.items()
    assert override.split("=")[0] not in content
