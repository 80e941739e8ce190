"""Timing of two passes in turn, so that disturbances of the machine affect both."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

Work = Callable[[], object]
"""Function that runs a forward and backward pass."""
Clock = Callable[[Work], float]
"""Function that runs a pass and returns its seconds."""

_MAX_ROUNDS = 300
_MIN_ROUNDS = 3
_FLUSH_BYTES = 2**28
"""Bytes written between passes on CUDA devices to flush the second-level cache."""


@dataclass(frozen=True)
class Timing:
    """Seconds of both passes in each round."""

    measured: list[float]
    baseline: list[float]

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.measured)

    @property
    def ratio(self) -> float:
        """Median of the ratios of the rounds."""
        return median(a / b for a, b in zip(self.measured, self.baseline, strict=True))


def clock_for(device: torch.device, flushes: int = 1) -> Clock:
    """Return the clock for passes on a device.

    Args:
        device: the device.
        flushes: how often the cache of a CUDA device is flushed before a pass. Meanwhile the host
            submits the pass; with enough flushes only the time of its kernels is measured.
    """
    return _cuda_clock(device, flushes) if device.type == "cuda" else cpu_seconds


def cpu_seconds(work: Work) -> float:
    """Return the wall-clock time of a pass on the CPU, in seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def processor_seconds(work: Work) -> float:
    """Return the CPU time of a pass in seconds, summed over the threads of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def submission_seconds(work: Work, device: torch.device, calls: int = 20) -> float:
    """Return the shortest time in which the host submits a pass to a CUDA device, in seconds.

    The device is idle before each call, so that its queue is never full.
    """
    found = []
    for _ in range(calls):
        torch.cuda.synchronize(device)
        found.append(cpu_seconds(work))
    return min(found)


def bandwidth(row: str, shape: str, seconds: float, peak: float | None) -> tuple[str, str]:
    """Return GB/s of a forward pass as one read and one write in float32, and the share of a peak.

    Both are blank for losses, which do not write an array, and the share without a peak.
    """
    rows, size = map(int, shape.split("x"))
    rate = 2 * 4 * rows * size / seconds
    if row.endswith("_loss"):
        return "", ""
    return f"{rate / 1e9:,.0f}", f"{100 * rate / peak:.0f} %" if peak else ""


def _cuda_clock(device: torch.device, flushes: int) -> Clock:
    flush = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device=device)

    def seconds(work: Work) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        for _ in range(flushes):
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
        baseline: the pass that it is compared with.
        clock: times one pass.
        seconds: time limit, after which the current round is finished; slow passes may take up to
            four times as long to complete three rounds.
    """
    clock(measured), clock(baseline)
    timing, start = Timing([], []), time.perf_counter()
    while timing.rounds < _MAX_ROUNDS:
        timing.measured.append(clock(measured))
        timing.baseline.append(clock(baseline))
        spent = time.perf_counter() - start
        if spent > seconds and (timing.rounds >= _MIN_ROUNDS or spent > 4 * seconds):
            break
    return timing
