"""A failed run is shown at the top of the report and in the cells that lack it."""

from pathlib import Path

import pytest

from repro.config.compose import compose_run, to_yaml
from repro.config.experiment import load_experiment
from repro.config.planning import PlannedRun, plan_runs
from repro.report import build_report
from repro.report.cell import FAILED, FAILED_MARK, Cell
from repro.results import Archive, RunFolder, run_folder

TABLE = "niculae2017/table5"
ROW = "sq-pnorm-max (FISTA)"


@pytest.fixture
def planned() -> PlannedRun:
    return next(run for run in plan_runs(load_experiment(TABLE), "demo") if run.row == ROW)


@pytest.fixture
def failed(tmp_path: Path, planned: PlannedRun) -> RunFolder:
    folder = run_folder(tmp_path, "demo", "0123456789ab")
    folder.mark_running()
    folder.write_config(to_yaml(compose_run(planned.overrides)))
    folder.mark_failed("Traceback\n  in a file\nRuntimeError: no <more> memory\n")
    return folder


def test_cells_of_a_failed_run(tmp_path, failed, planned):
    archive, experiment = Archive(tmp_path, "demo"), load_experiment(TABLE)
    cells = archive.failed_cells(experiment)
    assert {row for row, _ in cells} == {ROW}
    assert [one.run_id for one in cells[ROW, planned.column]] == [failed.run_id]
    failed.config.write_bytes(b"\xff: [")
    assert Archive(tmp_path, "demo").failed_cells(experiment) == {}


def test_the_report_marks_a_failed_run(tmp_path, failed):
    report = build_report(Archive(tmp_path, "demo"), [TABLE])
    html, markdown = report.read_text(), report.with_suffix(".md").read_text()
    top, _ = html.split('<section class="paper"', 1)
    for text in (failed.run_id, TABLE, "RuntimeError: no &lt;more&gt; memory"):
        assert text in top
        assert text.replace("&lt;", r"\<").replace("&gt;", r"\>") in markdown
    table = (tmp_path / "demo" / "tables" / f"{TABLE}.md").read_text()
    row, _published = (line for line in table.splitlines() if line.startswith(f"| {ROW}"))
    assert FAILED in row
    assert f">{FAILED}</td>" in html
    failed.forget_failure()
    again = build_report(Archive(tmp_path, "demo"), [TABLE]).read_text()
    assert failed.run_id not in again


def test_a_cell_with_values_keeps_them():
    cell = Cell(values=(50.0, 51.0), wanted=3, digits=1, failed=True)
    assert cell.text.endswith(f"(2/3){FAILED_MARK}")
    assert Cell(values=(), wanted=3, digits=1, failed=True).text == FAILED
