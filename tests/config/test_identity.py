from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import pytest

from repro.config import ConfigError
from repro.config.compose import compose_run
from repro.config.identity import (
    changes_numbers,
    ensemble_id,
    run_id,
    settings,
    training_id,
    without_nuisance,
)
from repro.config.schema import registry
from repro.config.schema.groups import TaskConfig
from repro.config.schema.mapping import GammaConfig, UnboundedConfig
from repro.tasks.nmt import SPEC
from repro.version import NUMERIC_EPOCH

BASE = ["mapping.alpha=1.5", "seed=1"]


def identity(*overrides: str, fingerprint: str = "f") -> str:
    return run_id(compose_run([*BASE, *overrides]), fingerprint)


@pytest.mark.parametrize(
    "override",
    [
        "hardware=cpu", "hardware.threads=1", "logger=tensorboard",
        "results_dir=/elsewhere", "data_dir=/elsewhere", "fail_fast=true",
        "training.checkpoint_minutes=1", "task.shown=[a]", "training.graphs=off",
    ],
)  # fmt: skip
def test_what_changes_no_number_changes_no_identity(override):
    assert identity(override) == identity()


@pytest.mark.parametrize(
    "override",
    [
        "seed=2", "mapping.alpha=1.25", "loss.alpha=2", "precision=bf16", "training.decay=0.9",
        "task.setting=medium", "decoding.beam_size=4", "task.languages=[a]", "scale=small",
        "training.graphs=auto",
    ],
)  # fmt: skip
def test_what_may_change_a_number_changes_the_identity(override):
    assert identity(override) != identity()


@pytest.mark.parametrize("sign", ["", "+", "++"])
def test_the_command_that_repeats_a_run_leaves_out_where_it_is_stored(sign):
    assert not changes_numbers(f"{sign}results_dir=/elsewhere")
    assert not changes_numbers(f"{sign}hardware.threads=1")
    assert changes_numbers(f"{sign}seed=1")


def test_the_corpus_is_part_of_the_identity():
    assert identity(fingerprint="g") != identity()


def test_writing_out_a_default_changes_nothing():
    assert identity("training.max_grad_norm=5.0") == identity()


def test_a_folder_has_one_identity_however_it_is_written():
    spellings = ("mine", "./mine", "mine/", "/elsewhere/mine", "../other/mine")
    assert len({identity(f"data.folder={one}") for one in spellings}) == 1
    assert identity("data.folder=mine") != identity("data.folder=yours")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("task.languages=[b,a]", "task.languages=[a,b]"),
        ("training.weight_decay=-0.0", "training.weight_decay=0"),
        ("training.learning_rate=1e-3", "training.learning_rate=0.0010"),
    ],
)
def test_two_spellings_of_one_computation_have_one_identity(one, other):
    assert identity(one) == identity(other)
    assert settings(compose_run([*BASE, one])) == settings(compose_run([*BASE, other]))


def test_a_setting_that_is_added_leaves_identities_as_they_were():
    config = compose_run(["task=morphology"])
    recorded = asdict(config)
    del recorded["training"]["graphs"]  # by a version that did not have it
    assert without_nuisance(recorded) == settings(config)
    assert without_nuisance(recorded) != settings(compose_run(["training.graphs=auto"]))


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str, type], None]]:
    """Register a schema of an extension."""
    known = {group: dict(schemas) for group, schemas in registry.registered_schemas().items()}

    def register(group: str, name: str, schema: type) -> None:
        known[group][name] = schema
        monkeypatch.setattr(registry, "registered_schemas", lambda: known)
        registry._declarations.cache_clear()

    yield register
    registry._declarations.cache_clear()


def test_what_the_package_declares_of_its_tasks_is_not_true_of_others(declare):
    @dataclass
    class Own(TaskConfig):
        languages: list[str] = field(default_factory=list)
        shown: int = 4

    declare("task", "own", Own)
    ordered = [
        {"task": {"name": "own", "languages": languages, "shown": shown}}
        for languages in (["de", "en"], ["en", "de"])
        for shown in (1, 4)
    ]
    assert [without_nuisance(one) for one in ordered] == ordered


def test_what_a_schema_declares_changes_no_identity_of_other_schemas(declare):
    chosen = [f"mapping={name}" for name in ("softmax", "sparsemax", "fusedmax", "entmax")]
    before = [settings(compose_run([one])) for one in chosen]
    assert before[1]["mapping"] == {"name": "sparsemax", "gamma": 1.0}

    @dataclass
    class Own(UnboundedConfig):
        added: ClassVar[dict[str, Any]] = {"gamma": 1.0, "alpha": 1.5}
        unread: ClassVar[tuple[str, ...]] = ("lam",)

        gamma: float = 1.0
        alpha: float = 1.5
        lam: float = 0.1

    declare("mapping", "own", Own)
    assert [settings(compose_run([one])) for one in chosen] == before
    own = {"name": "own", "gamma": 1.0, "alpha": 1.25, "lam": 0.2}
    assert without_nuisance({"mapping": own}) == {"mapping": {"name": "own", "alpha": 1.25}}


def test_a_choice_whose_name_is_that_of_no_schema_has_the_declarations_of_its_own(declare):
    class Own(GammaConfig):  # of softmax and sparsemax; fusedmax extends it
        added: ClassVar[dict[str, Any]] = {"gamma": 1.0}

    declare("mapping", "gamma", Own)
    for name in ("softmax", "sparsemax"):
        assert without_nuisance({"mapping": {"name": name, "gamma": 1.0}})["mapping"] == {
            "name": name
        }
    entmax = {"name": "entmax", "gamma": 1.0}
    assert without_nuisance({"mapping": entmax}) == {"mapping": entmax}


def test_a_declaration_of_what_is_no_setting_is_refused(declare):
    class Own(GammaConfig):
        unordered: ClassVar[tuple[str, ...]] = ("languages",)

    declare("mapping", "own", Own)
    with pytest.raises(ConfigError, match="schema own of mapping declares languages; expected fie"):
        run_id(compose_run(BASE), "f")


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
def test_what_only_search_reads_changes_no_training(override):
    assert training(override) == training()


@pytest.mark.parametrize(
    "override", ["decoding.batch_size=3", "seed=2", "mapping=softmax", "training.max_epochs=3"]
)
def test_what_training_reads_changes_it(override):
    assert training(override) != training()


def test_an_ensemble_does_not_depend_on_the_order_of_its_members():
    assert ensemble_id(["a", "b"]) == ensemble_id(["b", "a"]) != ensemble_id(["a"])


def test_the_version_of_the_mathematics_is_part_of_every_identity(monkeypatch):
    def identities() -> set[str]:
        return {identity(), training(), ensemble_id(["a"])}

    before = identities()
    monkeypatch.setattr("repro.config.identity.NUMERIC_EPOCH", NUMERIC_EPOCH + 1)
    assert not before & identities()


def test_one_alignment_has_one_identity():
    chosen = [["model.alignment=matching"], ["structure=matching"]]
    first, second = (settings(compose_run(["task=nli_alignment", *one])) for one in chosen)
    assert first == second
