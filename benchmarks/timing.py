"""Two passes in turn, so that whatever disturbs the machine disturbs both."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from benchmarks.rows import Work

_MOST_ROUNDS = 300
_FEW_ROUNDS = 3
_FLUSH_BYTES = 2**28
"""Written between passes on an accelerator: more than its second-level cache holds."""
_COPY_FLOATS = 2**26

Clock = Callable[[Work], float]
"""Seconds that a pass takes."""


@dataclass(frozen=True)
class Timing:
    """Seconds of both passes, one pair for each round."""

    measured: list[float]
    baseline: list[float]

    @property
    def rounds(self) -> int:
        """Number of pairs."""
        return len(self.measured)

    @property
    def ratio(self) -> float:
        """Median of the ratios of the rounds."""
        return median(a / b for a, b in zip(self.measured, self.baseline, strict=True))


def clock_for(device: torch.device) -> Clock:
    """Choose how passes are timed on a device."""
    return _cuda_clock(device) if device.type == "cuda" else cpu_seconds


def cpu_seconds(work: Work) -> float:
    """Seconds of a pass on the processor."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def processor_seconds(work: Work) -> float:
    """Processor time of a pass, all threads together; other programs do not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _cuda_clock(device: torch.device) -> Clock:
    flush = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device=device)

    def seconds(work: Work) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        flush.zero_()
        start.record()
        work()
        end.record()
        torch.cuda.synchronize(device)
        return start.elapsed_time(end) / 1000

    return seconds


def paired(measured: Work, baseline: Work, clock: Clock, seconds: float) -> Timing:
    """Time two passes in turn, after a warm-up of both.

    Args:
        measured: the pass of interest.
        baseline: what it is divided by.
        clock: times one pass.
        seconds: how long; the last round is finished, and slow passes get up to three rounds in
            up to four times as long.
    """
    clock(measured), clock(baseline)
    timing, start = Timing([], []), time.perf_counter()
    while timing.rounds < _MOST_ROUNDS:
        timing.measured.append(clock(measured))
        timing.baseline.append(clock(baseline))
        spent = time.perf_counter() - start
        if spent > seconds and (timing.rounds >= _FEW_ROUNDS or spent > 4 * seconds):
            break
    return timing


def copy_bandwidth(device: torch.device, clock: Clock) -> float:
    """Bytes a second, read and written, of a large copy on a device."""
    source = torch.zeros(_COPY_FLOATS, device=device)
    target = torch.ones_like(source)
    best = min(clock(lambda: target.copy_(source)) for _ in range(5))
    return 2 * source.nbytes / best
