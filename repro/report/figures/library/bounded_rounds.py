"""Attention in three rounds, with and without bounds: Malaviya et al. (2018), Figure 1."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from repro.report.figures.canvas import INK, MUTED_INK, PAPER, SHADE, Canvas, plain_axes
from repro.report.figures.kinds import Figure, FigureRuns, Row
from repro.report.figures.library import CORNERS, as_numbers
from repro.report.figures.styles import style_of

ROUNDS = ((1.2, 0.8, -0.2), (0.7, 0.9, 0.1), (-0.2, 0.2, 0.9))
BOUND = "#117733"
_TITLES = {
    "softmax": "softmax",
    "sparsemax": "sparsemax",
    "csoftmax": "constrained softmax",
    "csparsemax": "constrained sparsemax",
}
"""Titles of columns by the name of the function in ``repro.mappings``."""
_WORDS = ("word 1", "word 2", "word 3")


class BoundedRounds(Figure):
    """Triangles for each round and mapping, and bars of the cumulative attention."""

    description = (
        "Four columns, softmax, sparsemax, constrained softmax and constrained sparsemax, and "
        "three rows of triangles with the attention of that round as a point; dashed lines are "
        "upper bounds. The last row shows the cumulative attention: exactly one for every word "
        "where it is bounded, uneven where it is not."
    )

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        """Compute the attention of each round; bounds allow each word a total of one."""
        import torch

        from repro import mappings

        scores = torch.tensor(ROUNDS)
        columns = {}
        for name in _TITLES:
            function = getattr(mappings, name)
            attention, bounds, left = [], [], torch.ones_like(scores[0])
            for row in scores:
                if name in ("softmax", "sparsemax"):
                    attention.append(function(row))
                    continue
                # The bound is the unused part of one unit per word.
                bounds.append(left)
                attention.append(function(row, left))
                left = (left - attention[-1]).clamp(min=0)
            columns[name] = {
                "attention": [as_numbers(row) for row in attention],
                "bounds": [as_numbers(row) for row in bounds],
                "cumulative": as_numbers(torch.stack(attention).sum(0)),
            }
        return {"scores": [list(row) for row in ROUNDS], "columns": columns}

    def draw(self, data: Row) -> Canvas:
        columns = data["columns"]
        canvas = Canvas(9.2, 8.2)
        heights = [*(3 for _ in ROUNDS), 2]
        grid = canvas.subplots(len(ROUNDS) + 1, len(columns), height_ratios=heights)
        for column, (name, rounds) in enumerate(columns.items()):
            bounds = rounds["bounds"] or [None] * len(ROUNDS)
            for row, (attention, bound) in enumerate(zip(rounds["attention"], bounds, strict=True)):
                _draw_triangle(grid[row][column], name, attention, bound)
            bars, places = grid[-1][column], range(len(_WORDS))
            bars.bar(places, rounds["cumulative"], color=style_of(name).color, width=0.6)
            for place, height in zip(places, rounds["cumulative"], strict=True):
                text = f"{height:.2f}"
                bars.text(place, height + 0.03, text, ha="center", fontsize=7.5, color=INK)
            if rounds["bounds"]:
                bars.axhline(1, color=BOUND, ls=(0, (4, 2)), lw=1.3)
            plain_axes(bars)
            bars.set(xticks=places, xticklabels=_WORDS, yticks=[0, 0.5, 1], ylim=(0, 1.3))
            grid[0][column].set_title(_TITLES[name], fontsize=10, color=INK, pad=8)
        for axes, scores in zip(grid[:, 0], data["scores"], strict=False):
            text = "z = (" + ", ".join(f"{score:g}" for score in scores) + ")"
            axes.text(
                -0.36, 0.43, text.replace("-", "−"), rotation=90, va="center", fontsize=9, color=INK
            )
        plain_axes(grid[-1][0], y="cumulative attention")
        canvas.tight_layout(h_pad=1.2, w_pad=1.0)
        return canvas


def _draw_triangle(
    axes: Axes, name: str, attention: Sequence[float], bounds: Sequence[float] | None
) -> None:
    outline = [*CORNERS, CORNERS[0]]
    axes.fill(*zip(*outline, strict=True), facecolor=SHADE, edgecolor=MUTED_INK, lw=0.9)
    for word, bound in enumerate(bounds or ()):
        if bound < 1:
            # Ends of the line on which the bound of this word is active.
            ends = []
            for other in {0, 1, 2} - {word}:
                shares = [0.0] * len(CORNERS)
                shares[word], shares[other] = bound, 1 - bound
                ends.append(_place(shares))
            axes.plot(*zip(*ends, strict=True), color=BOUND, ls=(0, (4, 2)), lw=1.3)
    spec = style_of(name)
    x, y = _place(attention)
    axes.plot(x, y, color=spec.color, marker=spec.marker, ms=8, mec=PAPER, mew=0.8)
    for word, (x, y) in enumerate(CORNERS):
        above = word == len(CORNERS) - 1
        text = f"{_WORDS[word]}\n{attention[word]:.2f}"
        lift, va = (0.07, "bottom") if above else (-0.06, "top")
        axes.text(x, y + lift, text, fontsize=7.5, color=INK, va=va, ha="center")
    axes.set(xlim=(-0.2, 1.2), ylim=(-0.26, 1.14), aspect="equal")
    axes.axis("off")


def _place(shares: Sequence[float]) -> tuple[float, float]:
    """Map a distribution over three words to its position in the triangle."""
    pairs = list(zip(shares, CORNERS, strict=True))
    return sum(p * x for p, (x, _) in pairs), sum(p * y for p, (_, y) in pairs)


FIGURES = {"bounded_rounds": BoundedRounds()}
