import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, Self

import forked
import pytest
from process_groups import wait_for_the_end
from stored_statistics import untimed

from repro.cli import main
from repro.results import Record, RunFolder, list_runs
from repro.results.sweeps import read_sweeps
from repro.runs import local, train
from repro.runs.cleanup import remove, run_rows
from repro.runs.environment import OutOfMemoryError
from repro.runs.execute import execute
from repro.runs.job import Job, Outcome
from repro.runs.launch import (
    CONTINUED,
    backend_of,
    launch_jobs,
    multirun,
    outcome_of,
    prepare_jobs,
)
from repro.runs.local import _Queue
from repro.runs.locking import is_claimed
from repro.runs.summary import print_failures
from repro.training.checkpoint import load_checkpoint
from repro.training.graphs import CaptureError

SEEDS = (1, 2, 3)
WIDE = {"COLUMNS": "300"}
EAGER = "training.checkpoint_minutes=0.0001"
"""A checkpoint after nearly every update; a tiny run would else have none before its end."""


def jobs(tiny: list[str], *extra: str) -> list[Job]:
    return prepare_jobs([(*tiny, *extra, f"seed={seed}") for seed in SEEDS])


def bring(jobs: list[Job]) -> list[Outcome]:
    """Run jobs by the local launcher; those that were not started have no outcome."""
    launch_jobs(backend_of("local"), {"parallel_runs": None}, jobs, None)
    return [outcome for job in jobs if (outcome := outcome_of(job)).status != "open"]


@pytest.fixture
def second_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    build = train.build_task

    def build_or_fail(config, device):  # type: ignore[no-untyped-def]
        if config.seed == 2:
            raise MemoryError("seed 2 is too large")
        return build(config, device)

    monkeypatch.setattr(train, "build_task", build_or_fail)


