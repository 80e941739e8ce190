"""One cell of the table: a row at a shape with a number of threads."""

from dataclasses import dataclass
from statistics import median

import torch

from benchmarks.rows import Row, Shape
from benchmarks.targets import Target, target_for
from benchmarks.timing import Clock, paired

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Measurement:
    """Times of forward and backward in milliseconds, and what follows from them.

    Attributes:
        name: name of the row.
        kind: kind of the row.
        shape: rows and entries of each.
        threads: number of threads of torch, on the processor.
        milliseconds: median.
        fastest: the least.
        baseline: median of what the row is divided by.
        baseline_fastest: the least of it.
        ratio: median over rounds.
        rounds: how many.
        rate: bytes a second if none but those that have to are moved.
        roofline: share of the bandwidth of a copy that this is.
        target: target for the ratio, if there is one.
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
        device: where.
        clock: clock of this device.
        bandwidth: bandwidth of a copy, in bytes a second.
        seconds: how long, see :func:`paired`.
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
