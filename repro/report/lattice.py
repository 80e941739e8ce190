"""Lattice of hypotheses in the manner of Peters et al. (2019), Figure 1."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from repro.report.canvas import INK, MUTED_INK, drawable, new_figure, token_label
from repro.report.examples import LatticeExample, lattice_example
from repro.report.lattice_graph import Node, build_tree, place, walk

STEP, BRANCH, TRUNK, LINE = 0.22, 0.8, 0.1, 0.42
MARGIN, HEADER, FOOTER = 0.2, 0.5, 0.4
LETTER = 0.095
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
    root = build_tree(example)
    lines = place(root, step=STEP, branch=BRANCH)
    texts = (_header(example), _footer(example))
    width = max(_tree_width(root, example), *(MARGIN * 2 + 0.082 * len(text) for text in texts))
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
    ranked = sorted(example.hypotheses, key=lambda h: (-h.probability, h.text))
    listed = "; ".join(f"{h.text!r} {percent(h.probability)}" for h in ranked)
    return (
        f"Hypotheses for {example.lemma!r} ({example.language}), gold {example.gold!r}: {listed}."
    )


def remark_lattice(row: Mapping[str, Any]) -> str:
    """Says so if other strings may have nonzero probability."""
    if lattice_example(row).finite:
        return ""
    return (
        "The run kept no example that fits with a complete set: this figure shows the hypotheses "
        "of the beam only, and other strings may have nonzero probability."
    )


def percent(probability: float) -> str:
    """``66.4 %``; a probability above zero never reads as zero, one below one never as one."""
    if 0 < probability < 0.0005:
        return "<0.1 %"
    if CERTAIN <= probability < 1 - ROUNDING:
        return ">99.9 %"
    return f"{100 * probability:.1f} %"


def _tree_width(root: Node, example: LatticeExample) -> float:
    ends = [child for _, child in walk(root) if child.hypothesis is not None]
    return max(end.x + LETTER * len(_end_text(end, example)) for end in ends) + 2 * MARGIN + 0.15


def _header(example: LatticeExample) -> str:
    tags = " ".join(example.tags)
    return drawable(f"{example.language}: {example.lemma}, {tags}")


def _footer(example: LatticeExample) -> str:
    count = len(example.hypotheses)
    noun = "hypothesis" if count == 1 else "hypotheses"
    total = percent(min(sum(h.probability for h in example.hypotheses), 1.0))
    if example.finite:
        gold = "" if example.has_gold else f" The gold form {example.gold} has probability zero."
        return drawable(
            f"Complete: {count} {noun} with nonzero probability, all others zero.{gold}"
        )
    gold = "" if example.has_gold else f" The gold form {example.gold} is not among them."
    return drawable(f"Beam only: {count} {noun} found, {total} of the probability.{gold}")


def _end_text(end: Node, example: LatticeExample) -> str:
    assert end.hypothesis is not None
    text = drawable(end.hypothesis.text.replace(" ", "␣")) or "(empty)"
    mark = "  ✓ gold" if end.hypothesis.text == example.gold else ""
    return f"{text}   {percent(end.hypothesis.probability)}{mark}"


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
    gold = node.hypothesis.text == example.gold
    color, weight = (GOLD, "bold") if gold else (INK, "normal")
    axes.plot([node.x], [y], "s", markersize=4.5, color=color)
    text = _end_text(node, example)
    _write(axes, node.x + 0.14, y, text, size=10, color=color, weight=weight)


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
