"""Heat maps of weights between words: shades from zero to one, a dot for exact zeros."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.colors import to_rgb

from repro.config.schema.registry import registered_schemas
from repro.data.segmentation import join_subwords
from repro.data.vocabulary import END
from repro.report.figures.canvas import (
    FRAME,
    INK,
    MARGIN,
    MUTED_INK,
    PAPER,
    WEIGHT,
    WORD_SIZE,
    Canvas,
    Cells,
    is_mark,
    opacity,
    text_width,
    token_label,
)

CELL = 0.15
"""Width and height of a cell in inches, just enough for the words beside it."""
NOTE_SIZE = 8.0
SAME = 1e-6
"""Relative tolerance within which two weights count as equal."""
BAR_WIDTH, BAR_HEIGHT, BAR_STEPS, FOOT = 1.6, 0.1, 32, 0.55
BULLETS = [(shape, filled) for filled in (True, False) for shape in "o^sDvPX*"]
"""Markers of groups of equal weights: shape, and whether it is filled."""


def room(words: Sequence[str]) -> float:
    """Return the space in inches that the longest of the words takes beside a heat map."""
    return 0.08 + max((text_width(token_label(w), WORD_SIZE) for w in words), default=0.0)


@dataclass(frozen=True)
class Panel:
    """Output and weights of one run, one row per output symbol.

    ``columns`` are the words that it attends to: those of the source, and a sink if there is one.
    ``cell`` is the width and height of a cell in inches. Without weights only space is left.
    """

    label: str
    mapping: str
    columns: Sequence[str]
    output: Sequence[str]
    weights: Sequence[Sequence[float]]
    cell: tuple[float, float] = (CELL, CELL)

    @property
    def clustered(self) -> bool:
        """Return whether equal weights get bullets: lines show those of adjacent words only."""
        schema = registered_schemas()["mapping"].get(self.mapping)
        return bool(getattr(schema, "clusters", False))

    @property
    def words(self) -> list[str]:
        """Output in whole words, without the end symbol."""
        return join_subwords([symbol for symbol in self.output if symbol != END])


def draw_heatmap(
    canvas: Canvas, left: float, down: float, panel: Panel, name_rows: bool, name_columns: bool
) -> Axes:
    """Draw a heat map; neighbors in a row are separated where their weights differ.

    Args:
        canvas: what to draw on.
        left: edge of the first column, in inches.
        down: upper edge of the first row, in inches from the top of the canvas.
        panel: weights and words.
        name_rows: whether the words of the rows are written on the left.
        name_columns: whether the words of the columns are written below.

    Returns:
        Axes in which each cell is one unit wide and high, rows downwards.
    """
    weights, rows, columns = panel.weights, panel.output, panel.columns
    width, height = panel.cell[0] * len(columns), panel.cell[1] * len(rows)
    axes = canvas.box(left, canvas.get_size_inches()[1] - down - height, width, height)
    axes.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    if not weights:
        axes.set_axis_off()
        return axes
    gid = f"cells{len(canvas.cells)}"
    canvas.cells.append(
        Cells(gid, axes, weights, [*map(token_label, rows)], [*map(token_label, columns)])
    )
    _shade(axes, weights, gid)
    zeros = [
        (x + 0.5, y + 0.5) for y, line in enumerate(weights) for x, w in enumerate(line) if not w
    ]
    if zeros:
        dots = axes.plot(*zip(*zeros, strict=True), ".", color=MUTED_INK, markersize=1.6)
        dots[0].set_gid(f"{gid}-dots")
    # A single line, broken by NaN: between rows, and between neighbors of different weights.
    gap = (float("nan"), float("nan"))
    points: list[tuple[float, float]] = []
    for row, line in enumerate(weights):
        points += [(0.0, row), (len(line), row), gap] if row else []
        for column in segments(line):
            points += [(column, row), (column, row + 1), gap]
    if points:
        axes.plot(*zip(*points, strict=True), color=FRAME, linewidth=0.5, solid_capstyle="butt")
    axes.tick_params(length=0, pad=2, labelcolor=INK, labelsize=WORD_SIZE)
    _label_ticks(axes.xaxis, columns if name_columns else [])
    _label_ticks(axes.yaxis, rows if name_rows else [])
    for y, line in enumerate(weights if panel.clustered else ()):
        draw_bullets(axes, y, line)
    axes.spines[:].set(color=FRAME, linewidth=0.5)
    return axes


def draw_bar(canvas: Canvas, note: str = "") -> None:
    """Draw the color bar at the foot of a canvas, with the legend beside it."""
    height = canvas.get_size_inches()[1]
    axes = canvas.box(MARGIN, 0.26, BAR_WIDTH, BAR_HEIGHT)
    shares = [(step + 0.5) / BAR_STEPS for step in range(BAR_STEPS)]
    gid = f"cells{len(canvas.cells)}"
    axes.set(xlim=(0, BAR_STEPS), ylim=(1, 0), yticks=[])
    canvas.cells.append(Cells(gid, axes, [shares]))
    _shade(axes, [shares], gid)
    ticks = [(share * BAR_STEPS, text) for share, text in ((0, "> 0"), (0.5, "0.5"), (1, "1"))]
    axes.set_xticks(*zip(*ticks, strict=True))
    axes.tick_params(length=2, labelsize=7, labelcolor=INK, color=MUTED_INK)
    axes.spines[:].set(color=FRAME, linewidth=0.5)
    canvas.write(
        MARGIN + BAR_WIDTH + 0.2, height - 0.26 - BAR_HEIGHT / 2, legend(note), va="center",
        fontsize=NOTE_SIZE, color=MUTED_INK,
    )  # fmt: skip


def legend(note: str) -> str:
    """Return the legend of shades, dots and lines, followed by ``note``."""
    known = "weight · dot: exactly zero · no line between equal weights"
    return f"{known} · {note}" if note else known


def bar_room(note: str) -> float:
    """Return the width in inches of the color bar with its legend and margins."""
    return MARGIN + BAR_WIDTH + 0.2 + text_width(legend(note), NOTE_SIZE) * 1.05 + MARGIN


def segments(line: Sequence[float]) -> list[int]:
    """Return the indices at which a weight differs from the one before."""
    return [n for n, (a, b) in enumerate(pairwise(line), start=1) if abs(a - b) > SAME * max(a, b)]


def clusters(line: Sequence[float]) -> list[list[int]]:
    """Group the indices of equal nonzero weights, adjacent or not.

    Returns:
        Groups of at least two, by decreasing weight, each with ascending indices.
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


