"""α-entmax of two scores, in the manner of Peters et al. (2019), Figure 3."""

from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.figure import Figure

from repro.mappings import MAPPINGS, entmax
from repro.report.canvas import INK, new_figure
from repro.report.library.plain_axes import as_numbers, even_grid, plain_axes

DESCRIPTION = (
    "Five curves of the first probability against the lead t of the first score, all through one "
    "half at t = 0. Softmax never reaches 0 or 1; the others do at t = ±1/(α − 1), sparsemax in a "
    "straight line, α = 4 in the steepest curve."
)
ALPHAS = (1.0, 1.25, 1.5, 2.0, 4.0)
REACH = 4.5
STEPS = 360
_STYLES = {
    1.0: ("α = 1 (softmax)", "softmax", (0, (6, 2))),
    1.25: ("α = 1.25", "entmax", (0, (1, 1.2))),
    1.5: ("α = 1.5", "entmax", "-"),
    2.0: ("α = 2 (sparsemax)", "sparsemax", "-"),
    4.0: ("α = 4", "normmax", (0, (5, 1.5, 1, 1.5))),
}
"""Label, mapping whose colour is taken, and dashes of each alpha."""


def compute() -> dict[str, Any]:
    """``α-entmax([t, 0])_1`` on a grid of ``t``."""
    leads = even_grid(-REACH, REACH, STEPS)
    scores = torch.stack((leads, torch.zeros_like(leads)), -1)
    curves = [
        {"alpha": alpha, "probability": as_numbers(entmax(scores, alpha)[:, 0])} for alpha in ALPHAS
    ]
    return {"t": as_numbers(leads), "curves": curves}


def draw(values: Mapping[str, Any]) -> Figure:
    """Draw one line per alpha."""
    figure = new_figure(5.2, 3.3)
    axes = figure.add_subplot()
    for curve in values["curves"]:
        label, name, dashes = _STYLES[curve["alpha"]]
        color = MAPPINGS[name].color
        axes.plot(values["t"], curve["probability"], color=color, ls=dashes, lw=1.7, label=label)
    plain_axes(axes, "")
    axes.set_xlim(-REACH, REACH)
    axes.set_xticks(range(-4, 5))
    axes.set_yticks([0, 0.5, 1])
    axes.set_xlabel("t", fontsize=9, color=INK)
    axes.set_ylabel("α-entmax([t, 0])₁", fontsize=9, color=INK)
    axes.legend(frameon=False, fontsize=8, loc="upper left", handlelength=2.6)
    figure.tight_layout()
    return figure
