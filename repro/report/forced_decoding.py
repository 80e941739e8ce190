"""What a model would say next along a given target, as in Peters et al. (2019), Figure 2."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from repro.report.canvas import INK, MUTED_INK, drawable, new_figure, text_width
from repro.report.forced_steps import ForcedExample, Step, forced_example
from repro.report.lattice import percent

MOST = 8
"""Continuations of a step that are listed, the most probable ones."""
WIDTH, LETTERS = 9.6, 90
SIZE, LINE, PAD, GAP, MARGIN = 9.0, 0.19, 0.09, 0.07, 0.15
SLACK = 1.04
"""How much wider letters are at most once they are drawn on whole pixels."""
COMPLETED, BORDER, ZERO = "#dcefe2", "#7d8a96", "#b3422d"
LEGEND = (
    "Bold: the given target. Boxes list every continuation with nonzero probability; shaded: "
    "there is no other, the model completes the target by itself."
)


@dataclass(frozen=True)
class Box:
    """One box of the figure: the target's words, and what else might stand there.

    Attributes:
        lines: text, probability in words, and whether it is the target.
    """

    lines: tuple[tuple[str, str, bool], ...]
    completed: bool

    @property
    def width(self) -> float:
        """In inches, with its padding."""
        texts = [
            SLACK * text_width(text, SIZE, bold=target) + _beside(share)
            for text, share, target in self.lines
        ]
        return max(texts) + 2 * PAD

    @property
    def height(self) -> float:
        """In inches, with its padding."""
        return LINE * len(self.lines) + PAD


def draw_forced(row: Mapping[str, Any]) -> Figure:
    """Draw a box for each step with every continuation; steps without a choice share a box.

    Raises:
        ResultsError: the row is malformed.
    """
    example = forced_example(row)
    lines = _flow(_boxes(example))
    heights = [max(box.height for box in line) + 2 * GAP for line in lines]
    source = textwrap.wrap(drawable(f"{example.language}: {example.text}"), 105) or [""]
    head = LINE * len(source) + MARGIN
    foot = 2 * LINE + MARGIN
    height = head + sum(heights) + foot
    figure = new_figure(WIDTH, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(height, 0)
    for number, text in enumerate(source):
        _write(axes, MARGIN, MARGIN + LINE * number, text)
    top = head + GAP
    for line, tall in zip(lines, heights, strict=True):
        _draw_line(axes, line, top)
        top += tall
    for number, text in enumerate(textwrap.wrap(LEGEND, 118)):
        _write(axes, MARGIN, top + LINE * (number + 0.6), text, size=7.5, color=MUTED_INK)
    return figure


def describe_forced(row: Mapping[str, Any]) -> str:
    """The continuations of each step, in words."""
    example = forced_example(row)
    steps = [
        f"{step.target!r} {percent(step.probability)} of {step.support}" for step in example.steps
    ]
    return (
        f"Forced decoding of {example.text!r} ({example.language}); each symbol of the target with "
        f"its probability and the number of continuations: {'; '.join(steps)}."
    )


def remark_forced(row: Mapping[str, Any]) -> str:
    """How many steps have a single continuation, and whether the target is impossible."""
    steps = forced_example(row).steps
    remarks = [f"{sum(s.completed for s in steps)} of {len(steps)} steps have no alternative."]
    impossible = sum(step.probability == 0 for step in steps)
    if impossible:
        remarks.append(f"{impossible} symbols of the target have probability exactly zero.")
    if any(_hidden(step) for step in steps):
        remarks.append("The least probable continuations of some steps are only counted.")
    return " ".join(remarks)


def _boxes(example: ForcedExample) -> list[Box]:
    boxes = []
    for completed, steps in groupby(example.steps, key=lambda step: step.completed):
        if completed:
            text = drawable(" ".join(step.target for step in steps))
            boxes += [
                Box(((part, "", True),), True)
                for part in textwrap.wrap(text, LETTERS, break_on_hyphens=False)
            ]
        else:
            boxes += [_choice(step) for step in steps]
    return boxes


def _choice(step: Step) -> Box:
    """The continuations by falling probability; the target is always listed."""
    listed = list(step.alternatives[:MOST])
    if step.target not in dict(listed):
        listed.append((step.target, step.probability))
    lines = [(drawable(token), percent(share), token == step.target) for token, share in listed]
    more = [(f"and {_hidden(step)} more", "", False)] if _hidden(step) else []
    return Box((*lines, *more), False)


def _hidden(step: Step) -> int:
    """How many continuations are not listed."""
    listed = {token for token, _ in step.alternatives[:MOST]}
    return step.support - len(listed | ({step.target} if step.probability > 0 else set()))


def _flow(boxes: Sequence[Box]) -> list[list[Box]]:
    """Boxes in lines that fit into the width."""
    lines: list[list[Box]] = [[]]
    room = WIDTH - 2 * MARGIN
    for box in boxes:
        if lines[-1] and box.width > room:
            lines.append([])
            room = WIDTH - 2 * MARGIN
        lines[-1].append(box)
        room -= box.width + GAP
    return lines


def _draw_line(axes: Axes, line: Sequence[Box], top: float) -> None:
    left = MARGIN
    for box in line:
        colour = COMPLETED if box.completed else "white"
        axes.add_patch(
            Rectangle(
                (left, top), box.width, box.height, facecolor=colour, edgecolor=BORDER,
                linewidth=0.8,
            )
        )  # fmt: skip
        for number, (text, share, target) in enumerate(box.lines):
            _draw_text(axes, left, top + PAD / 2 + LINE * (number + 0.5), box, text, share, target)
        left += box.width + GAP


def _draw_text(
    axes: Axes, left: float, y: float, box: Box, text: str, share: str, target: bool
) -> None:
    weight = "bold" if target else "normal"
    impossible = target and share == percent(0.0)
    _write(axes, left + PAD, y, text, weight=weight, color=ZERO if impossible else INK)
    axes.text(
        left + box.width - PAD, y, share, fontsize=SIZE - 1.5, color=MUTED_INK, ha="right",
        va="center", parse_math=False,
    )  # fmt: skip


def _beside(share: str) -> float:
    """Room of a probability with the gap before it."""
    return text_width(share, SIZE - 1.5) + 0.12 if share else 0.0


def _write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    *,
    size: float = SIZE,
    weight: str = "normal",
    color: str = INK,
) -> None:
    axes.text(
        x, y, text, fontsize=size, weight=weight, color=color, va="center", parse_math=False
    )  # fmt: skip
