"""Numbers that figures of the library compute, as JSON holds them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

DIGITS = 6
"""Decimals of a value that are kept: more than can be seen, fewer than differ between machines.

Values are computed in float32, for which runs have compiled the kernels already.
"""


def as_numbers(values: "Tensor") -> list[float]:
    """A vector as JSON can hold it; zero has no sign."""
    return [round(value, DIGITS) + 0.0 for value in values.tolist()]
