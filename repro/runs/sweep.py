"""Several runs, one after the other or side by side; a failing run does not stop the others."""

import os
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from repro.config.schema import RunConfig
from repro.runs.environment import choose_device
from repro.runs.execute import Outcome, StepCallback, execute, locate, record_death
from repro.runs.locking import RunBusyError
from repro.runs.progress import RunProgress
from repro.runs.shared_training import training_of
from repro.runs.workers import Crew, Death


@dataclass(frozen=True)
class Job:
    """A configuration, and the overrides that it was composed from."""

    config: RunConfig
    overrides: tuple[str, ...]


def run_jobs(jobs: Sequence[Job], title: str) -> list[Outcome]:
    """Bring every job to its end, in this process or in ``hardware.jobs`` workers.

    A run that another process works on is put off, then waited for. A worker that dies fails its
    own run only.

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
        sweep = _Sweep(jobs, progress)
        if workers > 1:
            sweep.side_by_side(workers)
        else:
            sweep.in_turn()
    return [outcome for _, outcome in sorted(sweep.outcomes.items())]


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


class _Queue:
    """Runs that are not done, by number, in the order in which lanes take them.

    Runs of one group share a training: one lane takes them one after the other. A group whose next
    run another process works on is put off until no other group is left.
    """

    def __init__(self, groups: Iterable[Sequence[int]]) -> None:
        self._fresh = deque(deque(group) for group in groups)
        self._postponed = deque[deque[int]]()
        self._lanes: dict[int, deque[int]] = {}
        self.awaited: set[int] = set()
        """Runs that are waited for when they are taken again."""

    def take(self, lane: int) -> int | None:
        group = self._lanes.get(lane)
        if not group:
            groups = self._fresh or self._postponed
            if not groups:
                return None
            group = self._lanes[lane] = groups.popleft()
        return group.popleft()

    def postpone(self, lane: int, number: int) -> None:
        group = self._lanes.pop(lane)
        group.appendleft(number)
        self._postponed.append(group)
        self.awaited.add(number)

    def clear(self) -> None:
        for groups in (self._fresh, self._postponed, self._lanes):
            groups.clear()


@dataclass(frozen=True)
class _Task:
    """What a worker needs to know of a run."""

    job: Job
    awaited: bool


class _Sweep:
    """Several runs in progress."""

    def __init__(self, jobs: Sequence[Job], progress: RunProgress) -> None:
        self.jobs, self.progress = jobs, progress
        self.runs = [locate(job.config) for job in jobs]
        self.queue = _Queue(self._by_training())
        self.outcomes: dict[int, Outcome] = {}

    def in_turn(self) -> None:
        while (number := self.queue.take(0)) is not None:
            task = _Task(self.jobs[number], number in self.queue.awaited)
            self._settle(0, number, _perform(task, self.progress.step))

    def side_by_side(self, workers: int) -> None:
        prepare = partial(torch.set_num_threads, max(1, (os.cpu_count() or 1) // workers))
        running: dict[int, int] = {}
        with Crew[_Task, Outcome](_perform, prepare, workers) as crew:
            while self._hand_out(crew, running):
                for lane, ended in crew.wait():
                    number = running.pop(lane)
                    if isinstance(ended, Death):
                        ended = self._record_death(number, ended)
                    self._settle(lane, number, ended)

    def _hand_out(self, crew: Crew[_Task, Outcome], running: dict[int, int]) -> bool:
        """Give runs to idle workers; tell whether any worker is busy."""
        for lane in crew.idle_lanes():
            number = self.queue.take(lane)
            if number is not None:
                crew.start(lane, _Task(self.jobs[number], number in self.queue.awaited))
                running[lane] = number
        return bool(running)

    def _settle(self, lane: int, number: int, outcome: Outcome) -> None:
        if outcome.status == "busy":
            self.progress.postponed(outcome)
            self.queue.postpone(lane, number)
            return
        self.outcomes[number] = outcome
        self.progress.finished(outcome)
        if outcome.status == "failed" and self.jobs[number].config.fail_fast:
            self.queue.clear()

    def _record_death(self, number: int, death: Death) -> Outcome:
        reason = f"{death}; the same command continues the run from its last checkpoint"
        return record_death(self.runs[number], self.jobs[number].overrides, reason)

    def _by_training(self) -> list[list[int]]:
        groups: dict[str, list[int]] = {}
        for number, run in enumerate(self.runs):
            groups.setdefault(training_of(run.config, run.corpus), []).append(number)
        return list(groups.values())


def _perform(task: _Task, on_step: StepCallback | None = None) -> Outcome:
    on_busy = _wait_silently if task.awaited else None
    return execute(task.job.config, task.job.overrides, on_step, on_busy)


def _wait_silently(_busy: RunBusyError) -> None:
    """Wait for a run that was announced when it was put off."""
