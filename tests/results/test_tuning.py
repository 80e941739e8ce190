from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from measured import made_up_table

from repro.config.experiment import Axis, Column, Experiment, ScalePlan, Tuning
from repro.config.planning import PlannedRun, plan_runs
from repro.results.cells import following_runs

GRID = [0.5, 1.0, 2.0]
TUNED_BY = ("dev/uas", "dev/trees", "dev/tree_loss")


def tuned(**changes: object) -> Experiment:
    scales = changes.pop("scales", {"full": ScalePlan()})
    settings: dict[str, object] = {"grid_factor": 2.0, "max_extra_values": 2} | changes
    return made_up_table(
        base=["task=parsing"],
        rows=[Axis("loss", {"a": ["loss=crf"]})],
        columns=[Column("x", "test/uas")],
        seeds=[4, 5, 6],
        scales=scales,  # type: ignore[arg-type]
        tune=Tuning("training.learning_rate", list(GRID), "dev/uas", **settings),  # type: ignore[arg-type]
    )


def measured(planned: Sequence[PlannedRun], scores: Mapping[float, float]) -> dict[PlannedRun, Any]:
    """Records of the runs whose values have scores."""
    found = {run: scores.get(run.value or 0) for run in planned}
    return {
        run: None if score is None else SimpleNamespace(metrics=dict.fromkeys(TUNED_BY, score))
        for run, score in found.items()
    }


def run_to_the_end(
    experiment: Experiment, scores: Mapping[float, float]
) -> list[tuple[int, float | None]]:
    """Seeds and values in the order in which they are asked for; other values fail."""

    planned = list(plan_runs(experiment, "full"))
    while new := following_runs(experiment, "full", measured(planned, scores)):
        planned += new
    return [(run.seed, run.value) for run in planned]


FIRST = [(4, value) for value in GRID]


def test_a_scale_may_add_fewer_values_than_the_experiment():
    rising = {value: value for value in (*GRID, 4.0, 8.0)}
    wide, narrow = tuned(), tuned(scales={"full": ScalePlan(max_extra_values=1)})
    assert run_to_the_end(wide, rising)[3:] == [(4, 4.0), (4, 8.0), (5, 8.0), (6, 8.0)]
    assert run_to_the_end(narrow, rising)[3:] == [(4, 4.0), (5, 4.0), (6, 4.0)]
    kept = tuned(scales={"full": ScalePlan(max_extra_values=0)})
    assert run_to_the_end(kept, rising)[3:] == [(5, 2.0), (6, 2.0)]


@pytest.mark.parametrize(
    ("scores", "following"),
    [
        ({0.5: 70, 1: 80, 2: 75}, [(5, 1.0), (6, 1.0)]),
        ({0.5: 70, 1: 75, 2: 80, 4: 79}, [(4, 4.0), (5, 2.0), (6, 2.0)]),
        ({0.5: 70, 1: 75, 2: 80, 4: 81, 8: 80}, [(4, 4.0), (4, 8.0), (5, 4.0), (6, 4.0)]),
        ({0.5: 80, 1: 75, 2: 70, 0.25: 79}, [(4, 0.25), (5, 0.5), (6, 0.5)]),
        ({0.5: 1, 1: 2, 2: 3, 4: 4, 8: 5}, [(4, 4.0), (4, 8.0), (5, 8.0), (6, 8.0)]),
        ({0.5: 80, 1: 80, 2: 80, 0.25: 70}, [(4, 0.25), (5, 0.5), (6, 0.5)]),
        ({0.5: 70, 1: 75, 2: 80}, [(4, 4.0), (5, 2.0), (6, 2.0)]),
        ({1: 75}, [(5, 1.0), (6, 1.0)]),
        ({}, []),
    ],
    ids=["inside", "once wider", "twice wider", "lower", "limit", "tie", "fails", "alone", "none"],
)
def test_the_grid_grows_at_its_ends_then_the_other_seeds_run(scores, following):
    assert run_to_the_end(tuned(), scores) == [*FIRST, *following]


