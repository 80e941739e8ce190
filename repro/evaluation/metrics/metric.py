"""Declaration of metrics: what a number means and how it is computed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from repro.evaluation.sufficient_statistics import Formula, Statistics, metric_value
from repro.version import __version__

_VERSIONS = ("v", "sacrebleu", "nltk", "rouge-score")
"""Keys of signatures whose values are versions of packages."""


@dataclass(frozen=True)
class Metric:
    """Declaration of a number that a run records.

    Attributes:
        name: middle part of ``<split>/<metric>[/<part>]``.
        unit: unit for axes and column heads; empty for a dimensionless number.
        digits: decimals to print.
        higher_is_better: ``None`` if neither direction is better.
        signature: short name, choices that change the number as ``key:value``, and version of the
            package, joined by ``|``; see :func:`signature`.
        description: one sentence.
        part: kind of the third part of a full name: ``"language"``, ``"label"`` or ``"length"``.
        from_sums: function of summed statistics that computes the metric; ``None`` for one that is
            not a function of sums over examples, for which there are no paired tests.
        outputs: class of the outputs of a split from which the metric is computed, for example
            :class:`repro.evaluation.metrics.translation.Translations`; ``None`` for a number that
            the task measures itself.
        statistics: function of such outputs that returns the contribution of each example, or
            ``None`` if the metric does not apply.
        recorded: whether to record the metric over all examples (``"whole"``), for each group or
            part (``"parts"``), or ``"both"``.
    """

    name: str
    unit: str
    digits: int
    higher_is_better: bool | None
    signature: str
    description: str
    part: str = "language"
    from_sums: Formula | None = None
    outputs: type | None = None
    statistics: Callable[[Any], Statistics | None] | None = None
    recorded: Literal["whole", "parts", "both"] = "whole"

    def value(self, outputs: object) -> float:
        """Compute the metric from the outputs of a split.

        Raises:
            TypeError: the metric does not accept these outputs, or does not apply to them.
        """
        counted = self.count(outputs)
        if counted is None or self.from_sums is None:
            raise TypeError(f"{self.name} is not defined for these {type(outputs).__name__}")
        return metric_value(counted.rows, self.from_sums, counted.groups)

    def count(self, outputs: object) -> Statistics | None:
        """Compute statistics of the outputs of a split; ``None`` if the metric does not apply."""
        if self.outputs is None or self.statistics is None or not isinstance(outputs, self.outputs):
            return None
        return self.statistics(outputs)


def signature(short: str, choices: str) -> str:
    """Format a signature: short name of the metric, choices, and version of the package."""
    return f"{short}|{choices}|v:{__version__}"


@cache
def without_versions(text: str) -> str:
    """Leave the versions of packages out of a signature: the choices remain."""
    return "|".join(one for one in text.split("|") if one.partition(":")[0] not in _VERSIONS)
