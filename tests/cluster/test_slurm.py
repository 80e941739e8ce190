"""A table on a Slurm cluster of one node: as an array, with a requeued job and a failing one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slurm_node import slurm_node, why_not
from stored_statistics import untimed
from three_runs import add_table

from repro.config.compose import compose_run
from repro.results import RunFolder, list_runs
from repro.runs.execute import execute
from repro.runs.job import locate
from repro.runs.launch import prepare_jobs

REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)

TINY = [
    "hardware=cpu", "task.stored_examples=1", "model.embedding_size=6", "model.hidden_size=6",
    "model.layers=1", "training.min_learning_rate=0", "decoding.max_length=4",
    "decoding.max_hypotheses=5", "training.validate_every=1",
]  # fmt: skip
SLURM = ["hydra/launcher=slurm", "hydra.launcher.cpus_per_job=1", "hydra.launcher.poll_seconds=1"]


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with slurm_node(tmp_path_factory.mktemp("slurm")):
        yield


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a command; it and its jobs end with the test."""
    processes: list[subprocess.Popen[str]] = []

    def start_command(*arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "repro", *arguments, *TINY, f"results_dir={tmp_path}"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        environment = {**os.environ, "COLUMNS": "300"}
        processes.append(subprocess.Popen(command, text=True, env=environment, **pipes))
        return processes[-1]

    yield start_command
    for process in processes:
        process.kill()
        process.communicate()
    subprocess.run(["scancel", "--full", "--user", "root"], check=True)


def wait_for_a_checkpoint(results: Path, but: Path) -> RunFolder:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        for run in list_runs(results, "demo"):
            if run.checkpoint.exists() and run.path != but:
                return run
        time.sleep(0.1)
    raise AssertionError("no job got going")


@pytest.mark.parametrize("how", ["requeue", "time limit"])
def test_a_table_with_a_requeued_and_a_failing_job(how, start, tmp_path, monkeypatch):
    table = add_table(tmp_path, monkeypatch)
    sweep = start("reproduce", table, *SLURM, "training.max_epochs=70")
    while not list(tmp_path.glob("demo/sweeps/*/array-0.json")):
        assert sweep.poll() is None, sweep.communicate()
        time.sleep(0.1)
    (file,) = tmp_path.glob("demo/sweeps/*/array-0.json")
    elements = json.loads(file.read_text())
    assert len(elements) == 3
    jobs = prepare_jobs([overrides for ((_, overrides),) in elements])
    bad = jobs[2].folder
    (bad.path / "record.json").mkdir(parents=True)  # a folder in place of a file
    requeued = wait_for_a_checkpoint(tmp_path, bad.path)
    sweep_file = file.with_name("sweep.json")
    while not (ids := [*json.loads(sweep_file.read_text())["jobs"]]):
        time.sleep(0.1)
    number = next(n for n, job in enumerate(jobs) if job.folder.path == requeued.path)
    order = ["scontrol", "requeue", ids[number]]
    if how == "time limit":  # what Slurm sends before it
        order = ["scancel", "--signal=USR2", ids[number]]
    subprocess.run(order, check=True)
    report, errors = sweep.communicate(timeout=550)
    assert sweep.returncode == 1, errors
    assert Path(report.strip()).exists()
    assert "1 of 3 runs failed" in errors
    assert bad.run_id in errors
    assert {run.run_id: run.status for run in list_runs(tmp_path, "demo")} == {
        job.run_id: "failed" if job.folder.path == bad.path else "done" for job in jobs
    }
    shown = subprocess.run(
        ["scontrol", "show", "job", ids[number]], capture_output=True, text=True
    ).stdout
    assert "Restarts=1" in shown
    log = next(file.parent.glob(f"logs/{ids[number]}_*.out")).read_text()
    assert log.count("Starting with JobEnvironment") == 2
    again = [*elements[number][0][1], f"results_dir={tmp_path / 'again'}"]
    whole = execute(locate(compose_run(again), again))
    assert untimed(requeued.read_record()) == untimed(RunFolder(whole.folder).read_record())
    assert [row["train_loss"] for row in requeued.read_history()] == [
        row["train_loss"] for row in RunFolder(whole.folder).read_history()
    ]


@pytest.mark.parametrize("setting", ["runs_per_job=2", "gpus_per_job=2"])
def test_every_process_of_a_job_stops_before_its_time_limit(setting, start, tmp_path):
    several = setting.startswith("runs")
    long = ["training.max_epochs=40", "task.setting=medium", "hardware.threads=1"]
    seeds = "seed=1,2" if several else "seed=1"
    sweep = start("run", "-m", *SLURM, f"hydra.launcher.{setting}", *long, seeds)
    run = wait_for_a_checkpoint(tmp_path, tmp_path)
    (kept,) = tmp_path.glob("demo/sweeps/*/sweep.json")
    (name,) = json.loads(kept.read_text())["jobs"]
    subprocess.run(["scancel", "--signal=USR2", name], check=True)
    _, errors = sweep.communicate(timeout=550)
    assert sweep.returncode == 0, errors
    assert [one.status for one in list_runs(tmp_path, "demo")] == ["done"] * (1 + several)
    assert ("processes: 2" in run.read_environment()["device"]) is not several
    shown = subprocess.run(["scontrol", "show", "job", name], capture_output=True, text=True).stdout
    assert "Restarts=1" in shown
    for one in list_runs(tmp_path, "demo"):  # no update was made twice
        assert [row["epoch"] for row in one.read_history()] == [*range(1, 41)]


def test_fail_fast_leaves_the_runs_that_wait(start, tmp_path):
    short = [*TINY, "training.max_epochs=1", "task.setting=medium", f"results_dir={tmp_path}"]
    jobs = prepare_jobs([(*short, f"seed={seed}") for seed in (1, 2, 3)])
    (jobs[0].folder.path / "record.json").mkdir(parents=True)  # cannot be written
    settings = ["hydra.launcher.array_parallelism=1", "fail_fast=true"]
    sweep = start("run", "-m", *SLURM, *settings, *short[len(TINY) : -1], "seed=1,2,3")
    _, errors = sweep.communicate(timeout=300)
    assert sweep.returncode == 1
    assert "1 of 3 runs failed" in errors
    assert jobs[0].folder.status == "failed"
    assert jobs[2].folder.status == "absent"


def test_a_detached_table_goes_on_to_its_report_without_a_job_that_was_killed(
    start, tmp_path, monkeypatch
):
    table = add_table(tmp_path, monkeypatch)
    alone = "hydra.launcher.array_parallelism=1"
    sweep = start("reproduce", table, *SLURM, "training.max_epochs=1", alone, "--detach")
    report, errors = sweep.communicate(timeout=200)
    assert sweep.returncode == 0, errors
    assert report == ""
    (kept,) = tmp_path.glob("demo/sweeps/*/sweep.json")
    jobs = json.loads(kept.read_text())["jobs"]
    last, (killed,) = [*jobs.items()][-1]
    subprocess.run(["scancel", last], check=True)
    deadline = time.monotonic() + 400
    while not (tmp_path / "demo" / "report.html").exists():
        assert time.monotonic() < deadline
        time.sleep(1)
    assert {run.run_id: run.status for run in list_runs(tmp_path, "demo")} == {
        run_id: "failed" if run_id == killed else "done" for (run_id,) in jobs.values()
    }
    assert [*json.loads(kept.read_text())["jobs"]] == [*jobs]  # it was not submitted again
    status = subprocess.run(
        [sys.executable, "-m", "repro", "status", f"results_dir={tmp_path}"],
        capture_output=True,
        text=True,
    )
    assert status.returncode == 1
    assert f"its Slurm job {last} ended" in status.stdout
    assert status.stdout.endswith("2 done, 1 failed\n")


@pytest.mark.parametrize("cancel", [True, False])
def test_ctrl_c_cancels_the_jobs_or_leaves_them(cancel, start, tmp_path):
    long = ["training.max_epochs=5000", "task.setting=medium", "seed=1,2"]
    setting = f"hydra.launcher.cancel={str(cancel).lower()}"
    sweep = start("run", "-m", *SLURM, setting, *long)
    run = wait_for_a_checkpoint(tmp_path, tmp_path)
    sweep.send_signal(signal.SIGINT)
    _, errors = sweep.communicate(timeout=100)
    assert sweep.returncode == 130
    assert "Traceback" not in errors
    time.sleep(10)
    queued = subprocess.run(["squeue", "-h", "-r"], capture_output=True, text=True).stdout
    assert bool(queued.strip()) is not cancel
    assert run.checkpoint.exists()
