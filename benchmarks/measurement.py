"""Measurement of one line of the table: a row at a shape with a number of threads."""

from dataclasses import dataclass
from statistics import median

import torch

from benchmarks.rows import Row, Shape
from benchmarks.targets import Target, target_for
from benchmarks.timing import Clock, paired

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Measurement:
    """Times of forward and backward in milliseconds, and derived numbers.

    Attributes:
        name: name of the row.
        kind: kind of the row.
        shape: ``<rows>x<entries per row>``.
        threads: number of CPU threads of torch.
        milliseconds: median time.
        fastest: least time.
        baseline: median time of the baseline.
        baseline_fastest: least time of the baseline.
        ratio: median over rounds of the time relative to the baseline.
        rounds: number of rounds.
        rate: bytes that must be moved, per second of the median time.
        roofline: ``rate`` as a share of the bandwidth of a copy.
        target: target for the ratio, or None.
    """

    name: str
    kind: str
    shape: str
    threads: int
    milliseconds: float
    fastest: float
    baseline: float
    baseline_fastest: float
    ratio: float
    rounds: int
    rate: float
    roofline: float
    target: Target | None

    @property
    def met(self) -> bool | None:
        """Return whether the target is met; None without one."""
        return None if self.target is None else self.target.met(self.ratio)


def measure(
    row: Row, shape: Shape, device: torch.device, clock: Clock, bandwidth: float, seconds: float
) -> Measurement:
    """Time one row at one shape.

    Args:
        row: what to time.
        shape: shape of the scores.
        device: device of the scores.
        clock: times a pass on this device.
        bandwidth: bandwidth of a copy, in bytes per second.
        seconds: time limit, see :func:`paired`.
    """
    timing = paired(*row.passes(shape, device), clock, seconds)
    threads, middle = torch.get_num_threads(), median(timing.measured)
    rate = row.floats * shape.rows * shape.size * _FLOAT_BYTES / middle
    return Measurement(
        name=row.name,
        kind=row.kind,
        shape=str(shape),
        threads=threads,
        milliseconds=1000 * middle,
        fastest=1000 * min(timing.measured),
        baseline=1000 * median(timing.baseline),
        baseline_fastest=1000 * min(timing.baseline),
        ratio=timing.ratio,
        rounds=timing.rounds,
        rate=rate,
        roofline=rate / bandwidth,
        target=target_for(device.type, threads, row.name, str(shape)),
    )
