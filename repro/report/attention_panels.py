"""Attention of several runs to the same sentence, as in Niculae & Blondel (2017), C.3 and C.4."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from repro.report.canvas import INK, MUTED_INK, drawable, new_figure
from repro.report.compared_sentences import (
    ComparedSentence,
    Row,
    runs_shown,
    shown_sentences,
)
from repro.report.examples import AttentionExample
from repro.report.strips import bar_room, draw_bar, draw_bullets, draw_strip

CLUSTERED = "oscarmax"
"""Label of the run whose groups of equal weights are marked by bullets."""
SOFT = "softmax"
CELL, STRIP = 0.23, 0.2
LETTER, MARGIN, LABEL, GAP = 0.066, 0.15, 0.3, 0.25
TITLE_LINE, TITLE_LETTER, FOOT = 0.19, 0.072, 0.5
WIDEST = 14.0
"""Panels stand beside each other within so many inches, else below each other."""


def draw_attention_panels(row: Row) -> Figure:
    """Draw a panel for each sentence and run: source words below, output words on the left.

    Zeros are grey, neighbours of equal weight have no border between them, and groups of equal
    weights of oscarmax bear bullets.

    Raises:
        ResultsError: the row is malformed or weights are no distributions.
    """
    blocks = [Block(sentence) for sentence in shown_sentences(row)]
    beside = all(block.width(True) <= WIDEST for block in blocks)
    widest = max(block.width(beside) for block in blocks)
    across = 1 if beside else _across(len(blocks), widest)
    lines = [blocks[n : n + across] for n in range(0, len(blocks), across)]
    heights = [max(block.height(beside, widest) for block in line) for line in lines]
    scale = weight_scale([block.sentence for block in blocks])
    note = legend([block.sentence for block in blocks])
    figure = new_figure(max(across * widest, MARGIN + bar_room(note)), sum(heights) + FOOT)
    top = sum(heights) + FOOT
    for line, height in zip(lines, heights, strict=True):
        for column, block in enumerate(line):
            block.draw(figure, column * widest, top, widest, beside, scale)
        top -= height
    draw_bar(figure, scale, MARGIN, note)
    return figure


def describe_attention_panels(row: Row) -> str:
    """Sources, outputs and shares of nonzero weights, in words."""
    parts = []
    for sentence in shown_sentences(row):
        found = [_panel_in_words(label, panel) for label, panel in sentence.panels.items()]
        parts.append(f"{' '.join(sentence.source)!r} ({sentence.language}): {'; '.join(found)}")
    return f"Attention of several runs. {'. '.join(parts)}."


def remark_attention_panels(row: Row) -> str:
    """Which runs and examples are shown, and whether weights of softmax are zero."""
    return joined(underflow(shown_sentences(row)), runs_shown(row))


def joined(*remarks: str) -> str:
    """One text of the remarks that are not blank."""
    return " ".join(remark for remark in remarks if remark)


def underflow(sentences: Sequence[ComparedSentence]) -> str:
    """Says so if softmax has weights of zero."""
    panels = [sentence.panels[SOFT] for sentence in sentences if SOFT in sentence.panels]
    lines = [line for panel in panels for line in panel.weights]
    zeros = any(weight == 0 for line in lines for weight in line)
    return f"Weights of {SOFT} below the least single-precision number are zero." if zeros else ""


def weight_scale(sentences: Sequence[ComparedSentence]) -> Normalize:
    """Shades from zero to the largest weight of all panels."""
    panels = [panel for sentence in sentences for panel in sentence.panels.values()]
    return Normalize(0.0, max(weight for panel in panels for w in panel.weights for weight in w))


def legend(sentences: Sequence[ComparedSentence]) -> str:
    """What shades and marks mean."""
    bullets = any(CLUSTERED in sentence.panels for sentence in sentences)
    note = f"; equal bullets in a row: equal weights ({CLUSTERED})" if bullets else ""
    return f"weight (grey: exactly 0; no border between equal neighbours{note})"


@dataclass(frozen=True)
class Block:
    """One sentence with its panels, as it is laid out; all measures are inches.

    ``beside`` sets the panels beside each other, each with the source words below it; else they
    stand below each other with the source words once.
    """

    sentence: ComparedSentence

    def width(self, beside: bool) -> float:
        """From the outer margin of the first panel to that of the last."""
        columns = max(len(panel.source) for panel in self.sentence.panels.values())
        one = self._left + CELL * columns + GAP
        return MARGIN + one * (len(self.sentence.panels) if beside else 1)

    def height(self, beside: bool, width: float) -> float:
        """With title, source words and the space below."""
        rows = [LABEL + STRIP * len(panel.output) for panel in self.sentence.panels.values()]
        panels = max(rows) if beside else sum(rows)
        return TITLE_LINE * len(self._title(width)) + panels + self._foot + GAP

    def draw(
        self,
        figure: Figure,
        left: float,
        top: float,
        width: float,
        beside: bool,
        scale: Normalize,
    ) -> None:
        """Draw into a figure, from the upper left corner."""
        title = self._title(width)
        across, up = figure.get_size_inches()
        figure.text(
            (left + MARGIN) / across, (top - 0.06) / up, "\n".join(title), fontsize=8.5,
            color=INK, va="top", linespacing=1.25, parse_math=False,
        )  # fmt: skip
        x, y = left + MARGIN, top - TITLE_LINE * len(title)
        step = (self.width(True) - MARGIN) / len(self.sentence.panels)
        last = len(self.sentence.panels) - 1
        for number, (label, panel) in enumerate(self.sentence.panels.items()):
            shown = _panel_axes(figure, panel, x + self._left, y - LABEL)
            _draw_panel(shown, label, panel, scale, sources=beside or number == last)
            if beside:
                x += step
            else:
                y -= LABEL + STRIP * len(panel.output)

    @property
    def _left(self) -> float:
        return _room([word for panel in self.sentence.panels.values() for word in panel.output])

    @property
    def _foot(self) -> float:
        return _room([word for panel in self.sentence.panels.values() for word in panel.source])

    def _title(self, width: float) -> list[str]:
        letters = int((width - 2 * MARGIN) / TITLE_LETTER)
        text = drawable(f"{self.sentence.language}, reference: {self.sentence.gold}")
        return textwrap.wrap(text, max(letters, 20)) or [""]


def _panel_axes(figure: Figure, panel: AttentionExample, left: float, top: float) -> Axes:
    width, height = CELL * len(panel.source), STRIP * len(panel.output)
    across, up = figure.get_size_inches()
    axes = figure.add_axes((left / across, (top - height) / up, width / across, height / up))
    axes.set_xlim(0, len(panel.source))
    axes.set_ylim(len(panel.output), 0)
    return axes


def _draw_panel(
    axes: Axes, label: str, panel: AttentionExample, scale: Normalize, *, sources: bool
) -> None:
    for y, line in enumerate(panel.weights):
        draw_strip(axes, y, line, scale)
        if label == CLUSTERED:
            draw_bullets(axes, y, line, scale)
    axes.set_title(drawable(label), fontsize=8.5, color=MUTED_INK, pad=3, loc="left")
    axes.tick_params(length=0, pad=2, labelcolor=INK, labelsize=8)
    words = [drawable(word) for word in panel.source] if sources else []
    axes.set_xticks([x + 0.5 for x in range(len(words))], words, rotation=90, parse_math=False)
    words = [drawable(word) for word in panel.output]
    axes.set_yticks([y + 0.5 for y in range(len(words))], words, parse_math=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _panel_in_words(label: str, panel: AttentionExample) -> str:
    weights = [weight for line in panel.weights for weight in line]
    nonzero = sum(weight > 0 for weight in weights)
    return f"{label}: {panel.prediction!r}, {nonzero} of {len(weights)} weights are nonzero"


def _across(count: int, width: float) -> int:
    """How many blocks stand beside each other, so that lines are as even as they can be."""
    most = max(1, int(WIDEST // width))
    return math.ceil(count / math.ceil(count / most))


def _room(words: Sequence[str]) -> float:
    return LETTER * max(len(drawable(word)) for word in words) + 0.12
