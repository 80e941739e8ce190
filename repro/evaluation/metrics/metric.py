"""What one number means, and how its signature is written."""

from dataclasses import dataclass

from repro import __version__
from repro.evaluation.sufficient_statistics import Form


@dataclass(frozen=True)
class Metric:
    """What one number means.

    Attributes:
        name: middle part of ``<split>/<metric>[/<language>]``.
        unit: unit for axis and table heads; empty for a bare number.
        digits: digits after the point that are worth showing.
        higher_is_better: ``None`` where neither direction is better.
        signature: the choices that change the number, as ``key:value`` joined by ``|``.
        description: one sentence.
        part: what the third part of a full name is.
        of_sums: the metric from sums of what each example adds; ``None`` for a metric that is no
            function of sums, which is not tested in pairs.
    """

    name: str
    unit: str
    digits: int
    higher_is_better: bool | None
    signature: str
    description: str
    part: str = "language"
    of_sums: Form | None = None


def signed(short: str, choices: str) -> str:
    """A signature: the metric's short name, its choices, and the version of the package."""
    return f"{short}|{choices}|v:{__version__}"
