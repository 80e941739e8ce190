"""Continuations that a model allows along a given target: Peters et al. (2019), Figure 2."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from typing import Any

from matplotlib.patches import Rectangle

from repro.data.segmentation import join_subwords
from repro.data.vocabulary import END
from repro.report.figures.canvas import (
    INK,
    MUTED_INK,
    PAPER,
    Canvas,
    drawable,
    in_lines,
    text_width,
)
from repro.report.figures.kinds import RULE, Figure, FigureRuns, Row, ordered_examples
from repro.report.figures.lattice import percent

LONGEST = 16
"""Most steps of a target that fit."""
MOST = 8
"""Number of continuations that are listed for a step, the most probable ones."""
WIDTH, LETTERS = 9.6, 90
SIZE, LINE, PAD, GAP, MARGIN = 9.0, 0.19, 0.09, 0.07, 0.15
SLACK = 1.04
"""Upper bound on the growth of text when letters are drawn on whole pixels."""
COMPLETED, BORDER, ZERO = "#dcefe2", "#7d8a96", "#b3422d"


@dataclass(frozen=True)
class Step:
    """Step of decoding along a given target."""

    target: str  # the given symbol
    probability: float  # probability of the given symbol
    support: int  # number of symbols with nonzero probability
    alternatives: Sequence[tuple[str, float]]  # the most probable symbols, probability decreasing

    @property
    def completed(self) -> bool:
        """Return whether the target is the only continuation."""
        return self.support == 1 and self.probability > 0


@dataclass(frozen=True)
class Box:
    """Box of the figure: words of the target, or one of them with its alternatives."""

    # Text, formatted probability, and whether the text is the target.
    lines: tuple[tuple[str, str, bool], ...]
    completed: bool  # whether the target is the only continuation

    @property
    def width(self) -> float:
        """Width in inches, padding included."""
        widths = []
        for text, share, target in self.lines:
            gap = text_width(share, SIZE - 1.5) + 0.12 if share else 0.0
            widths.append(SLACK * text_width(text, SIZE, bold=target) + gap)
        return max(widths) + 2 * PAD

    @property
    def height(self) -> float:
        """Height in inches, padding included."""
        return LINE * len(self.lines) + PAD


class ForcedDecoding(Figure):
    """Boxes of continuations, one per step; successive steps without alternative share a box."""

    rule = (
        f"of translations of at most {LONGEST} symbols with nonzero probability the one where "
        "single continuations and choices take turns most often"
    )

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        def rank(row: Row) -> tuple[float, ...]:
            steps = steps_of(row)
            possible = all(step.probability > 0 for step in steps)
            changes = sum(one.completed != other.completed for one, other in pairwise(steps))
            return len(steps) > LONGEST, not possible, -changes

        rows = runs.best.examples.read_forced()
        return {**ordered_examples(rows, runs.prefer, names_of, rank)[0], RULE: self.rule}

    def draw(self, data: Row) -> Canvas:
        boxes = _boxes(steps_of(data))
        # Each box is measured with the gap behind it; the last one of a line needs no gap.
        lines = in_lines(boxes, lambda box: box.width + GAP, WIDTH - 2 * MARGIN + GAP)
        heights = [max(box.height for box in line) + 2 * GAP for line in lines]
        source = textwrap.wrap(drawable(f"{data['language']}: {names_of(data)[0]}"), 105) or [""]
        head = LINE * len(source) + MARGIN
        canvas = Canvas(WIDTH, head + sum(heights) + LINE + MARGIN)
        axes = canvas.page()
        write = partial(axes.text, fontsize=SIZE, color=INK, va="center")
        for number, text in enumerate(source):
            write(MARGIN, MARGIN + LINE * number, text)
        top = head + GAP
        for line, tall in zip(lines, heights, strict=True):
            left = MARGIN
            for box in line:
                color = COMPLETED if box.completed else PAPER
                frame: dict[str, Any] = {"facecolor": color, "edgecolor": BORDER, "linewidth": 0.8}
                axes.add_patch(Rectangle((left, top), box.width, box.height, **frame))
                for number, (text, share, target) in enumerate(box.lines):
                    y = top + PAD / 2 + LINE * (number + 0.5)
                    color = ZERO if target and share == percent(0.0) else INK
                    write(left + PAD, y, text, weight="bold" if target else "normal", color=color)
                    right = left + box.width - PAD
                    write(right, y, share, fontsize=SIZE - 1.5, color=MUTED_INK, ha="right")
                left += box.width + GAP
            top += tall
        note = "bold: the given target · boxes: every continuation"
        note += " · shaded: no other continuation" if any(box.completed for box in boxes) else ""
        write(MARGIN, top + LINE / 2, note, fontsize=8, color=MUTED_INK)
        return canvas

    def describe(self, data: Row) -> str:
        steps = [
            f"{step.target!r} {percent(step.probability)} of {step.support}"
            for step in steps_of(data)
        ]
        return (
            f"Forced decoding of {names_of(data)[0]!r} ({data['language']}); each symbol of the "
            f"target with its probability and the number of continuations: {'; '.join(steps)}."
        )

    def remark(self, data: Row) -> str:
        steps = steps_of(data)
        remarks = [f"{sum(s.completed for s in steps)} of {len(steps)} steps have no alternative."]
        if impossible := sum(step.probability == 0 for step in steps):
            remarks.append(f"{impossible} symbols of the target have probability exactly zero.")
        if any(_hidden(step) for step in steps):
            remarks.append(
                "For some steps, the least probable continuations are counted but not listed."
            )
        return " ".join(remarks)


def steps_of(row: Row) -> list[Step]:
    """Return the steps along the target."""
    return [Step(target, **step) for target, step in zip(row["target"], row["steps"], strict=True)]


def names_of(row: Row) -> tuple[str, str]:
    """Return texts by which ``drawing.prefer`` selects an example: source and target words."""
    target = [symbol for symbol in row["target"] if symbol != END]
    return " ".join(join_subwords(row["source"])), " ".join(join_subwords(target))


def _boxes(example_steps: Sequence[Step]) -> list[Box]:
    """Return a box for each step with alternatives, and one for each run of steps without any."""
    boxes = []
    for completed, steps in groupby(example_steps, key=lambda step: step.completed):
        if completed:
            text = drawable(" ".join(step.target for step in steps))
            parts = textwrap.wrap(text, LETTERS, break_on_hyphens=False)
            boxes += [Box(((part, "", True),), True) for part in parts]
            continue
        for step in steps:
            listed = list(step.alternatives[:MOST])
            if step.target not in dict(listed):
                listed.append((step.target, step.probability))
            lines = [(drawable(token), percent(p), token == step.target) for token, p in listed]
            more = [(f"and {_hidden(step)} more", "", False)] if _hidden(step) else []
            boxes.append(Box((*lines, *more), False))
    return boxes


def _hidden(step: Step) -> int:
    """Return the number of continuations that are not listed."""
    listed = {token for token, _ in step.alternatives[:MOST]}
    return step.support - len(listed | ({step.target} if step.probability > 0 else set()))


FIGURES = {"forced_decoding": ForcedDecoding()}
