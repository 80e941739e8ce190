"""Updates on CUDA as graphs: launched as one, where thousands of launches leave the device idle.

An update (forward, loss, backward, clipping, optimizer) of a batch reads no value on the host, nor
do the statistics of a validation. So they can be captured for each shape of batches, and replayed
on other values. Batches are padded to multiples of :data:`STEP`, so that few shapes serve an epoch;
padding changes neither losses nor gradients, only which random numbers dropout draws. The first
updates of a shape, and all of shapes that remain rare, are taken one operator at a time, with equal
results: which updates were replayed leaves no trace, and a resumed run need not know it.

Learning rates stay numbers in the optimizer, where schedules and checkpoints see them. For the time
of an update they are tensors, which the captured optimizer reads.
"""

import gc
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from repro.training import distributed
from repro.training.protocol import Trainable

STEP = 4
"""Lengths of captured batches are multiples of this."""
EAGER = 3
"""Batches of a shape before it is captured; a capture takes as long as several updates."""
MOST_GRAPHS = 100

Results = tuple[Tensor, Tensor]
ResultsT = TypeVar("ResultsT")
_log = logging.getLogger(__name__)


class CaptureError(RuntimeError):
    """Work cannot be captured; the allocator and the generators of the process may be unusable."""


class Graph(Generic[ResultsT]):
    """Captured work, and its results, which the next replay of any graph overwrites.

    Raises:
        CaptureError: the work cannot be captured.
    """

    def __init__(self, work: Callable[[], ResultsT], stream: Any, pool: Any) -> None:
        self._graph = torch.cuda.CUDAGraph()
        collecting, cause = gc.isenabled(), None
        gc.disable()  # to destroy the graphs of an earlier task would end the capture
        try:
            with torch.cuda.graph(self._graph, pool=pool, stream=stream):
                try:
                    self._results = work()
                except Exception as error:
                    cause = error  # to end the capture fails as well then, with an error of its own
                    raise
        except Exception as error:
            cause = cause or error
            raise CaptureError(
                f"training.graphs=auto: this cannot be captured; set training.graphs=off ({cause})"
            ) from cause
        finally:
            if collecting:
                gc.enable()

    def replay(self) -> ResultsT:
        """Launch the work again; it reads and writes the same memory."""
        self._graph.replay()
        return self._results


class _Captured(Generic[ResultsT]):
    """Work on one shape: its batch, into which others are copied, and what it adds to tallies."""

    def __init__(
        self,
        work: Callable[[Any], ResultsT],
        tally: Mapping[str, float],
        batch: Any,
        *place: Any,
    ) -> None:
        mine = {name: one.clone() for name, one in vars(batch).items() if one is not None}
        self._batch, self._tally = replace(batch, **mine), cast("dict[str, float]", tally)
        before = dict(self._tally)
        self._graph = Graph(lambda: work(self._batch), *place)
        self._added = {key: value - before[key] for key, value in self._tally.items()}
        for key, value in before.items():  # nothing was computed yet
            self._tally[key] = value

    def __call__(self, batch: Any) -> ResultsT:
        for name, tensor in vars(batch).items():
            if tensor is not None:
                getattr(self._batch, name).copy_(tensor)
        for key, value in self._added.items():
            self._tally[key] += value
        return self._graph.replay()


