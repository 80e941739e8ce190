"""The joblib launcher: runs in the processes of :class:`joblib.Parallel`."""

from joblib import Parallel, delayed

from repro.runs.execute import execute
from repro.runs.launch import Backend, Batch, Job
from repro.runs.local import parallel_runs
from repro.runs.locking import announce


def _run(batch: Batch) -> None:
    groups = [[batch.jobs[number] for number in group] for group in batch.by_training()]
    Parallel(parallel_runs(batch))(delayed(run_in_turn)(group) for group in groups)


def run_in_turn(jobs: list[Job]) -> None:
    """Bring runs to their end, one after the other."""
    for job in jobs:
        execute(job.config, job.overrides, announce)


BACKEND = Backend(_run)
