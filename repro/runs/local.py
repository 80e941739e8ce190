"""The local launcher: runs in this process, or in parallel processes of this machine."""

import os
import sys
from collections import deque
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import torch

from repro.runs.device import choose_device
from repro.runs.environment import least_bytes, physical_bytes
from repro.runs.execute import execute, record_death
from repro.runs.job import Job, Outcome
from repro.runs.launch import Backend, Batch
from repro.runs.mps import free_memory, shared_card
from repro.runs.workers import Death, WorkerPool


def run_locally(batch: Batch) -> None:
    """Execute every run, in this process or in ``hardware.parallel_runs`` workers.

    A run that another process works on is postponed, then waited for. If a worker dies, only its
    own run fails. With ``fail_fast``, no run is started after one has failed, nor in this process
    after one that has spoiled it; a worker that a run has spoiled is replaced.
    """
    queue, workers = _Queue(batch), parallel_runs(batch)
    if workers == 1:
        while (task := queue.take(0)) is not None:
            outcome = _perform(task)
            queue.settle(0, task, outcome)
            if outcome.spoiled:
                queue.clear()
        return
    prepare = partial(torch.set_num_threads, max(1, (os.cpu_count() or 1) // workers))
    running: dict[int, _Task] = {}
    on_card = choose_device(batch.jobs[0].config.hardware).type == "cuda"
    with (
        shared_card() if on_card else nullcontext(),
        WorkerPool[_Task, Outcome](_perform, prepare, workers) as pool,
    ):
        while True:
            deaths: list[tuple[int, Outcome | Death]] = []
            for slot in pool.idle_slots():
                if (task := queue.take(slot)) is not None:
                    running[slot] = task
                    if (death := pool.start(slot, task)) is not None:
                        deaths.append((slot, death))
            if not running:
                return
            for slot, ended in deaths or pool.wait():
                task = running.pop(slot)
                if isinstance(ended, Death):
                    reason = f"{ended}; the same command continues it from its last checkpoint"
                    ended = record_death(task.job, reason)
                elif ended.spoiled:
                    pool.retire(slot)
                queue.settle(slot, task, ended)


BACKEND = Backend(run_locally)


def parallel_runs(batch: Batch) -> int:
    """Return how many runs to execute in parallel: by default, as cores and memory allow."""
    number, jobs = batch.settings["parallel_runs"], batch.jobs
    if number is None:
        number = jobs[0].config.hardware.parallel_runs
    if number == 0 and len(jobs) > 1:
        number, memory = os.cpu_count() or 1, physical_bytes()
        device = choose_device(jobs[0].config.hardware).type
        if device == "cuda":
            number, memory = min(number, _MOST_ON_CARD), free_memory() or sys.maxsize
        needed = _PROCESS_BYTES[device] + max(least_bytes(job.config) for job in jobs)
        number = max(1, min(number, memory // needed))
    return min(number or 1, len(jobs))


_MOST_ON_CARD = 12
"""Small models that keep an H100 busy."""
_PROCESS_BYTES = {"cpu": 2**29, "cuda": 2**30}
"""Memory of a run beside its model: libraries and data; the context of CUDA, half of this, and the
values of a small model."""


class _Task(NamedTuple):
    """Run for a worker, and whether to wait for another process that works on it."""

    job: Job
    awaited: bool


class _Queue:
    """Runs that are not done, in the order in which slots take them.

    Runs of one group share a training: one slot takes them in turn. A group whose next run another
    process works on is postponed until no other group is left. Slots prefer different tasks: with
    the same one, they would compile the same kernels at the same time.
    """

    def __init__(self, batch: Batch) -> None:
        self._fresh = deque(deque(_Task(job, False) for job in g) for g in batch.by_training())
        self._postponed = deque[deque[_Task]]()
        self._slots: dict[int, deque[_Task]] = {}
        self._tasks: dict[int, str] = {}
        self._display = batch.display

    def take(self, slot: int) -> _Task | None:
        group = self._slots.get(slot)
        if not group:
            groups = self._fresh or self._postponed
            if not groups:
                return None
            elsewhere = {task for other, task in self._tasks.items() if other != slot}
            kinds = [group[0].job.config.task.name for group in groups]
            chosen = next((i for i, kind in enumerate(kinds) if kind not in elsewhere), 0)
            group = self._slots[slot] = groups[chosen]
            self._tasks[slot] = kinds[chosen]
            del groups[chosen]
        return group.popleft()

    def settle(self, slot: int, task: _Task, outcome: Outcome) -> None:
        if outcome.status == "busy":
            self._display.note("waiting", outcome.run_id, outcome.error)
            group = self._slots.pop(slot, None)
            if group is None:  # a run has failed, and nothing is started any more
                return
            group.appendleft(task._replace(awaited=True))
            self._postponed.append(group)
            return
        if outcome.status == "failed" and task.job.folder.status != "failed":  # no room for a mark
            self._display.note("failed", outcome.run_id, outcome.error)
        if outcome.status == "failed" and task.job.config.fail_fast:
            self.clear()

    def clear(self) -> None:
        """Start no further run."""
        for groups in (self._fresh, self._postponed, self._slots):
            groups.clear()


def _perform(task: _Task) -> Outcome:
    silently = (lambda _: None) if task.awaited else None  # reported when it was postponed
    return execute(task.job, silently)
