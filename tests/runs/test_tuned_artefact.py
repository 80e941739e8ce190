"""An artefact with a tuned setting, some runs of which are done: what is planned is what starts."""

import shutil
from pathlib import Path

import pytest
from three_runs import add_table

from repro.results.layout import record_path, runs_dir
from repro.runs.plan import plan
from repro.runs.reproduce import Reproduction, reproduce

NAME = "paper2020/table8"
TABLE = """\
kind: table
title: "Inflection, tuned"
place: "Table 8"
base: [task=morphology, task.setting=medium]
seeds: [1, 2]
rows: [{name: loss, values: {softmax: [loss=cross_entropy]}}]
metric: test/accuracy
columns: [{name: model, values: {accuracy: []}}]
tune: {key: training.learning_rate, values: [0.001, 0.01], metric: dev/loss, grid_factor: 10}
scales: {demo: {}}
"""
GRID, OTHER_SEED = 2, 1


@pytest.fixture
def table(tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Overrides of the table, of which the grid is done."""
    grid = TABLE.replace("[1, 2]", "[1]").replace(", grid_factor: 10", "")
    add_table(tmp_path, monkeypatch, NAME, grid)
    assert len(reproduce([NAME], "demo", tiny).outcomes) == GRID
    add_table(tmp_path, monkeypatch, NAME, TABLE)
    return tiny


def listed(capsys: pytest.CaptureFixture[str], table: list[str]) -> tuple[set[str], str]:
    capsys.readouterr()
    reproduce([NAME], "demo", table, dry_run=True)
    *runs, total = capsys.readouterr().out.splitlines()
    return {line.split()[0] for line in runs}, total


def started(done: Reproduction) -> list[str]:
    assert {one.status for one in done.outcomes} <= {"done"}
    return [one.run_id for one in done.outcomes]


def test_what_follows_from_the_records_is_planned(table, tmp_path, capsys):
    def planned() -> tuple[int, int, bool]:
        ((artefact,), _estimate) = plan([NAME], "demo", table)
        return artefact.done, len(artefact.todo), artefact.tunes

    assert planned() == (GRID, 1, True)  # a value beyond the best, which is at an end
    first, total = listed(capsys, table)
    assert (len(first), total) == (1, f"1 run to do, {GRID} done")
    new = started(reproduce([NAME], "demo", table))
    assert new[0] in first
    every = GRID + len(new)
    assert planned() == (every, 0, False)
    assert listed(capsys, table) == (set(), f"0 runs to do, {every} done")

    # Those that follow from others are missing: the last value that was tried, and a seed.
    seed, value = new[-1], new[-1 - OTHER_SEED]
    for lost in (seed, value):
        record_path(tmp_path, "demo", lost).unlink()
        shutil.rmtree(runs_dir(tmp_path, "demo") / lost)
        asked, _ = listed(capsys, table)
        assert planned() == (every - 1 - (lost == value), 1, True)
        assert asked == {lost}
    assert started(reproduce([NAME], "demo", table)) == [value, seed]
