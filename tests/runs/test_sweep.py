import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from repro.config.compose import compose_run
from repro.results import list_runs
from repro.runs import execute as execute_module
from repro.runs.execute import Outcome, locate
from repro.runs.sweep import Job, print_failures, run_jobs

SEEDS = (1, 2, 3)


def jobs(tiny: list[str], *extra: str) -> list[Job]:
    overrides = [(*tiny, *extra, f"seed={seed}") for seed in SEEDS]
    return [Job(compose_run(item), item) for item in overrides]


@pytest.fixture
def second_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    build = execute_module.build_task

    def build_or_fail(config, device):  # type: ignore[no-untyped-def]
        if config.seed == 2:
            raise MemoryError("seed 2 is too large")
        return build(config, device)

    monkeypatch.setattr(execute_module, "build_task", build_or_fail)


@pytest.mark.usefixtures("second_fails")
def test_a_sweep_survives_a_failing_job_and_says_what_failed(
    tiny: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    outcomes = run_jobs(jobs(tiny), "test")
    assert [outcome.status for outcome in outcomes] == ["done", "failed", "done"]
    assert print_failures(outcomes) == 1
    printed = capsys.readouterr().err
    assert "1 of 3 runs failed" in printed
    assert "MemoryError: seed 2 is too large" in printed


def test_failures_are_listed_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    label = "task.languages=[velisk] " + "mapping.alpha=1.5 " * 9
    failed = Outcome("0123", label, "failed", tmp_path, error="ValueError: [sic] " + 9 * "long ")
    assert print_failures([failed]) == 1
    expected = ["1 of 1 runs failed", f"0123  {label}", f"    {failed.error}"]
    assert capsys.readouterr().err.splitlines() == expected
    (tmp_path / "traceback.txt").touch()
    assert print_failures([failed]) == 1
    assert capsys.readouterr().err.splitlines() == [*expected, f"    {tmp_path / 'traceback.txt'}"]


@pytest.mark.usefixtures("second_fails")
def test_fail_fast_starts_nothing_after_a_failure(tiny: list[str]) -> None:
    outcomes = run_jobs(jobs(tiny, "fail_fast=true"), "test")
    assert [outcome.status for outcome in outcomes] == ["done", "failed"]


def test_side_by_side_ends_as_in_turn(tiny: list[str], tmp_path: Path) -> None:
    in_turn = run_jobs(jobs(tiny, "hardware.threads=1"), "test")
    other = f"results_dir={tmp_path / 'other'}"
    parallel = run_jobs(jobs(tiny, other, "hardware.jobs=2", "hardware.threads=1"), "test")
    assert [outcome.status for outcome in parallel] == ["done"] * 3
    for left, right in zip(in_turn, parallel, strict=True):
        assert left.run_id == right.run_id
        assert comparable(left.folder) == comparable(right.folder)


def test_fail_fast_side_by_side_starts_nothing_after_a_failure(tiny: list[str]) -> None:
    extra = ("hardware.jobs=2", "hardware.threads=1", "fail_fast=true")
    overrides = [(*tiny, *extra, f"seed={seed}") for seed in range(9)]
    many = [Job(compose_run(item), item) for item in overrides]
    # A folder stands where the first run wants to write a file.
    (locate(many[0].config).folder.path / "records.jsonl").mkdir(parents=True)
    outcomes = run_jobs(many, "test")
    assert outcomes[0].status == "failed"
    assert len(outcomes) < len(many)


def comparable(folder: Path) -> list[dict[str, object]]:
    """Records without what a clock measured."""
    rows = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    clocks = ("train/tokens_per_second",)
    kept = [row for row in rows if row["metric"] not in clocks]
    return [{k: v for k, v in row.items() if k not in ("wall_time", "command")} for row in kept]


def start_sweep(tiny: list[str], results: Path) -> "subprocess.Popen[bytes]":
    arguments = [*tiny, f"results_dir={results}", "hardware.threads=1", "training.max_epochs=4"]
    sweep = ["mapping.alpha=1.25,1.5", "seed=1,2"]
    command = [sys.executable, "-m", "repro", "run", "-m", *arguments, *sweep]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)


def test_a_killed_sweep_ends_with_the_records_of_an_uninterrupted_one(
    tiny: list[str], tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert start_sweep(tiny, whole).wait(120) == 0
    sweep = start_sweep(tiny, killed)
    _wait_for_work(killed, folders=2)
    os.killpg(sweep.pid, signal.SIGKILL)
    sweep.wait(10)
    assert any(folder.status == "running" for folder in list_runs(killed, "demo"))
    assert start_sweep(tiny, killed).wait(120) == 0
    names = [folder.run_id for folder in list_runs(whole, "demo")]
    assert len(names) == 4
    assert names == [folder.run_id for folder in list_runs(killed, "demo")]
    for left, right in zip(list_runs(whole, "demo"), list_runs(killed, "demo"), strict=True):
        assert comparable(left.path) == comparable(right.path)


def test_workers_do_not_outlive_a_killed_leader(tiny: list[str], tmp_path: Path) -> None:
    arguments = [*tiny, f"results_dir={tmp_path}", "hardware.threads=1", "hardware.jobs=2"]
    sweep = ["training.max_epochs=2000", "seed=1,2"]
    command = [sys.executable, "-m", "repro", "run", "-m", *arguments, *sweep]
    leader = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    _wait_for_work(tmp_path, folders=2)
    os.kill(leader.pid, signal.SIGKILL)
    leader.wait(10)
    deadline = time.monotonic() + 30
    while _group_is_alive(leader.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _group_is_alive(leader.pid)


def _group_is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _wait_for_work(results: Path, folders: int) -> None:
    """Wait until the latest of several runs is past its first checkpoint."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        begun = [f for f in list_runs(results, "demo") if f.history.exists()]
        if len(begun) >= folders and any(f.checkpoint.exists() for f in begun):
            return
        time.sleep(0.02)
    raise AssertionError("the sweep did not get going")
