"""What the figures of the library share: axes without a box, small letters, even grids."""

import torch
from matplotlib.axes import Axes
from torch import Tensor

from repro.report.canvas import INK, MUTED_INK

DIGITS = 9
"""Digits of a value that are kept: more than can be seen, fewer than differ between machines."""


def plain_axes(axes: Axes, title: str) -> None:
    """Leave the left and the lower edge, in grey; write the title above."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED_INK)
    axes.tick_params(color=MUTED_INK, labelcolor=INK, labelsize=8, length=3)
    axes.set_title(title, fontsize=10, color=INK)


def even_grid(low: float, high: float, steps: int) -> Tensor:
    """``steps + 1`` numbers from ``low`` to ``high`` in float64."""
    return torch.linspace(low, high, steps + 1, dtype=torch.float64)


def as_numbers(values: Tensor) -> list[float]:
    """A vector as JSON can hold it; zero has no sign."""
    return [round(value, DIGITS) + 0.0 for value in values.tolist()]
