"""Heatmap of attention weights in the manner of Peters et al. (2019), Figure 5."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from repro.report.canvas import INK, MUTED_INK, drawable, is_mark, new_figure, token_label
from repro.report.examples import AttentionExample, attention_example

# The lightest shade differs from white: a tiny weight must not look like a zero.
SHADES = LinearSegmentedColormap.from_list("weights", ["#e3edf7", "#7fb0d8", "#1f5f9e", "#08264d"])
SCALE = Normalize(0.0, 1.0)
CELL = 0.27
LETTER = 0.082
OUTLINE = "#3d4c5a"
MARGIN = 0.15
TITLE_HEIGHT = 0.4
SHORTEST_BAR = 1.1
BAR_GAP, BAR_WIDTH, BAR_LABELS = 0.2, 0.13, 0.75


def draw_attention(row: Mapping[str, Any]) -> Figure:
    """Draw one row of ``attention.jsonl``: nonzero cells shaded and outlined, exact zeros white.

    Raises:
        ResultsError: the row is malformed or a line of weights is no distribution.
    """
    example = attention_example(row)
    columns, rows = CELL * len(example.source), CELL * len(example.output)
    left, bottom = _room(example.output), _room(example.source)
    bar = max(rows, SHORTEST_BAR)
    title = _title(example)
    right = max(columns + BAR_GAP + BAR_WIDTH + BAR_LABELS, LETTER * len(title) + MARGIN)
    top = max(bottom + rows, MARGIN + bar)
    figure = new_figure(left + right, top + TITLE_HEIGHT)
    axes = figure.add_axes(_box(figure, left, top - rows, columns, rows))
    _draw_cells(axes, example)
    _label_axes(axes, example)
    bar_left = left + columns + BAR_GAP
    _draw_bar(figure, figure.add_axes(_box(figure, bar_left, top - bar, BAR_WIDTH, bar)))
    x, y, _, _ = _box(figure, left, top + 0.1, 0, 0)
    figure.text(x, y, title, fontsize=10, color=INK, va="bottom", parse_math=False)
    return figure


def describe_attention(row: Mapping[str, Any]) -> str:
    """Sizes and share of nonzero weights, in words."""
    example = attention_example(row)
    weights = [weight for line in example.weights for weight in line]
    nonzero = sum(weight > 0 for weight in weights)
    return (
        f"Heatmap for {example.prediction!r} ({example.language}): {len(example.output)} output by "
        f"{len(example.source)} source symbols; {nonzero} of {len(weights)} weights are nonzero."
    )


def remark_attention(row: Mapping[str, Any]) -> str:
    """Says so if the prediction is wrong or no weight is exactly zero."""
    example = attention_example(row)
    remarks = []
    if not example.correct:
        remarks.append("The prediction shown is wrong.")
    if all(weight > 0 for line in example.weights for weight in line):
        remarks.append("No weight of this example is exactly zero.")
    return " ".join(remarks)


def _draw_cells(axes: Axes, example: AttentionExample) -> None:
    axes.set_xlim(0, len(example.source))
    axes.set_ylim(len(example.output), 0)
    axes.set_facecolor("white")
    for y, line in enumerate(example.weights):
        for x, weight in enumerate(line):
            if weight > 0:
                axes.add_patch(_cell(x, y, weight))
    for spine in axes.spines.values():
        spine.set_color("#c3ccd4")
        spine.set_linewidth(0.6)


def _cell(x: int, y: int, weight: float) -> Rectangle:
    return Rectangle(
        (x + 0.06, y + 0.06),
        0.88,
        0.88,
        facecolor=SHADES(SCALE(weight)),
        edgecolor=OUTLINE,
        linewidth=0.9,
    )


def _label_axes(axes: Axes, example: AttentionExample) -> None:
    axes.tick_params(length=0, pad=3, labelcolor=INK, labelsize=9)
    sources = [token_label(token) for token in example.source]
    outputs = [token_label(token) for token in example.output]
    axes.set_xticks([x + 0.5 for x in range(len(sources))], sources, parse_math=False)
    axes.set_yticks([y + 0.5 for y in range(len(outputs))], outputs, parse_math=False)
    for tick, token, label in zip(axes.get_xticklabels(), example.source, sources, strict=True):
        tick.set_rotation(90 if len(label) > 2 else 0)
        tick.set_color(MUTED_INK if is_mark(token) else INK)


def _draw_bar(figure: Figure, axes: Axes) -> None:
    bar = figure.colorbar(ScalarMappable(SCALE, SHADES), cax=axes, ticks=[0, 0.5, 1])
    bar.set_ticklabels(["> 0", "0.5", "1"])
    axes.tick_params(length=2, labelsize=8, labelcolor=INK)
    axes.set_ylabel("weight (white: exactly 0)", fontsize=7, color=MUTED_INK)


def _title(example: AttentionExample) -> str:
    verdict = "correct" if example.correct else f"gold: {example.gold}"
    return drawable(f"{example.language}: {example.prediction} ({verdict})")


def _room(tokens: Sequence[str]) -> float:
    return MARGIN + LETTER * max(len(token_label(token)) for token in tokens) + 0.1


def _box(
    figure: Figure, left: float, bottom: float, width: float, height: float
) -> tuple[float, float, float, float]:
    """A box in inches as the fractions of the figure that matplotlib wants."""
    across, up = figure.get_size_inches()
    return left / across, bottom / up, width / across, height / up
