"""Figures that show the library itself and are computed without any run.

Modules import torch inside functions: a report whose figures exist does not need it.
"""

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
