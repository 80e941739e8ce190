"""Strips of weights in the manner of Niculae & Blondel (2017), Figure 1: zeros are grey."""

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from repro.report.canvas import INK, MUTED_INK, text_width

SHADES = LinearSegmentedColormap.from_list("weights", ["#ebf3fa", "#9cc6e6", "#1f5f9e", "#08264d"])
ZERO = "#c9c9c9"
LINE = "#3d4c5a"
SAME = 1e-6
"""Weights that differ by less than this share of the larger one are equal."""
BAR_WIDTH, BAR_HEIGHT, BAR_GAP, NOTE_SIZE = 1.6, 0.1, 0.15, 7
BULLETS = [(shape, filled) for filled in (True, False) for shape in "o^sDvPX*"]
"""Marks of groups of equal weights: shape, and whether it is filled."""


def segments(line: Sequence[float]) -> list[int]:
    """Places after which a weight differs from the one before: where borders are drawn."""
    return [n for n, (a, b) in enumerate(pairwise(line), start=1) if abs(a - b) > SAME * max(a, b)]


def clusters(line: Sequence[float]) -> list[list[int]]:
    """Places of equal nonzero weights, neighbours or not: every group of at least two.

    Returns:
        Places of each group from left to right, the group of the largest weight first.
    """
    order = sorted((n for n, weight in enumerate(line) if weight > 0), key=lambda n: -line[n])
    groups: list[list[int]] = []
    for place in order:
        before = line[groups[-1][-1]] if groups else 0.0
        if groups and before - line[place] <= SAME * before:
            groups[-1].append(place)
        else:
            groups.append([place])
    return [sorted(group) for group in groups if len(group) > 1]


def draw_strip(
    axes: Axes, y: int, line: Sequence[float], scale: Normalize, zero: str = ZERO
) -> None:
    """Draw a row of cells, without a border between neighbours of equal weight.

    Args:
        axes: one unit per cell, rows downwards.
        y: number of the row.
        line: the weights.
        scale: of the shades.
        zero: colour of weights that are exactly zero.
    """
    for x, weight in enumerate(line):
        colour = SHADES(scale(weight)) if weight > 0 else zero
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="none"))
    for x in segments(line):
        axes.plot([x, x], [y + 0.06, y + 0.94], color=LINE, linewidth=0.7, solid_capstyle="butt")
    axes.plot([0, len(line)], [y + 1, y + 1], color="white", linewidth=2.5)


def draw_bullets(axes: Axes, y: int, line: Sequence[float], scale: Normalize) -> None:
    """Mark equal weights of a row by the same bullet, every group by a shape of its own.

    References:
        Niculae & Blondel (2017), Figure 4 and C.3.
    """
    groups = zip(clusters(line), BULLETS, strict=False)
    for places, (shape, filled) in groups:
        colour = "white" if scale(line[places[0]]) > 0.4 else INK
        axes.plot(
            [place + 0.5 for place in places], [y + 0.5] * len(places), shape, markersize=3.2,
            markerfacecolor=colour if filled else "none", markeredgecolor=colour,
            markeredgewidth=0.7, linestyle="none",
        )  # fmt: skip


def bar_room(note: str) -> float:
    """Inches that a bar with its note takes."""
    return BAR_WIDTH + BAR_GAP + 1.05 * text_width(note, NOTE_SIZE) + BAR_GAP


def draw_bar(figure: Figure, scale: Normalize, left: float, note: str) -> None:
    """Draw the scale of shades at the foot of a figure, with a note beside it.

    Args:
        figure: with about 0.4 inches free at its foot.
        scale: of the shades.
        left: where the bar begins, in inches.
        note: what the shades and marks mean.
    """
    width, height = figure.get_size_inches()
    box = (left / width, 0.24 / height, BAR_WIDTH / width, BAR_HEIGHT / height)
    axes = figure.add_axes(box)
    figure.colorbar(ScalarMappable(scale, SHADES), cax=axes, orientation="horizontal")
    axes.tick_params(length=2, labelsize=7, labelcolor=INK)
    x, y = (left + BAR_WIDTH + BAR_GAP) / width, 0.29 / height
    figure.text(x, y, note, fontsize=NOTE_SIZE, color=MUTED_INK, va="center")
