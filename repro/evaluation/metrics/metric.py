"""Declaration of a metric: what the number means, and how it is computed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from repro import __version__
from repro.evaluation.sufficient_statistics import Form, Statistics, metric_value


@dataclass(frozen=True)
class Metric:
    """A number that a run records.

    Attributes:
        name: middle part of ``<split>/<metric>[/<part>]``.
        unit: unit for axis and table heads; empty for a bare number.
        digits: digits after the point that are worth showing.
        higher_is_better: ``None`` where neither direction is better.
        signature: the choices that change the number, as ``key:value`` joined by ``|``.
        description: one sentence.
        part: what the third part of a full name is.
        of_sums: computes the metric from summed statistics; ``None`` for a number that is not a
            function of sums over examples, and is never compared in pairs.
        reads: class of the outputs of a split from which the metric is computed, for example
            :class:`repro.evaluation.metrics.translation.Translations`; ``None`` for a number that
            the task measures itself.
        statistics: what each example of such outputs adds; returns ``None`` where the metric does
            not apply.
        recorded: the metric over all examples (``"whole"``), for each group (``"parts"``), or both.
    """

    name: str
    unit: str
    digits: int
    higher_is_better: bool | None
    signature: str
    description: str
    part: str = "language"
    of_sums: Form | None = None
    reads: type | None = None
    statistics: Callable[[Any], Statistics | None] | None = None
    recorded: Literal["whole", "parts", "both"] = "whole"

    def value(self, outputs: object) -> float:
        """Compute the metric of the outputs of a split.

        Raises:
            TypeError: the metric does not read such outputs, or does not apply to them.
        """
        counted = self.count(outputs)
        if counted is None or self.of_sums is None:
            raise TypeError(f"{self.name} is not defined for these {type(outputs).__name__}")
        return metric_value(counted.rows, self.of_sums, counted.groups)

    def count(self, outputs: object) -> Statistics | None:
        """Statistics of the outputs of a split; ``None`` where the metric does not apply."""
        if self.reads is None or self.statistics is None or not isinstance(outputs, self.reads):
            return None
        return self.statistics(outputs)


def signature(short: str, choices: str) -> str:
    """Write a signature: the metric's short name, its choices, and the version of the package."""
    return f"{short}|{choices}|v:{__version__}"
