"""Every artefact at full scale is run with the settings of its paper, key by key."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
from full_protocols import PROTOCOLS, Protocol

from repro.config.compose import compose_run
from repro.config.experiment import list_experiments, load_experiment
from repro.config.planning import PlannedRun, plan_runs

COMPUTED_ELSEWHERE = (
    "hardware.", "logger.", "data_dir", "results_dir", "fail_fast", "scale.", "seed",
    "training.checkpoint_minutes", "data.generated", "data.seed", "data.train_premises",
    "task.stored_examples", "task.compared", "task.shown", "task.evaluation_", "task.schedule.",
    "data.folder", "data.tokenised", "name",
)  # fmt: skip
"""Keys that decide where and how a run is computed, what is stored of it, or other corpora."""


def flattened(node: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield from flattened(value, f"{prefix}{key}.")
        elif value is not None or key not in ("mapping", "decoding"):  # a group of other tasks
            yield f"{prefix}{key}", value


def settings_of(run: PlannedRun) -> dict[str, Any]:
    """Every setting that a run reads."""
    found = dict(flattened(asdict(compose_run(run.overrides))))
    unread = [*COMPUTED_ELSEWHERE, *([run.setting] if run.setting else [])]
    if found["training.schedule"] != "decay_after_epoch":
        unread.append("training.decay_from")
    if found.get("mapping.name") not in ("csoftmax", "csparsemax"):
        unread.append("model.fertility.")
    if not found.get("decoding.tune_penalties"):
        unread += ["decoding.penalty_grid", "decoding.coverage_floor"]
    return {key: value for key, value in found.items() if not key.startswith(tuple(unread))}


def expected_of(protocol: Protocol, run: PlannedRun) -> dict[str, Any]:
    """Collect the settings that the tables state for a run."""
    rows, columns = protocol.rows[run.row], protocol.columns[run.column]
    settings = {key: one.value for key, one in (protocol.base | columns | rows).items()}
    settings.pop(run.setting, None)  # of the grid
    if not settings.get("decoding.tune_penalties"):
        for key in ("decoding.penalty_grid", "decoding.coverage_floor"):
            settings.pop(key, None)
    return settings


def test_every_artefact_with_runs_has_a_protocol() -> None:
    found = {name: load_experiment(name) for name in list_experiments()}
    run = {name for name, one in found.items() if "full" in one.scales and not one.computed}
    assert set(PROTOCOLS) == run


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_settings_of_every_cell_are_those_of_the_paper(name: str) -> None:
    protocol, experiment = PROTOCOLS[name], load_experiment(name)
    cells = {(run.row, run.column): run for run in plan_runs(experiment, "full")}
    assert {row for row, _ in cells} == set(protocol.rows)
    assert {column for _, column in cells} == set(protocol.columns)
    for (row, column), run in cells.items():
        found, expected = settings_of(run), expected_of(protocol, run)
        different = {
            key: (found.get(key, "missing"), expected.get(key, "missing"))
            for key in found.keys() | expected.keys()
            if found.get(key, "missing") != expected.get(key, "missing")
        }
        assert different == {}, (row, column)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_seeds_and_grids_are_those_of_the_paper(name: str) -> None:
    protocol, experiment = PROTOCOLS[name], load_experiment(name)
    for column in protocol.columns:
        assert experiment.seeds_at("full", column) == protocol.seeds
        if protocol.tuned is not None:
            assert experiment.grid_at("full", column) == list(protocol.tuned[1])
    tune = experiment.tune
    assert (None if tune is None else (tune.key, tune.grid_factor)) == (
        None if protocol.tuned is None else (protocol.tuned[0], protocol.tuned[2])
    )


@pytest.mark.parametrize("name", PROTOCOLS)
def test_departures_differ_from_what_is_printed(name: str) -> None:
    protocol = PROTOCOLS[name]
    parts = [protocol.base, *protocol.rows.values(), *protocol.columns.values()]
    settings = [one for part in parts for one in part.values()]
    assert all(one.origin for one in settings)
    assert all(one.value != one.printed for one in settings if one.origin.startswith("departs"))
    assert all(one.printed is None for one in settings if not one.origin.startswith("departs"))