@pytest.mark.parametrize(
    ("key", "values", "best"), [("model.dropout", [0.3, 0.6], 0.6), ("model.layers", [1, 2], 1)]
)
def test_the_grid_ends_where_the_range_of_the_setting_does(key, values, best):
    experiment = tuned()
    experiment.tune = replace(experiment.tune, key=key, values=values)
    scores = {value: 80.0 if value == best else 70.0 for value in values}
    expected = [*((4, value) for value in values), (5, best), (6, best)]
    assert run_to_the_end(experiment, scores) == expected


def test_without_extension_the_grid_stays_as_it_is():
    ends = {0.5: 70, 1: 75, 2: 80}
    assert run_to_the_end(tuned(grid_factor=None), ends) == [*FIRST, (5, 2.0), (6, 2.0)]


@pytest.mark.parametrize("key", ["x", "treebank"], ids=["name", "label"])
def test_a_column_has_seeds_and_a_value_of_its_own_that_is_not_extended(key):
    plan = ScalePlan(column_seeds={key: [9, 8]}, column_tuned={key: [3.0]})
    experiment = tuned(grid_factor=2.0)
    experiment.columns = [replace(one, labels=["treebank"]) for one in experiment.columns]
    experiment.scales = {"full": plan}
    assert run_to_the_end(experiment, {3: 50}) == [(9, 3.0), (8, 3.0)]


def test_the_value_is_an_override_of_the_run():
    first = next(plan_runs(tuned(), "full"))
    assert first.overrides == (
        "task=parsing", "scale=full", "loss=crf", "training.learning_rate=0.5", "seed=4",
    )  # fmt: skip


def test_only_the_rows_that_are_named_are_tuned():
    experiment = tuned(rows=["b"], grid_factor=None)
    experiment.rows = [Axis("loss", {"a": ["loss=crf"], "b": ["loss=margin_crf"]})]
    planned = list(plan_runs(experiment, "full"))
    fixed = [(run.seed, run.value, run.setting) for run in planned if run.row == "a"]
    assert fixed == [(seed, None, "") for seed in (4, 5, 6)]
    assert [(run.seed, run.value) for run in planned if run.row == "b"] == FIRST
    scores = {0.5: 70.0, 1.0: 80.0, 2.0: 75.0}
    new = following_runs(experiment, "full", measured(planned, scores))
    assert [(run.row, run.seed, run.value) for run in new] == [("b", 5, 1.0), ("b", 6, 1.0)]


def test_without_tuning_nothing_follows():
    experiment = tuned()
    experiment.tune = None
    planned = list(plan_runs(experiment, "full"))
    assert [(run.seed, run.value) for run in planned] == [(4, None), (5, None), (6, None)]
    assert following_runs(experiment, "full", measured(planned, {})) == []


def test_a_metric_without_a_better_direction_is_refused():
    experiment = tuned()
    experiment.tune.metric = "dev/trees"
    with pytest.raises(ValueError, match="maximized or minimized"):
        run_to_the_end(experiment, {1: 1.0})


def test_a_smaller_loss_is_better():
    experiment = tuned()
    experiment.tune.metric = "dev/tree_loss"
    assert run_to_the_end(experiment, {0.5: 2, 1: 1, 2: 3})[-1] == (6, 1.0)


def test_seeds_of_a_column_replace_those_of_the_scale_and_these_those_of_the_artefact():
    plan = ScalePlan(seeds=[1], column_seeds={"x": [9, 8]})
    experiment = tuned(scales={"full": plan, "demo": ScalePlan()})
    assert experiment.seeds_at("full", "x") == [9, 8]
    assert experiment.seeds_at("full", "y") == [1]
    assert experiment.seeds_at("demo", "x") == [4, 5, 6]