@pytest.mark.usefixtures("second_fails")
def test_a_sweep_survives_a_failing_job_and_says_what_failed(tiny, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    outcomes = bring(jobs(tiny))
    assert [outcome.status for outcome in outcomes] == ["done", "failed", "done"]
    assert print_failures(outcomes) == 1
    printed = capsys.readouterr().err
    assert "1 of 3 runs failed" in printed
    assert "MemoryError: seed 2 is too large" in printed


def test_a_failed_run_is_tried_again_unless_the_job_of_its_sweep_continues(
    tiny, tmp_path, monkeypatch
):
    folder = tmp_path / "sweep"
    sweep = ["run", "-m", *tiny, "seed=1,2", f"hydra.sweep.dir={folder}"]
    with monkeypatch.context() as patched:
        patched.setattr(train, "fit", lambda *_: 1 / 0)
        assert main(sweep) == 1
    for continued, ended in ((str(folder), "failed"), (str(tmp_path), "done")):
        monkeypatch.setenv(CONTINUED, continued)
        assert main(sweep) == (ended == "failed")
        assert [run.status for run in list_runs(tmp_path, "demo")] == [ended, ended]


def test_a_folder_shows_the_sweep_that_was_started_last(tiny, tmp_path, monkeypatch, capsys):
    def started(seeds: str, *more: str) -> dict[str, Any]:
        command = ["run", "-m", *tiny, f"seed={seeds}", *more]
        monkeypatch.setattr("sys.argv", ["repro", *command])
        assert main(command) == 0
        capsys.readouterr()
        assert main(["status", "--json", f"results_dir={tmp_path}"]) == 0
        return json.loads(capsys.readouterr().out)

    folder = f"hydra.sweep.dir={tmp_path}/demo/sweeps/zebra"
    for seeds in ("1,2", "2,3"):
        found = started(seeds, folder)
        assert [one["label"] for one in found["runs"]] == [f"seed={seed}" for seed in seeds[::2]]
        assert f"seed={seeds}" in found["command"]
    assert "seed=3,4" in started("3,4")["command"]


def test_failures_are_listed_whole(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    label = "task.languages=[velisk] " + "mapping.alpha=1.5 " * 9
    failed = Outcome("0123", label, "failed", tmp_path, error="ValueError: [sic] " + 9 * "long ")
    assert print_failures([failed]) == 1
    expected = ["1 of 1 runs failed", f"0123  {label}", f"    {failed.error}"]
    assert capsys.readouterr().err.splitlines() == expected
    (tmp_path / "traceback.txt").touch()
    assert print_failures([failed]) == 1
    assert capsys.readouterr().err.splitlines() == [*expected, f"    {tmp_path / 'traceback.txt'}"]
    assert print_failures([failed], tmp_path / "report.html") == 1
    assert str(tmp_path / "report.html") in capsys.readouterr().err.splitlines()[-1]
    assert print_failures([], tmp_path / "report.html") == 0
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("second_fails")
def test_fail_fast_starts_nothing_after_a_failure(tiny):
    outcomes = bring(jobs(tiny, "fail_fast=true"))
    assert [outcome.status for outcome in outcomes] == ["done", "failed"]


class PoolHere:
    """Performs tasks in this process, one after another."""

    def __init__(self, perform: Callable[[Any], Any], _prepare: object, _size: int) -> None:
        self.perform, self.ended, self.retired = perform, list[Any](), 0

    __class_getitem__ = classmethod(lambda cls, _: cls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.retired == 1

    def idle_slots(self) -> list[int]:
        return [0]

    def start(self, slot: int, task: Any) -> None:
        self.ended = [(slot, self.perform(task))]

    def wait(self) -> list[Any]:
        return self.ended

    def retire(self, _slot: int) -> None:
        self.retired += 1


@pytest.mark.parametrize("error", [CaptureError, OutOfMemoryError])
def test_a_failed_capture_ends_the_process_of_its_run(error, tiny, monkeypatch):
    """A worker is replaced; this process, which is none, starts no other run."""
    build = train.build_task

    def failing(config: Any, device: Any) -> Any:
        if config.seed == 2 and error is CaptureError:
            raise CaptureError
        if config.seed == 2:
            raise OutOfMemoryError from CaptureError()
        return build(config, device)

    monkeypatch.setattr(train, "build_task", failing)
    outcomes = bring(jobs(tiny))
    assert [outcome.status for outcome in outcomes] == ["done", "failed"]
    monkeypatch.setattr(local, "WorkerPool", PoolHere)
    outcomes = bring(jobs(tiny, "hardware.parallel_runs=2"))
    assert [outcome.status for outcome in outcomes] == ["done", "failed", "done"]


def test_side_by_side_ends_as_in_turn(tiny, tmp_path):
    in_turn = bring(jobs(tiny, "hardware.threads=1"))
    other = f"results_dir={tmp_path / 'other'}"
    parallel = bring(jobs(tiny, other, "hardware.parallel_runs=2", "hardware.threads=1"))
    assert [outcome.status for outcome in parallel] == ["done"] * 3
    for left, right in zip(in_turn, parallel, strict=True):
        assert left.run_id == right.run_id
        assert comparable(left.folder) == comparable(right.folder)


def test_fail_fast_side_by_side_starts_nothing_after_a_failure(tiny):
    extra = ("hardware.parallel_runs=2", "hardware.threads=1", "fail_fast=true")
    many = prepare_jobs([(*tiny, *extra, f"seed={seed}") for seed in range(9)])
    # A folder is in place of a file of the first run.
    (many[0].folder.path / "record.json").mkdir(parents=True)
    outcomes = bring(many)
    assert outcomes[0].status == "failed"
    assert len(outcomes) < len(many)


def test_slots_take_different_tasks_where_they_can():
    def job(name: str, seed: int) -> Any:
        return SimpleNamespace(config=SimpleNamespace(task=SimpleNamespace(name=name), seed=seed))

    groups = [[job("nmt", 1), job("nmt", 2)], [job("nmt", 3)], [job("snli", 4)]]
    batch: Any = SimpleNamespace(by_training=lambda: groups, display=None)
    queue = _Queue(batch)
    taken = [queue.take(slot) for slot in (0, 1, 1, 0, 0)]
    assert [task and task.job.config.seed for task in taken] == [1, 4, 3, 2, None]


def test_a_busy_run_is_not_queued_again_after_a_failure():
    folder = SimpleNamespace(status="failed")
    config = SimpleNamespace(task=SimpleNamespace(name="nmt"), fail_fast=True)
    jobs: list[Any] = [SimpleNamespace(config=config, folder=folder) for _ in range(3)]
    batch: Any = SimpleNamespace(
        by_training=lambda: [[job] for job in jobs], display=SimpleNamespace(note=lambda *_: None)
    )
    queue = _Queue(batch)
    first, second = queue.take(0), queue.take(1)
    assert first
    assert second
    queue.settle(0, first, Outcome("0", "", "failed", Path()))
    queue.settle(1, second, Outcome("1", "", "busy", Path()))
    assert queue.take(0) is queue.take(1) is None


def comparable(folder: Path) -> Record:
    """The record without what a clock measured."""
    record = RunFolder(folder).read_record()
    return replace(record, metrics=untimed(record), wall_time=0.0, finished="", command="")


STARTED: list[forked.Command] = []


@pytest.fixture(autouse=True)
def nothing_goes_on() -> Iterator[None]:
    """End the commands, with their workers, that a failed test has left."""
    yield
    while STARTED:
        process = STARTED.pop().process
        if process.is_alive() and process.pid is not None:
            os.killpg(process.pid, signal.SIGKILL)
        process.join()


def start(*arguments: str) -> forked.Command:
    """Start a command of the package in a process group of its own."""
    command = forked.start(*arguments, environment=WIDE)
    STARTED.append(command)
    return command


def sweep_command(tiny: list[str], results: Path) -> list[str]:
    arguments = [*tiny, f"results_dir={results}", "hardware.threads=1", "training.max_epochs=4"]
    return ["run", "-m", *arguments, "mapping.alpha=1.25,1.5", "seed=1,2"]


def test_a_killed_sweep_is_shown_and_ends_with_the_records_of_an_uninterrupted_one(
    tiny, tmp_path, capsys
):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main(sweep_command(tiny, whole)) == 0
    sweep = forked.start(*sweep_command(tiny, killed))
    _wait_for_work(killed, folders=2)
    sweep.process.kill()
    sweep.finish(10)
    assert any(folder.status == "running" for folder in list_runs(killed, "demo"))
    capsys.readouterr()
    assert main(["status", f"results_dir={killed}"]) == 0
    listed = capsys.readouterr().out
    assert "mapping.alpha=1.25,1.5 seed=1,2" in listed  # the command
    ids = {line.split()[0] for line in listed.splitlines() if "seed=" in line}
    left = {run.run_id for run in list_runs(killed, "demo") if run.status != "done"}
    assert left <= ids
    (sweep_of_runs,) = read_sweeps(killed, "demo")
    assert sweep_of_runs.axes == {"mapping.alpha": ["1.25", "1.5"], "seed": ["1", "2"]}
    assert main(["report", "scale=demo", f"results_dir={killed}"]) == 0
    assert sweep_of_runs.anchor in (killed / "demo" / "report.html").read_text(encoding="utf-8")
    assert main(sweep_command(tiny, killed)) == 0
    names = [folder.run_id for folder in list_runs(whole, "demo")]
    assert len(names) == 4
    assert names == [folder.run_id for folder in list_runs(killed, "demo")]
    for left, right in zip(list_runs(whole, "demo"), list_runs(killed, "demo"), strict=True):
        assert comparable(left.path) == comparable(right.path)


@pytest.fixture
def reproduction(tiny: list[str], table: str) -> list[str]:
    """Command of a table of three runs."""
    return ["reproduce", table, *tiny, "hardware.threads=1"]


def wait_for_claims(results: Path, number: int, rows: int = 0) -> dict[int, RunFolder]:
    """Wait until this many runs have a checkpoint, or rows; return them by process."""

    def has_begun(run: RunFolder) -> bool:
        return len(run.read_history()) >= rows if rows else run.checkpoint.exists()

    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        begun = [run for run in list_runs(results, "demo") if has_begun(run)]
        held = [run for run in begun if is_claimed(run.path)]
        if len(held) >= number:  # the file says "process <pid> on ..."
            return {int((run.path / "lock").read_text().split()[1]): run for run in held}
        time.sleep(0.02)
    raise AssertionError("the sweep did not get going")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_keep_a_checkpoint_and_end_with_their_leader(reproduction, tmp_path, number):
    # The signal comes within an epoch of many batches, which has rows, before any checkpoint is
    # due: only the stop writes one.
    long = ("hardware.parallel_runs=2", "training.max_epochs=5000", "training.min_learning_rate=0",
            "training.validate_every_steps=7", "training.batch_size=1")  # fmt: skip
    leader = start(*reproduction, *long)
    runs = wait_for_claims(tmp_path, 2, rows=2).values()
    steps = {run.run_id: run.read_history()[-1]["step"] for run in runs}
    os.kill(leader.process.pid, number)
    ended = leader.finish(60)
    wait_for_the_end(leader.process.pid)
    assert ended.returncode == (130 if number == signal.SIGTERM else -signal.SIGKILL)
    assert "Traceback" not in ended.stderr
    assert len(list_runs(tmp_path, "demo")) == len(runs) == 2  # the third was not begun
    for run in runs:
        assert run.status == "running"
        assert not is_claimed(run.path)
    stopped = {run.run_id: load_checkpoint(run.checkpoint)[0] for run in runs}
    assert all(stopped[name].step >= step for name, step in steps.items())
    # Within an epoch, so it is not the one that an epoch ends with; one run may be between two.
    assert any(progress.batch > 0 for progress in stopped.values())


def test_a_killed_worker_fails_its_own_run_only(reproduction, tmp_path, capsys):
    def kill_one() -> None:
        pid, run = next(iter(wait_for_claims(tmp_path, 1).items()))
        os.kill(pid, signal.SIGKILL)
        killed.append(run)

    killed: list[RunFolder] = []
    settings = ("hardware.parallel_runs=2", "training.max_epochs=5", EAGER)
    killer = Thread(target=kill_one)
    killer.start()
    assert main([*reproduction, *settings]) == 1
    killer.join()
    printed = capsys.readouterr()
    assert "1 of 3 runs failed" in printed.err
    assert Path(printed.out.strip()).exists()
    (lost,) = killed
    assert {run.run_id: run.status for run in list_runs(tmp_path, "demo")} == {
        run.run_id: "failed" if run.run_id == lost.run_id else "done"
        for run in list_runs(tmp_path, "demo")
    }
    assert len(list_runs(tmp_path, "demo")) == 3
    reason = lost.traceback.read_text()
    assert "SIGKILL" in reason
    assert "memory" in reason
    assert lost.checkpoint.exists()
    assert not list(lost.path.glob("*.tmp"))


def test_two_processes_share_the_runs_of_one_sweep(tiny, tmp_path):
    command = ["run", "-m", *tiny, "hardware.threads=1", "training.max_epochs=6", "seed=1,2,3"]
    answers = [
        sweep.finish() for sweep in [forked.start(*command, environment=WIDE) for _ in range(2)]
    ]
    assert [answer.returncode for answer in answers] == [0, 0], answers
    runs = list_runs(tmp_path, "demo")
    assert [run.status for run in runs] == ["done"] * 3
    for answer in answers:  # each reports every run once, whoever did it
        ended = [line.split()[1] for line in answer.stderr.splitlines() if line[:6] == "  done"]
        assert sorted(ended) == sorted(run.run_id for run in runs)


@pytest.mark.parametrize("kind", ["done before", "done", "never begun"])
def test_a_run_whose_folder_is_removed_during_a_sweep_has_its_record(
    tiny, tmp_path, monkeypatch, kind
):
    """As by another process, while the sweep waits for its last run."""
    sweep = [*tiny, "training.max_steps=2", "seed=1,2"]
    first, _ = prepare_jobs([[*sweep[:-1], f"seed={seed}"] for seed in (1, 2)])
    if kind != "done":
        assert execute(first).status == "done"
    if kind == "never begun":  # with a record of earlier
        remove([*run_rows(tmp_path, [])], weights=False)

    def executed_and_removed(job, *rest):  # type: ignore[no-untyped-def]
        if job.run_id == first.run_id:
            return job.outcome("open") if kind == "never begun" else execute(job, *rest)
        outcome = execute(job, *rest)
        remove([row for row in run_rows(tmp_path, []) if row["run_id"] == first.run_id], False)
        return outcome

    monkeypatch.setattr("repro.runs.local.execute", executed_and_removed)
    outcomes = multirun(sweep)
    assert first.folder.status == "absent"
    status = {"done before": "skipped", "done": "done", "never begun": "failed"}[kind]
    assert [one.status for one in outcomes] == [status, "done"]
    assert outcomes[0].error == ("the run did not finish" if status == "failed" else "")


def test_what_a_killed_command_left_is_done_by_another(reproduction, tmp_path):
    command = [*reproduction, "training.max_epochs=5", EAGER]
    sweeps = [forked.start(*command, environment=WIDE) for _ in range(2)]
    claims = wait_for_claims(tmp_path, 2)
    killed = next(sweep for sweep in sweeps if sweep.process.pid in claims)
    killed.process.kill()
    killed.finish(20)
    (other,) = (sweep.finish() for sweep in sweeps if sweep is not killed)
    assert other.returncode == 0, other.stderr
    assert Path(other.stdout.strip()).exists()
    runs = list_runs(tmp_path, "demo")
    assert [run.status for run in runs] == ["done"] * 3
    for run in runs:
        assert [row["epoch"] for row in run.read_history()] == [*range(1, 6)]
        assert not is_claimed(run.path)


def _wait_for_work(results: Path, folders: int) -> None:
    """Wait until the latest of several runs is past its first checkpoint."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        begun = [f for f in list_runs(results, "demo") if f.history.exists()]
        if len(begun) >= folders and any(f.checkpoint.exists() for f in begun):
            return
        time.sleep(0.02)
    raise AssertionError("the sweep did not get going")
