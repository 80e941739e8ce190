"""What one number means, and how its signature is written."""

from dataclasses import dataclass

from repro import __version__


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
    """

    name: str
    unit: str
    digits: int
    higher_is_better: bool | None
    signature: str
    description: str
    part: str = "language"


def signed(short: str, choices: str) -> str:
    """A signature: the metric's short name, its choices, and the version of the package."""
    return f"{short}|{choices}|v:{__version__}"
