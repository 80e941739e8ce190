"""Sweeps in the report, from made-up runs with known statistics."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from links import dead_links
from measured import RECORD

from repro.evaluation.sufficient_statistics import ratios
from repro.report import build_report, build_sweep_report
from repro.report.cell import CellRunLink
from repro.report.claims import ClaimsOfPaper
from repro.report.document import Document
from repro.report.grid import Grid, GridCell, GridColumn, GridRow
from repro.report.render_html import html_report
from repro.report.render_markdown import markdown_report
from repro.report.significance import Comparer
from repro.report.sweeps import SweepView, sweep_view
from repro.results import Archive, ResultsError, publish, run_folder
from repro.results.sweeps import swept, write_sweep

RIGHT = {"1": 3, "1.5": 8, "2": 5}
"""Right answers of ten, by attention α."""


def make_run(root: Path, name: str, seed: int, right: int) -> None:
    metrics = {"test/accuracy": 10.0 * right + seed, "dev/accuracy": 50.0, "test/accuracy/x": 1.0}
    config = {"training": {"monitor": "accuracy"}, "seed": seed}
    record = replace(
        RECORD, run_id=name, seed=seed, config=config, metrics=metrics,
        signatures=dict.fromkeys(metrics, "s"), finished="",
    )  # fmt: skip
    outcomes = np.repeat([1.0, 0.0], [4 * right, 40 - 4 * right])
    run_folder(root, "demo", name).write_statistics({"test/accuracy": ratios(outcomes, 1)})
    publish(root, record)


def view_of(root: Path, axes: Sequence[str]) -> SweepView:
    return sweep_view(Archive(root, "demo"), Comparer(root, "demo"), grid(root, axes))


def grid(root: Path, axes: Sequence[str]):  # type: ignore[no-untyped-def]
    overrides, names = [], []
    for alpha, right in RIGHT.items():
        for beta in ("1", "2") if "loss.alpha" in axes else ("1",):
            for seed in (1, 2):
                name = f"{alpha}-{beta}-{seed}"
                make_run(root, name, seed, right)
                items = {"mapping.alpha": alpha, "loss.alpha": beta, "seed": str(seed)}
                overrides.append([f"{key}={value}" for key, value in items.items()])
                names.append(name)
    return swept(overrides, names, "demo", "made")


def test_one_numeric_axis_is_a_table_and_a_curve(tmp_path):
    view = view_of(tmp_path, ["mapping.alpha"])
    (table,) = view.grids
    texts = [row.texts for row in table.rows]
    assert [row[0] for row in texts] == list(RIGHT)
    assert [row[1].replace("*", "") for row in texts] == [
        "31.50 ± 0.71", "81.50 ± 0.71", "51.50 ± 0.71",
    ]  # fmt: skip
    assert [row.cells[1].best for row in table.rows] == [False, True, False]
    assert [run.run_id for run in table.rows[0].cells[1].runs] == ["1-1-1", "1-1-2"]
    assert view.best == ("mapping.alpha=1.5, seed 2", "82.00", "1.5-1-2")
    assert "*" not in texts[0][1]
    assert "*" in texts[1][1]
    assert view.svg.read_bytes().startswith(b"<svg")
    every, tests = view.details
    assert [column.title for column in every.columns[1:]] == ["accuracy", "accuracy"]
    assert [row.texts[:4] for row in tests.rows] == [
        ("1.5", "40", "2", "+50.00"), ("2", "40", "2", "+20.00"),
    ]  # fmt: skip


def test_two_numeric_axes_are_pivoted_and_a_heat_map(tmp_path):
    view = view_of(tmp_path, ["mapping.alpha", "loss.alpha"])
    (table,) = view.grids
    assert [(one.title, one.group) for one in table.columns] == [
        ("mapping.alpha", ""), ("1", "loss.alpha"), ("2", "loss.alpha"),
    ]  # fmt: skip
    assert len(table.rows) == len(RIGHT)
    assert view.svg is not None


def test_missing_runs_are_counted_and_a_sweep_without_any_shows_its_axes(tmp_path):
    sweep = grid(tmp_path, ["mapping.alpha"])
    for path in (tmp_path / "demo" / "records").glob("1-1-2*"):
        path.unlink()
    view = sweep_view(Archive(tmp_path, "demo"), Comparer(tmp_path, "demo"), sweep)
    assert view.state == "5 of 6 runs done"
    assert "(1/2)" in view.grids[0].rows[0].texts[1]
    empty = tmp_path / "empty"
    view = sweep_view(Archive(empty, "demo"), Comparer(empty, "demo"), sweep)
    assert (view.state, view.grids, view.svg) == ("0 of 6 runs done", (), None)
    assert view.notes == (f"mapping.alpha: {', '.join(RIGHT)}; seed: 1, 2",)


def test_values_that_give_the_same_run_are_one_row(tmp_path):
    make_run(tmp_path, "a", 1, 5)
    sweep = swept([["mapping.alpha=2"], ["mapping.alpha=2.0"]], ["a", "a"], "demo", "made")
    view = sweep_view(Archive(tmp_path, "demo"), Comparer(tmp_path, "demo"), sweep)
    assert (view.state, view.svg) == ("1 of 1 runs done", None)
    assert [row.texts for row in view.grids[0].rows] == [("51.00",)]


def test_a_run_without_the_metric_is_not_compared(tmp_path):
    sweep, archive = grid(tmp_path, ["mapping.alpha"]), Archive(tmp_path, "demo")
    (second,) = [one for one in archive.records if one.run_id == "1-1-2"]
    del second.metrics["test/accuracy"]
    view = sweep_view(archive, Comparer(tmp_path, "demo"), sweep)
    assert "(1/2)" in view.grids[0].rows[0].texts[1]
    assert [row.texts[2] for row in view.details[1].rows] == ["1", "1"]  # numbers of runs


def test_the_report_and_a_page_of_its_own_show_a_sweep(tmp_path, know):
    know()
    write_sweep(tmp_path, grid(tmp_path, ["mapping.alpha"]))
    row = {"epoch": 1, "step": 5, "dev_loss": 2.0}
    run_folder(tmp_path, "demo", "1.5-1-2").rewrite_history([row])
    archive = Archive(tmp_path, "demo")
    build: Sequence[tuple[Callable[[], Path], str]] = (
        (lambda: build_sweep_report(archive, "made"), "../pages/1.5-1-2.html"),
        (lambda: build_report(archive), "runs.html#1.5-1-2"),
        (lambda: build_sweep_report(archive, "made"), "../pages/1.5-1-2.html"),
    )
    for make, address in build:
        file = make()
        assert dead_links(file) == []
        page = file.read_text(encoding="utf-8")
        named = f'"id":"1.5-1-2","label":"mapping.alpha=1.5, seed=2","page":"{address}"'
        assert page.count(named) == 1
        assert 'id="sweep-made"' in page
        assert page.count("<svg") == 1
    assert "### made" in (tmp_path / "demo" / "report.md").read_text(encoding="utf-8")
    with pytest.raises(ResultsError, match="no sweep 'other'"):
        build_sweep_report(archive, "other")
    sweeps = tmp_path / "demo" / "sweeps"
    assert {path.name for path in sweeps.iterdir()} == {"made.json", "made.svg", "made.html"}
    (sweeps / "made.json").unlink()
    build_report(archive)
    assert [*sweeps.iterdir()] == []


def test_sweeps_after_the_last_reproduction_come_first(tmp_path):
    view = replace(view_of(tmp_path, ["mapping.alpha"]), finished="2026-01-02T00:00:00+00:00")
    own = frozenset(view.sweep.runs)

    def shown(ends: str) -> Document:
        run = CellRunLink("", "", "other")
        grid = Grid("", (GridColumn("", "measured"),), (GridRow((GridCell("1", runs=(run,)),)),))
        section = SimpleNamespace(grids=(grid,), details=())
        finished = {"other": ends, **dict.fromkeys(own, view.finished)}
        return Document("demo", "", (section,), (), sweeps=(view,), finished=finished)  # type: ignore[arg-type]

    assert shown("2026-01-01T00:00:00+00:00").new_sweeps == (view,)
    assert shown("2026-01-03T00:00:00+00:00").new_sweeps == ()
    first = Document("demo", "", (), (), sweeps=(view,), claims=(ClaimsOfPaper("p", "", (), ()),))
    page = html_report(first)
    assert page.index('id="new-sweeps"') < page.index('id="claims"')
    text = markdown_report(first, tmp_path / "demo")
    assert text.index("## Sweeps") < text.index("## Claims")


@pytest.mark.parametrize(
    "changes", [{"signatures": dict.fromkeys(["test/accuracy", "dev/accuracy"], "t")}, {"epoch": 5}]
)
def test_a_combination_pools_runs_of_one_definition(changes, tmp_path):
    sweep, archive = grid(tmp_path, ["mapping.alpha"]), Archive(tmp_path, "demo")
    (one,) = [one for one in archive.records if one.run_id == "1-1-2"]
    changed = replace(one, **{"finished": "", "metrics": {"test/accuracy": 7.0}} | changes)
    others = [replace(other, finished="2026") for other in archive.records if other != one]
    archive.__dict__["records"] = [*others, changed]
    view = sweep_view(archive, Comparer(tmp_path, "demo"), sweep)
    assert view.grids[0].rows[0].texts[1] == "31.00 (1/2)"
    assert [row.texts[2] for row in view.details[1].rows] == ["1", "1"]  # numbers of runs