def draw_bullets(axes: Axes, y: int, line: Sequence[float]) -> None:
    """Mark groups of equal weights in row ``y`` by markers, a different one for each group.

    References:
        Niculae & Blondel (2017), Figure 4 and C.3.
    """
    for places, (shape, filled) in zip(clusters(line), BULLETS, strict=False):
        color = PAPER if line[places[0]] > 0.4 else INK
        axes.plot(
            [place + 0.5 for place in places], [y + 0.5] * len(places), shape, markersize=3.2,
            markerfacecolor=color if filled else "none", markeredgecolor=color,
            markeredgewidth=0.7, linestyle="none",
        )  # fmt: skip


def _shade(axes: Axes, weights: Sequence[Sequence[float]], gid: str) -> None:
    shares = np.array([[opacity(weight) for weight in line] for line in weights])
    colors = 1 - shares[..., None] * (1 - np.array(to_rgb(WEIGHT)))
    axes.pcolormesh(colors, antialiased=False, linewidth=0, gid=gid)


def _label_ticks(axis: Axis, words: Sequence[str]) -> None:
    labels = [token_label(word) for word in words]
    long = any(text_width(label, WORD_SIZE) > CELL for label in labels)
    turned = long and isinstance(axis, XAxis)
    axis.set_ticks([n + 0.5 for n in range(len(labels))], labels, rotation=90 if turned else 0)
    for tick, word in zip(axis.get_ticklabels(), words, strict=True):
        tick.set_color(MUTED_INK if is_mark(word) else INK)
