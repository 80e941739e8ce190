"""Several runs, one after the other or side by side; a failing run does not stop the others."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.synchronize import Event

import torch

from repro.config.schema import RunConfig
from repro.runs.environment import choose_device
from repro.runs.execute import Outcome, StepCallback, execute, locate
from repro.runs.progress import RunProgress
from repro.runs.shared_training import training_of


@dataclass(frozen=True)
class Job:
    """A configuration, and the overrides that it was composed from."""

    config: RunConfig
    overrides: tuple[str, ...]


def run_jobs(jobs: Sequence[Job], title: str) -> list[Outcome]:
    """Bring every job to its end.

    Args:
        jobs: all composed and checked before the first one starts.
        title: shown with the progress.

    Returns:
        One outcome for each job that was started, in the order of the jobs. With ``fail_fast``,
        no job is started after one has failed.
    """
    if not jobs:
        return []
    workers = _workers(jobs)
    with RunProgress(len(jobs), title) as progress:
        if workers > 1:
            return _side_by_side(jobs, workers, progress.finished)
        return list(_in_turn(jobs, progress.step, progress.finished))


def print_failures(outcomes: Sequence[Outcome]) -> int:
    """List the failed runs, if any, with every line whole; return how many there are."""
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    lines = [f"{len(failed)} of {len(outcomes)} runs failed"] if failed else []
    for outcome in failed:
        trace = outcome.folder / "traceback.txt"
        lines += [f"{outcome.run_id}  {outcome.label}", f"    {outcome.error}"]
        lines += [f"    {trace}"] if trace.exists() else []
    for line in lines:
        print(line, file=sys.stderr)
    return len(failed)


def _workers(jobs: Sequence[Job]) -> int:
    hardware = jobs[0].config.hardware
    if choose_device(hardware).type != "cpu":
        return 1
    return min(hardware.jobs or (os.cpu_count() or 1), len(jobs))


def _in_turn(
    jobs: Sequence[Job], on_step: StepCallback, finished: Callable[[Outcome], None]
) -> Iterator[Outcome]:
    for job in jobs:
        outcome = execute(job.config, job.overrides, on_step)
        finished(outcome)
        yield outcome
        if outcome.status == "failed" and job.config.fail_fast:
            return


def _side_by_side(
    jobs: Sequence[Job], workers: int, finished: Callable[[Outcome], None]
) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}
    context = get_context("spawn")
    stop = context.Event()
    with ProcessPoolExecutor(workers, context, _start_worker, (workers, stop)) as pool:
        groups = _by_training(jobs)
        waiting = {pool.submit(_execute_group, [jobs[n] for n in group]): group for group in groups}
        try:
            for future in as_completed(waiting):
                ended = dict(zip(waiting[future], future.result(), strict=False))
                outcomes |= ended
                for outcome in ended.values():
                    finished(outcome)
                if jobs[0].config.fail_fast and _any_failed(ended.values()):
                    stop.set()
        except BaseException:
            stop.set()
            raise
    return [outcomes[n] for n in sorted(outcomes)]


def _by_training(jobs: Sequence[Job]) -> list[list[int]]:
    """Numbers of the jobs; those that share a training go to one worker, one after the other."""
    groups: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        training = training_of(job.config, locate(job.config).corpus)
        groups.setdefault(training, []).append(number)
    return list(groups.values())


def _any_failed(outcomes: Iterable[Outcome]) -> bool:
    return any(outcome.status == "failed" for outcome in outcomes)


_worker_stop: Event | None = None
"""In a worker: set once no further job may start. The pool's own cancelling misses queued jobs."""


def _start_worker(workers: int, stop: Event) -> None:
    global _worker_stop
    _worker_stop = stop
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))


def _stop_with_parent() -> None:
    """Wait for the end of the process that leads the sweep, then ask this one to stop too."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _execute_group(jobs: Sequence[Job]) -> list[Outcome]:
    """Run jobs in turn; the later ones are left out once no further job may start."""
    outcomes: list[Outcome] = []
    for job in jobs:
        failed = job.config.fail_fast and _any_failed(outcomes)
        if failed or (_worker_stop is not None and _worker_stop.is_set()):
            break
        outcomes.append(execute(job.config, job.overrides))
    return outcomes
