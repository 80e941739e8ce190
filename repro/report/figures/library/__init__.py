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


CORNERS = ((0.0, 0.0), (1.0, 0.0), (0.5, 0.75**0.5))
"""Corners of the triangle that shows the distributions over three choices."""


def as_numbers(values: "Tensor", digits: int = DIGITS) -> list[float]:
    """Convert a vector to a list of rounded numbers without negative zeros."""
    return [round(value, digits) + 0.0 for value in values.tolist()]
