"""Attention in three rounds, free and bounded: Malaviya et al. (2018), Figure 1."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from torch import Tensor

from repro.mappings import csoftmax, csparsemax, softmax, sparsemax
from repro.report.figures.canvas import INK, MUTED_INK, PAPER, SHADE, Canvas, plain_axes
from repro.report.figures.kinds import Figure, FigureRuns, Row
from repro.report.figures.library.values import as_numbers
from repro.report.figures.styles import style_of

DESCRIPTION = (
    "Four columns, softmax, sparsemax, constrained softmax and constrained sparsemax, and three "
    "rows of triangles with the attention of that round as a point; dashed lines are upper "
    "bounds. The last row shows the cumulative attention: exactly one for every word where it is "
    "bounded, uneven where it is not."
)
ROUNDS = ((1.2, 0.8, -0.2), (0.7, 0.9, 0.1), (-0.2, 0.2, 0.9))
BOUND = "#117733"
_FREE: dict[str, Callable[[Tensor], Tensor]] = {"softmax": softmax, "sparsemax": sparsemax}
_BOUNDED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "csoftmax": csoftmax,
    "csparsemax": csparsemax,
}
_TITLES = {
    "softmax": "softmax",
    "sparsemax": "sparsemax",
    "csoftmax": "constrained softmax",
    "csparsemax": "constrained sparsemax",
}
_CORNERS = ((0.0, 0.0), (1.0, 0.0), (0.5, 0.75**0.5))
_WORDS = ("word 1", "word 2", "word 3")


def _spend(
    function: Callable[[Tensor, Tensor], Tensor], scores: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """Attention and upper bounds of each round: what is left of one unit per word."""
    attention, bounds = [], []
    left = torch.ones_like(scores[0])
    for row in scores:
        bounds.append(left)
        attention.append(function(row, left))
        left = (left - attention[-1]).clamp(min=0)
    return attention, bounds


def _rounds(attention: Sequence[Tensor], bounds: Sequence[Tensor]) -> dict[str, Any]:
    return {
        "attention": [as_numbers(row) for row in attention],
        "bounds": [as_numbers(row) for row in bounds],
        "cumulative": as_numbers(torch.stack(list(attention)).sum(0)),
    }


class BoundedRounds(Figure):
    """Draw a triangle for each round and mapping, and bars for the sums."""

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        """Attention of each round; every bounded word may receive one in all."""
        scores = torch.tensor(ROUNDS, dtype=torch.float64)
        columns = {name: _rounds(list(function(scores)), []) for name, function in _FREE.items()}
        for name, function in _BOUNDED.items():
            columns[name] = _rounds(*_spend(function, scores))
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
            _draw_bars(grid[-1][column], name, rounds)
            grid[0][column].set_title(_TITLES[name], fontsize=10, color=INK, pad=8)
        for axes, scores in zip(grid[:, 0], data["scores"], strict=False):
            text = "z = (" + ", ".join(f"{score:g}" for score in scores) + ")"
            axes.text(
                -0.36, 0.43, text.replace("-", "−"), rotation=90, va="center", fontsize=9, color=INK
            )
        plain_axes(grid[-1][0], y="cumulative attention")
        canvas.tight_layout(h_pad=1.2, w_pad=1.0)
        return canvas

    def describe(self, data: Row) -> str:
        return DESCRIPTION


def _draw_triangle(
    axes: Axes, name: str, attention: Sequence[float], bounds: Sequence[float] | None
) -> None:
    outline = [*_CORNERS, _CORNERS[0]]
    axes.fill(*zip(*outline, strict=True), facecolor=SHADE, edgecolor=MUTED_INK, lw=0.9)
    for word, bound in enumerate(bounds or ()):
        if bound < 1:
            axes.plot(*_bound_line(word, bound), color=BOUND, ls=(0, (4, 2)), lw=1.3)
    spec = style_of(name)
    axes.plot(*_place(attention), color=spec.color, marker=spec.marker, ms=8, mec=PAPER, mew=0.8)
    for word, (x, y) in enumerate(_CORNERS):
        above = word == len(_CORNERS) - 1
        text = f"{_WORDS[word]}\n{attention[word]:.2f}"
        lift, va = (0.07, "bottom") if above else (-0.06, "top")
        axes.text(x, y + lift, text, fontsize=7.5, color=INK, va=va, ha="center")
    axes.set_xlim(-0.2, 1.2)
    axes.set_ylim(-0.26, 1.14)
    axes.set_aspect("equal")
    axes.axis("off")


def _place(shares: Sequence[float]) -> tuple[list[float], list[float]]:
    """Map a distribution over three words to its position in the triangle."""
    pairs = list(zip(shares, _CORNERS, strict=True))
    return [sum(p * x for p, (x, _) in pairs)], [sum(p * y for p, (_, y) in pairs)]


def _bound_line(word: int, bound: float) -> tuple[list[float], list[float]]:
    """Ends of the line on which one word has just its bound."""
    ends = []
    for other in range(len(_CORNERS)):
        if other != word:
            shares = [0.0] * len(_CORNERS)
            shares[word], shares[other] = bound, 1 - bound
            ends.append(_place(shares))
    (first, second) = ends
    return first[0] + second[0], first[1] + second[1]


def _draw_bars(axes: Axes, name: str, rounds: Mapping[str, Any]) -> None:
    places = range(len(_WORDS))
    axes.bar(places, rounds["cumulative"], color=style_of(name).color, width=0.6)
    for place, height in zip(places, rounds["cumulative"], strict=True):
        axes.text(place, height + 0.03, f"{height:.2f}", ha="center", fontsize=7.5, color=INK)
    if rounds["bounds"]:
        axes.axhline(1, color=BOUND, ls=(0, (4, 2)), lw=1.3)
    plain_axes(axes)
    axes.set_xticks(places, _WORDS)
    axes.set_yticks([0, 0.5, 1])
    axes.set_ylim(0, 1.3)


FIGURES = {"bounded_rounds": BoundedRounds()}