class Replays(Generic[ResultsT]):
    """Work on batches, replayed from graphs where these are wanted and possible.

    Graphs need batches with ``padded``. ``tally`` are the sums to which the work adds.
    """

    def __init__(
        self,
        work: Callable[[Any], ResultsT],
        device: torch.device,
        wanted: bool,
        tally: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._work, self._device, self._tally = work, device, tally
        self._on_cuda = on_cuda(device)
        self._padded = wanted and self._on_cuda and distributed.size() == 1
        self._capturing = self._padded
        self._seen = Counter[Any]()
        self._graphs: dict[Any, _Captured[ResultsT]] = {}
        self._place: tuple[Any, ...] = ()

    def __call__(self, batch: Any) -> ResultsT:
        """Do the work; results are valid until the next call."""
        if not self._padded or (padded := getattr(batch, "padded", None)) is None:
            return self._work(batch)
        batch = padded(STEP)
        if not self._place:
            gc.collect()  # a task and its replays refer to each other: so do those before this one
            self._place = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        if not self._capturing:
            return self._eager(batch, watched=False)
        tensors = vars(batch).items()
        shape = tuple((name, *one.shape) for name, one in tensors if one is not None)
        if shape not in self._graphs:
            self._seen[shape] += 1
            if self._seen[shape] <= EAGER or len(self._graphs) == MOST_GRAPHS:
                return self._eager(batch, watched=self._seen[shape] == EAGER)
            self._graphs[shape] = _Captured(self._work, self._tally, batch, *self._place)
        return self._graphs[shape](batch)

    @property
    def captured(self) -> int:
        """Number of graphs, each of which took the time of several updates."""
        return len(self._graphs)

    def _eager(self, batch: Any, watched: bool) -> ResultsT:
        """Do the work on the stream of captures, which has work space of its own.

        The last batch before a capture is watched: if it waits for the device, as for a solver on
        the CPU, nothing is captured. Later batches stay on the stream all the same: another one
        could not use its memory, and autograd warns where it meets nodes of an earlier stream.
        """
        stream, current = self._place[0], torch.cuda.current_stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            work = partial(self._work, batch)
            found, waits = watch(work) if watched else (work(), False)
        current.wait_stream(stream)
        if waits:
            _log.info("batches of this task wait for the host: they are not captured as graphs")
            self._capturing = False
        return found


class Updates(Replays[Results]):
    """Updates of a task as :class:`Replays`; learning rates may change between them."""

    def __init__(
        self,
        update: Callable[[Any], Results],
        task: Trainable[Any],
        optimizer: Optimizer,
        wanted: bool,
    ) -> None:
        super().__init__(update, next(task.model.parameters()).device, wanted, task.tally)
        self._optimizer = optimizer
        self._rates: list[Tensor] = []
        self._written: list[float | None] = []

    def __call__(self, batch: Any) -> Results:
        """Take an update; results are valid until the next one."""
        if not self._on_cuda:
            return self._work(batch)
        with self._rates_on_device():
            return super().__call__(batch)

    @contextmanager
    def _rates_on_device(self) -> Iterator[None]:
        """Replace learning rates by tensors, which keep their place; write rates that changed."""
        groups = self._optimizer.param_groups
        numbers = [group["lr"] for group in groups]
        if not self._rates:
            self._rates = [torch.empty((), device=self._device) for _ in groups]
            self._written = [None] * len(groups)
        kept = [{key: group[key] for key in _FLAGS if key in group} for group in groups]
        for place, (group, rate) in enumerate(zip(groups, self._rates, strict=True)):
            if numbers[place] != self._written[place]:
                rate.fill_(numbers[place])
                self._written[place] = numbers[place]
            group |= {key: True for key in kept[place]} | {"lr": rate}
        try:
            yield
        finally:
            for group, flags, number in zip(groups, kept, numbers, strict=True):
                group |= flags | {"lr": number}


_FLAGS = ("fused", "capturable")
"""Settings with which PyTorch's optimizers read the learning rate on the device."""


def on_cuda(device: torch.device) -> bool:
    """Return whether updates on a device can be captured."""
    return device.type == "cuda"


def watch(work: Callable[[], ResultsT]) -> tuple[ResultsT, bool]:
    """Do work; return its results, and whether it has waited for the device."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():  # that the mode is a prototype; it is said once in a process
        warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
        torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = work()
    finally:
        torch.cuda.set_sync_debug_mode(before)
    waits = [one for one in caught if "called a synchronizing" in str(one.message)]
    for one in caught:
        if one not in waits:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return found, bool(waits)
