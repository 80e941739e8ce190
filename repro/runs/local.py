"""The local launcher: runs in this process, or side by side in processes of this machine."""

import os
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from repro.runs.environment import choose_device
from repro.runs.execute import Outcome, execute, record_death
from repro.runs.launch import Backend, Batch, Job
from repro.runs.workers import Crew, Death


def run_locally(batch: Batch) -> None:
    """Bring every run to its end, in this process or in ``hardware.parallel_runs`` workers.

    A run that another process works on is put off, then waited for. A worker that dies fails its
    own run only. With ``fail_fast``, no run is started after one has failed.
    """
    sweep, workers = _Sweep(batch), parallel_runs(batch)
    if workers > 1:
        sweep.side_by_side(workers)
    else:
        sweep.in_turn()


BACKEND = Backend(run_locally, watch=False)


def parallel_runs(batch: Batch) -> int:
    """Return how many runs go side by side on this machine; one on a GPU."""
    hardware = batch.jobs[0].config.hardware
    number = batch.settings["parallel_runs"]
    if number is None:
        number = hardware.parallel_runs if choose_device(hardware).type == "cpu" else 1
    return min(number or (os.cpu_count() or 1), len(batch.jobs))


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
    """Description of a run for a worker."""

    job: Job
    awaited: bool


class _Sweep:
    """Several runs in progress."""

    def __init__(self, batch: Batch) -> None:
        self.jobs, self.display = batch.jobs, batch.display
        self.queue = _Queue(batch.by_training())

    def in_turn(self) -> None:
        while (number := self.queue.take(0)) is not None:
            task = _Task(self.jobs[number], number in self.queue.awaited)
            self._settle(0, number, _perform(task))

    def side_by_side(self, workers: int) -> None:
        prepare = partial(torch.set_num_threads, max(1, (os.cpu_count() or 1) // workers))
        running: dict[int, int] = {}
        with Crew[_Task, Outcome](_perform, prepare, workers) as crew:
            while self._hand_out(crew, running):
                for lane, ended in crew.wait():
                    number = running.pop(lane)
                    if isinstance(ended, Death):
                        reason = f"{ended}; the same command continues it from its last checkpoint"
                        job = self.jobs[number]
                        ended = record_death(job.run, job.overrides, reason)
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
            self.display.waiting(outcome.run_id, outcome.error)
            self.queue.postpone(lane, number)
            return
        self.display.finished(outcome.run_id, outcome.status, outcome.error)
        if outcome.status == "failed" and self.jobs[number].config.fail_fast:
            self.queue.clear()


def _perform(task: _Task) -> Outcome:
    silently = (lambda _: None) if task.awaited else None  # said when it was put off
    return execute(task.job.config, task.job.overrides, silently)
