"""Rows split among threads: those of torch's own library, or else threads of Python.

Loops that numba itself runs in parallel would wake a second pool of threads beside torch's; both
keep their processors busy while they wait for each other. Threads of Python let go of the global
lock while they compute, and sleep while they wait. Nothing is started before a call that is large
enough.
"""

import os
from collections.abc import Callable
from itertools import pairwise
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import torch

from repro.mappings.kernels.cpu import team

Entry = Callable[..., int]
"""A compiled kernel without the global lock; its last arguments are the rows: start and stop."""
_GRAIN = 2**16
"""Units of work that are worth a thread of Python, about as many entries of a row."""
_TEAM_GRAIN = 2**14
"""The same for a thread of torch, which need not be woken."""
_TILE = 16
"""Ranges of short rows begin at multiples of this: so many are solved together."""
_SHORT = 2**12
"""Units of work of a row that may be solved in company."""


class _Workers:
    """Threads that wait for tasks; as many as were ever needed at a time."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[tuple[Entry, tuple[Any, ...], SimpleQueue[Any]]] = SimpleQueue()
        self.lock = Lock()
        self.count = 0

    def start(self, count: int) -> None:
        """Have at least so many."""
        with self.lock:
            while self.count < count:
                Thread(target=_serve, args=(self.tasks,), daemon=True).start()
                self.count += 1


def _serve(tasks: SimpleQueue[Any]) -> None:
    """Do tasks for ever; an error is a result."""
    while True:
        entry, arguments, results = tasks.get()
        results.put(_outcome(entry, arguments))


def _outcome(entry: Entry, arguments: tuple[Any, ...]) -> int | Exception:
    try:
        return entry(*arguments)
    except Exception as error:
        return error


_workers = _Workers()
# The threads of a process do not live on in its forks.
os.register_at_fork(after_in_child=_workers.__init__)  # type: ignore[misc]


def split(entry: Entry, count: int, work: int, *arguments: Any) -> int:
    """Call ``entry(*arguments, start, stop)`` for ranges that make up all rows.

    Results do not depend on the number of threads where rows do not depend on each other.

    Args:
        entry: returns a number.
        count: how many rows there are.
        work: cost of all rows; a cheap step on one entry is the unit.
        arguments: of the entry, the same for all ranges.

    Returns:
        The sum of what the calls return.
    """
    grain = _TEAM_GRAIN if team.takes(entry) else _GRAIN
    threads = min(work // grain, count)
    if threads > 1:
        threads = min(torch.get_num_threads(), threads)
    if threads <= 1:
        return entry(*arguments, 0, count)
    unit = _TILE if work <= count * _SHORT else 1
    if team.takes(entry):
        return team.run(entry, torch.get_num_threads(), count, unit, arguments)
    units = -(-count // unit)
    bounds = [min(t * units // threads * unit, count) for t in range(threads + 1)]
    return _shared(entry, bounds, arguments)


def _shared(entry: Entry, bounds: list[int], arguments: tuple[Any, ...]) -> int:
    """Do the first range here and the others elsewhere; nothing is left running at the end."""
    helpers, results = len(bounds) - 2, SimpleQueue[Any]()
    _workers.start(helpers)
    for start, stop in pairwise(bounds[1:]):
        _workers.tasks.put((entry, (*arguments, start, stop), results))
    outcomes = [_outcome(entry, (*arguments, bounds[0], bounds[1]))]
    outcomes += [results.get() for _ in range(helpers)]
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return sum(outcomes)  # type: ignore[arg-type]
