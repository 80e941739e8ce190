"""α-entmax of two scores, in the manner of Peters et al. (2019), Figure 3."""

from dataclasses import replace
from typing import Any

from repro.report.figures.canvas import INK, Canvas, plain_axes
from repro.report.figures.kinds import Figure, FigureRuns, Row
from repro.report.figures.library import as_numbers
from repro.report.figures.styles import DASHES, style_of

ALPHAS = (1.0, 1.25, 1.5, 2.0, 4.0)
REACH = 4.5
STEPS = 360
_LABELS = {1.0: "α = 1 (softmax)", 2.0: "α = 2 (sparsemax)"}


class EntmaxCurves(Figure):
    """Curves of a probability against the lead of its score, one per α."""

    description = (
        "Five curves of the first probability against the lead t of the first score, all through "
        "one half at t = 0. Softmax never reaches 0 or 1; the others do at t = ±1/(α − 1), "
        "sparsemax in a straight line, α = 4 in the steepest curve."
    )

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        """Compute ``α-entmax([t, 0])_1`` on a grid of ``t``."""
        import torch

        from repro.mappings import entmax

        leads = torch.linspace(-REACH, REACH, STEPS + 1)
        scores = torch.stack((leads, torch.zeros_like(leads)), -1)
        curves = [
            {"alpha": alpha, "probability": as_numbers(entmax(scores, alpha)[:, 0])}
            for alpha in ALPHAS
        ]
        return {"t": as_numbers(leads), "curves": curves}

    def draw(self, data: Row) -> Canvas:
        canvas = Canvas(5.2, 3.3)
        axes = canvas.add_subplot()
        for curve in data["curves"]:
            alpha = curve["alpha"]
            label = _LABELS.get(alpha, f"α = {alpha:g}")
            # 1.25, 1.5 and 4 have one style: 4 borrows that of normmax, 1.25 gets other dashes.
            style = style_of("normmax") if alpha > 2 else style_of("entmax", alpha)
            style = replace(style, dashes=DASHES[2]) if alpha == 1.25 else style
            line = {"color": style.color, "ls": style.dashes, "lw": 1.7}
            axes.plot(data["t"], curve["probability"], label=label, **line)
        plain_axes(axes, "t", "α-entmax([t, 0])₁")
        axes.set(xlim=(-REACH, REACH), xticks=range(-4, 5), yticks=[0, 0.5, 1])
        axes.legend(frameon=False, labelcolor=INK, fontsize=8, loc="upper left", handlelength=2.6)
        canvas.tight_layout()
        return canvas


FIGURES = {"entmax_curves": EntmaxCurves()}
