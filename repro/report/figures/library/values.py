"""Conversion of values that figures of the library compute to JSON."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

DIGITS = 6
"""Decimals that are kept: more than can be seen, too few to show differences between machines.

Mappings are computed in float32, for which runs have already compiled the kernels.
"""


def as_numbers(values: "Tensor") -> list[float]:
    """Convert a vector to a list of rounded numbers without negative zeros."""
    return [round(value, DIGITS) + 0.0 for value in values.tolist()]
