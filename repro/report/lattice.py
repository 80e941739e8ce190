"""Lattice of hypotheses in the manner of Peters et al. (2019), Figure 1."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from repro.report.canvas import INK, MUTED_INK, SPACE, drawable, new_figure, token_label
from repro.report.examples import LatticeExample, lattice_example
from repro.report.lattice_graph import Node, build_tree, place, walk

STEP, BRANCH, TRUNK, LINE = 0.22, 0.8, 0.1, 0.42
MARGIN, HEADER, FOOTER = 0.2, 0.5, 0.4
LETTER = 0.095
PERCENT, GAP, GOLD_MARK = 0.78, 0.1, 0.66
END_ROOM = PERCENT + GAP + GOLD_MARK
MOST = 12
CERTAIN = 0.9995
ROUNDING = 1e-6
GOLD = "#1a7f37"
ARROW = "#7d8a96"


def draw_lattice(row: Mapping[str, Any]) -> Figure:
    """Draw one row of ``hypotheses.jsonl``: shared prefixes once, a line per hypothesis.

    A branching arrow bears the probability of its step; an end bears the string and its
    probability, the gold string marked.

    Raises:
        ResultsError: the row is malformed or its hypotheses contradict each other.
    """
    example = lattice_example(row)
    root = build_tree(example, MOST)
    lines = place(root, step=STEP, branch=BRANCH)
    texts = (_header(example), _footer(example))
    width = max(_tree_width(root), *(MARGIN * 2 + 0.082 * len(text) for text in texts))
    height = HEADER + lines * LINE + FOOTER
    figure = new_figure(width, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-MARGIN, width - MARGIN)
    axes.set_ylim(height - HEADER - LINE / 2, -HEADER - LINE / 2)
    for parent, child in walk(root):
        _draw_arrow(axes, parent, child)
        _draw_node(axes, child, example)
    axes.plot([root.x], [root.y], "o", markersize=4, color=INK)
    _write(axes, -0.05, -HEADER - LINE / 2 + 0.22, texts[0], size=10, color=INK)
    _write(axes, -0.05, height - HEADER - LINE / 2 - 0.2, texts[1], size=8.5, color=MUTED_INK)
    return figure


def describe_lattice(row: Mapping[str, Any]) -> str:
    """The hypotheses and their probabilities, in words."""
    example = lattice_example(row)
    ranked = example.ranked
    listed = "; ".join(f"{h.text!r} {percent(h.probability)}" for h in ranked[:MOST])
    more = f"; {len(ranked) - MOST} more" if len(ranked) > MOST else ""
    place = f"{example.lemma!r} ({example.language})"
    return f"Hypotheses for {place}, gold {example.gold!r}: {listed}{more}."


def remark_lattice(row: Mapping[str, Any]) -> str:
    """Says so if other strings may have nonzero probability, or if not all are drawn."""
    example = lattice_example(row)
    if example.finite:
        count = len(example.hypotheses)
        return f"Drawn are the {MOST} most probable of {count}." if count > MOST else ""
    return (
        "This figure shows the hypotheses of the beam only: the set is not complete, other strings "
        "may have nonzero probability."
    )


def percent(probability: float) -> str:
    """``66.4 %``; a probability above zero never reads as zero, one below one never as one."""
    if 0 < probability < 0.0005:
        return "<0.1 %"
    if CERTAIN <= probability < 1 - ROUNDING:
        return ">99.9 %"
    return f"{100 * probability:.1f} %"


def _tree_width(root: Node) -> float:
    ends = [child for _, child in walk(root) if child.hypothesis is not None]
    return max(end.x + LETTER * len(_end_text(end)) for end in ends) + END_ROOM + 2 * MARGIN


def _header(example: LatticeExample) -> str:
    tags = " ".join(example.tags)
    return drawable(f"{example.language}: {example.lemma}, {tags}")


def _footer(example: LatticeExample) -> str:
    count = len(example.hypotheses)
    noun = "hypothesis" if count == 1 else "hypotheses"
    total = percent(min(sum(h.probability for h in example.hypotheses), 1.0))
    if example.finite:
        text = f"Complete: {count} {noun} with nonzero probability, all others zero."
        missing = "has probability zero"
    else:
        text = f"Beam only: {count} {noun} found, {total} of the probability."
        missing = "is not among them"
    text += f" Drawn: the {MOST} most probable." if count > MOST else ""
    return drawable(text if example.has_gold else f"{text} The gold form {example.gold} {missing}.")


def _end_text(end: Node) -> str:
    assert end.hypothesis is not None
    text = drawable(end.hypothesis.text.replace(" ", SPACE)) or "(empty)"
    return text if end.hypothesis.finished else f"{text} … (unfinished)"


def _draw_arrow(axes: Axes, parent: Node, child: Node) -> None:
    weight = 0.8 + 1.4 * child.mass
    trunk, end, y = parent.x + parent.half + TRUNK, child.x - child.half, child.y * LINE
    if child.y == parent.y:
        trunk -= TRUNK
    else:
        axes.plot([trunk, trunk], [parent.y * LINE, y], color=ARROW, linewidth=weight)
    style = {"arrowstyle": "-|>", "color": ARROW, "linewidth": weight, "mutation_scale": 9}
    axes.annotate("", (end, y), (trunk, y), arrowprops={**style, "shrinkA": 0, "shrinkB": 0})
    if parent.branches and child.step < CERTAIN:
        x = (parent.x + parent.half + TRUNK + end) / 2 - 0.03
        _write(axes, x, y - 0.1, percent(child.step), size=7.5, color=INK, align="center")


def _draw_node(axes: Axes, node: Node, example: LatticeExample) -> None:
    y = node.y * LINE
    if node.hypothesis is None:
        _write(axes, node.x, y, token_label(node.token), size=12, color=INK, align="center")
        return
    gold = example.is_gold(node.hypothesis)
    color, weight = (GOLD, "bold") if gold else (INK, "normal")
    axes.plot([node.x], [y], "s", markersize=4.5, color=color)
    probability = percent(node.hypothesis.probability)
    write = partial(_write, axes, y=y, size=10, color=color, weight=weight)
    # Each text by itself: the string may run from right to left.
    write(x=node.x + PERCENT, text=probability, align="right")
    if gold:
        write(x=node.x + PERCENT + GAP, text="✓ gold")
    write(x=node.x + PERCENT + GAP + (GOLD_MARK if gold else 0), text=_end_text(node))


def _write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    *,
    size: float,
    color: str,
    align: str = "left",
    weight: str = "normal",
) -> None:
    axes.text(
        x, y, text, fontsize=size, color=color, ha=align, va="center", weight=weight,
        parse_math=False,
    )  # fmt: skip
