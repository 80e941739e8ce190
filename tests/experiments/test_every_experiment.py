"""Every experiment composes, and takes one step from its file to its table or figure."""

import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from repro.config.compose import compose_run
from repro.config.experiment import Experiment, list_experiments, load_experiment
from repro.config.planning import plan_runs
from repro.evaluation.metrics import formula_of
from repro.report.figures import read_figure_data
from repro.report.figures.canvas import Canvas
from repro.report.significance import Comparer, compare_rows
from repro.report.table import chosen_records
from repro.results import Archive, figure_path, list_runs, read_records, table_path
from repro.runs.reproduce import reproduce

ONE_STEP = ["hardware=cpu", "hardware.parallel_runs=1", "training.max_steps=1"]
TINY_PAIRS = ["model.vector_size=4", "model.hidden_size=4", "data.train_premises=30"]
TINY_TEXT = [
    "model.embedding_size=6", "model.hidden_size=6", "model.fertility.epochs=1",
    "decoding.max_length=4", "decoding.beam_size=2", "decoding.penalty_grid=[0,1]",
]  # fmt: skip
TINY = {
    "morphology": [
        "model.embedding_size=6", "model.hidden_size=6", "model.layers=1", "decoding.max_length=4",
        "decoding.max_hypotheses=5",
    ],
    "parsing": [
        "model.word_size=4", "model.tag_size=3", "model.lstm_size=4", "model.layers=1",
        "model.arc_size=4",
    ],
    "snli": TINY_PAIRS,
    "nli_alignment": [*TINY_PAIRS, "training.max_steps=3", "training.validate_every_steps=1"],
    "nmt": TINY_TEXT,
    "summarization": TINY_TEXT,
}  # fmt: skip
"""Overrides that make a large model small, by task; speed is compared over three validations."""
MOST_ROWS = 4
"""Rows of an experiment that are run; every row is composed."""


@pytest.mark.parametrize("name", list_experiments())
def test_every_row_column_and_scale_composes(name):
    """No row knows a column, and only rows and columns of its own make a scale know them.

    So each row is composed in its first column and each column in its first row, at the first scale
    and at those with overrides for some rows or columns; at other scales one run is enough.
    """
    experiment = load_experiment(name)
    for number, (scale, own) in enumerate(experiment.scales.items()):
        planned = list(plan_runs(experiment, scale))
        rows = {run.row: run.overrides for run in reversed(planned)}
        columns = {run.column: run.overrides for run in reversed(planned)}
        runs = [*dict.fromkeys([*rows.values(), *columns.values()])]
        alike = number > 0 and own.rows is None and own.columns is None
        configs = [compose_run(run) for run in (runs[:1] if alike else runs)]
        assert all(config.scale.name == scale for config in configs)


def made_small(task: str) -> list[str]:
    """Overrides of a task; one that is not listed is small as it is."""
    return ["task.stored_examples=3", *TINY[task]] if task in TINY else []


COMPUTED = [name for name in list_experiments() if load_experiment(name).computed]
MEASURED = [
    name
    for name in list_experiments()
    if name not in COMPUTED and "demo" in load_experiment(name).scales
]


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one results folder for each paper, whose artefacts share runs."""
    return tmp_path_factory.mktemp("papers")


@pytest.fixture
def shared(name: str, papers: Path) -> Iterator[Path]:
    """Remove all artefacts from the shared folder: the report would draw them anew every time."""
    results = papers / name.partition("/")[0]
    yield results
    for folder in ("records", "tables", "figures"):
        shutil.rmtree(results / "demo" / folder, ignore_errors=True)


@pytest.mark.parametrize("name", MEASURED)
def test_every_experiment_takes_one_step(name, shared, monkeypatch):
    monkeypatch.setattr("repro.runs.work.load_experiment", _with_few_runs)
    monkeypatch.setattr(Canvas, "pdf", lambda canvas: b"")  # test_figures.py draws every kind
    (task,) = {run.overrides[0] for run in plan_runs(load_experiment(name), "demo")}
    tiny = [*ONE_STEP, *made_small(task.removeprefix("task=")), f"results_dir={shared}"]
    before = _run_ids(shared)
    done = reproduce([name], "demo", tiny)
    assert {outcome.status for outcome in done.outcomes} <= {"done"}
    assert {outcome.run_id for outcome in done.outcomes} == _run_ids(shared) - before
    experiment = _with_few_runs(name)
    archive = Archive(shared, "demo", {name: tiny})
    assert not any(str(shared) in one.to_json() for one in archive.records)
    measured = archive.measurements(experiment)
    records = chosen_records(experiment, measured, "demo")
    for row in experiment.rows_at("demo"):
        for column in experiment.columns_at("demo"):
            kind = "ensemble" if column.aggregate == "ensemble" else "run"
            found = [
                record
                for record in records
                if (record.row, record.column, record.kind) == (row, column.name, kind)
                and record.metric == column.metric
            ]
            expected = 1 if kind == "ensemble" else len(experiment.seeds_at("demo"))
            assert len(found) == expected, (row, column.name)
    compared = compare_rows(experiment, measured, "demo", Comparer(shared, "demo"))
    assert {(row, column) for row, column, _ in compared} == _comparable(experiment)
    assert experiment.title in done.report.read_text()
    if experiment.kind == "table":
        assert table_path(shared, "demo", name, "md").exists()
        return
    assert read_figure_data(shared, "demo", name) is not None
    assert figure_path(shared, "demo", name, "svg").exists()


@pytest.mark.parametrize("name", COMPUTED)
def test_every_figure_of_the_library_is_drawn_without_a_run(name, tmp_path):
    done = reproduce([name], "small", [f"results_dir={tmp_path}"])
    assert done.outcomes == []
    assert list_runs(tmp_path, "small") == []
    assert read_records(tmp_path, "small") == []
    assert str(tmp_path) not in figure_path(tmp_path, "small", name, "json").read_text()
    for ending in ("svg", "png"):
        assert figure_path(tmp_path, "small", name, ending).exists()
    assert load_experiment(name).title in done.report.read_text()


def _run_ids(results: Path) -> set[str]:
    return {one.run_id for one in read_records(results, "demo") if one.kind == "run"}


def _comparable(experiment: Experiment) -> set[tuple[str, str]]:
    """Cells whose metric is a function of sums, in other rows than the baseline."""
    if experiment.baseline is None:
        return set()
    columns = [c.name for c in experiment.columns_at("demo") if formula_of(c.metric) is not None]
    others = [row for row in experiment.rows_at("demo") if row != experiment.baseline]
    return {(row, column) for row in others for column in columns}


def _with_few_runs(name: str) -> Experiment:
    """An experiment with one column, its most different rows and one seed, two for ensembles."""
    experiment = load_experiment(name)
    demo = experiment.scales["demo"]
    rows = experiment.rows_at("demo")
    if len(rows) > MOST_ROWS:
        assert not any((demo.rows or {}).values())  # overrides of patterns would be lost
        kept = {*rows[:: math.ceil(len(rows) / (MOST_ROWS - 1))], experiment.baseline, rows[-1]}
        demo.rows = {row: [] for row in rows if row in kept}
    demo.column_seeds = {}
    demo.seeds = [1, 2] if any(c.aggregate == "ensemble" for c in experiment.columns) else [1]
    if demo.columns is not None:
        demo.columns = dict([*demo.columns.items()][:1])
    if experiment.tune is not None:
        experiment.tune.max_extra_values = 1
    return experiment
