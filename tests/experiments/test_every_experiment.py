"""Every experiment composes, and takes one step from its file to its table or figure."""

from pathlib import Path

import pytest

from repro.config.compose import compose_run
from repro.config.experiment import list_experiments, load_experiment, plan_runs
from repro.results import figure_path, list_runs, read_experiment_records, records_path, table_path
from repro.runs.reproduce import reproduce

ONE_STEP = [
    "hardware=cpu", "hardware.jobs=1", "task.analysed=3", "model.embedding_size=6",
    "model.hidden_size=6", "model.layers=1", "training.max_steps=1", "decoding.max_length=4",
    "decoding.max_hypotheses=5",
]  # fmt: skip


@pytest.mark.parametrize("name", list_experiments())
@pytest.mark.parametrize("scale", ["demo", "small", "full"])
def test_every_configuration_composes(name: str, scale: str) -> None:
    planned = list(plan_runs(load_experiment(name), scale))
    configs = [compose_run(overrides) for overrides in dict.fromkeys(p.overrides for p in planned)]
    assert all(config.scale.name == scale for config in configs)


COMPUTED = [name for name in list_experiments() if load_experiment(name).computed]
MEASURED = [name for name in list_experiments() if name not in COMPUTED]


@pytest.mark.parametrize("name", MEASURED)
def test_every_experiment_takes_one_step(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("repro.runs.reproduce.load_experiment", _with_two_seeds)
    done = reproduce([name], "demo", [*ONE_STEP, f"results_dir={tmp_path}"])
    assert {outcome.status for outcome in done.outcomes} == {"done"}
    experiment = _with_two_seeds(name)
    assert str(tmp_path) not in records_path(tmp_path, "demo", name).read_text()
    records = read_experiment_records(tmp_path, "demo", name)
    for row in experiment.row_labels():
        for column in experiment.columns:
            kind = "ensemble" if column.over == "ensemble" else "run"
            found = [
                record
                for record in records
                if (record.row, record.column, record.kind) == (row, column.name, kind)
                and record.metric == column.metric
            ]
            assert len(found) == (1 if kind == "ensemble" else 2), (row, column.name)
    assert experiment.title in done.report.read_text()
    written = table_path if experiment.kind == "table" else figure_path
    ending = "md" if experiment.kind == "table" else "svg"
    assert written(tmp_path, "demo", name, ending).exists()


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("scale", ["demo", "small", "full"])
def test_every_figure_of_the_library_is_drawn_without_a_run(
    name: str, scale: str, tmp_path: Path
) -> None:
    done = reproduce([name], scale, [f"results_dir={tmp_path}"])
    assert done.outcomes == []
    assert list_runs(tmp_path, scale) == []
    assert not records_path(tmp_path, scale, name).exists()
    assert str(tmp_path) not in figure_path(tmp_path, scale, name, "json").read_text()
    for ending in ("svg", "png"):
        assert figure_path(tmp_path, scale, name, ending).exists()
    assert load_experiment(name).title in done.report.read_text()


def _with_two_seeds(name: str):  # type: ignore[no-untyped-def]
    experiment = load_experiment(name)
    experiment.seeds = [1, 2]
    return experiment


def test_collecting_starts_no_run(tmp_path: Path) -> None:
    done = reproduce(["peters2019/figure5"], "demo", [f"results_dir={tmp_path}"], collect=True)
    assert done.outcomes == []
    assert list_runs(tmp_path, "demo") == []
    assert "not run" in done.report.read_text()
