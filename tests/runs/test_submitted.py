"""Jobs of a Slurm array, without Slurm: what is submitted, and what a job does with it later."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from repro.results import list_runs
from repro.runs import slurm
from repro.runs.job import Job
from repro.runs.launch import Batch, prepare_jobs

SETTINGS = {"detach": True, "report": False, "runs_per_job": 2, "gpus_per_job": 0, "requeues": 0}

Submit = Callable[[list[Job]], list[tuple[Any, ...]]]


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submit:
    """Submit runs; return the arguments of each job."""
    submitted: list[tuple[Any, ...]] = []

    def map_array(_work: Any, *arguments: Iterable[Any]) -> list[Any]:
        submitted.extend(zip(*arguments, strict=True))
        return [SimpleNamespace(job_id=f"1_{number}") for number in range(len(submitted))]

    executor = SimpleNamespace(map_array=map_array)
    monkeypatch.setattr(slurm, "_executor", lambda *_: executor)
    monkeypatch.setattr(slurm, "_submission", nullcontext)
    monkeypatch.setattr(slurm.signal, "signal", lambda *_: None)

    def submit_jobs(jobs: list[Job]) -> list[tuple[Any, ...]]:
        display: Any = SimpleNamespace(print=lambda _: None)
        slurm.run_on_slurm(Batch(jobs, SETTINGS, tmp_path / "demo/sweeps/now", display))
        return submitted

    return submit_jobs


def test_a_job_trains_no_other_run_than_that_which_was_submitted(submit, tiny, tmp_path):
    file = tmp_path / "conf/experiment/mine.yaml"
    file.parent.mkdir(parents=True)

    def write(dropout: float) -> None:
        file.write_text(f"# @package _global_\nmodel: {{dropout: {dropout}}}\n", encoding="utf-8")

    write(0.25)
    short = [*tiny, "training.max_steps=2", f"hydra.searchpath=['file://{tmp_path}/conf']"]
    edited, kept = jobs = prepare_jobs(
        [[*short, "seed=1", "+experiment=mine"], [*short, "seed=2"]], sweep=True
    )
    (job,) = submit(jobs)
    write(0.5)  # while the job waits in the queue
    slurm._work(*job)
    assert {one.run_id: one.status for one in list_runs(tmp_path, "demo")} == {
        edited.run_id: "failed",
        kept.run_id: "done",
    }
    assert edited.folder.error.startswith("settings or corpus changed since submission")


def test_a_job_whose_runs_have_all_changed_trains_none(submit, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("SEED", "1")
    jobs = prepare_jobs([[*tiny, "seed=${oc.env:SEED}"]])
    (job,) = submit(jobs)
    monkeypatch.setenv("SEED", "2")
    slurm._work(*job)
    (found,) = list_runs(tmp_path, "demo")
    assert (found.run_id, found.status) == (jobs[0].run_id, "failed")
