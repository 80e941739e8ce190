"""Attention of several runs to the same sentence, as in Niculae & Blondel (2017), C.3 and C.4."""

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from repro.data.segmentation import SEPARATOR, join_subwords
from repro.data.sentence_search import sentence_key
from repro.report.canvas import INK, MUTED_INK, drawable, new_figure
from repro.report.compared_sentences import (
    ComparedSentence,
    Row,
    runs_shown,
    shown_sentences,
)
from repro.report.examples import END, AttentionExample
from repro.report.strips import ZERO, bar_room, clusters, draw_bar, draw_bullets, draw_strip

CLUSTERED = "oscarmax"
"""Label of the run whose groups of equal weights are marked by bullets."""
SOFT = "softmax"
FRAME, REPEATED = "#c3ccd4", "#b3422d"
CELL, STRIP = 0.23, 0.2
LETTER, MARGIN, LABEL, GAP = 0.066, 0.15, 0.3, 0.25
TITLE_LINE, TITLE_LETTER, FOOT = 0.19, 0.072, 0.5
WIDEST = 14.0
"""Panels stand beside each other within so many inches, else below each other."""


@dataclass(frozen=True)
class PanelStyle:
    """Conventions of a paper.

    Attributes:
        zero: colour of weights that are exactly zero.
        zero_name: its name in the legend.
        repetitions: whether words that an output repeats are highlighted.
    """

    zero: str = ZERO
    zero_name: str = "grey"
    repetitions: bool = False


STRIPS = PanelStyle()
"""Niculae & Blondel (2017): grey zeros."""
REPETITIONS = PanelStyle("#ffffff", "white", repetitions=True)
"""Malaviya et al. (2018), Figure 2: white zeros, repeated words highlighted."""


def draw_attention_panels(row: Row, style: PanelStyle = STRIPS) -> Figure:
    """Draw a panel for each sentence and run: source words below, output words on the left.

    Neighbours of equal weight have no border between them, and groups of equal weights of oscarmax
    bear bullets.

    Raises:
        ResultsError: the row is malformed or weights are no distributions.
    """
    blocks = [Block(sentence, style) for sentence in shown_sentences(row)]
    beside = all(block.width(True) <= WIDEST for block in blocks)
    widest = max(block.width(beside) for block in blocks)
    across = 1 if beside else _across(len(blocks), widest)
    lines = [blocks[n : n + across] for n in range(0, len(blocks), across)]
    heights = [max(block.height(beside, widest) for block in line) for line in lines]
    scale = weight_scale([block.sentence for block in blocks])
    note = legend([block.sentence for block in blocks], style)
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


def remark_attention_panels(row: Row, style: PanelStyle = STRIPS) -> str:
    """Marks that are drawn, zero weights of softmax, repeated words, and the runs shown."""
    sentences = shown_sentences(row)
    bullets = (
        f"Words to which {CLUSTERED} gives equal weights bear the same bullet."
        if has_bullets(sentences)
        else ""
    )
    repeated = repetitions_in_words(sentences) if style.repetitions else ""
    return joined(bullets, repeated, underflow(sentences), runs_shown(row))


def has_bullets(sentences: Sequence[ComparedSentence]) -> bool:
    """Whether a row of a panel has groups of equal weights that are marked."""
    panels = [one.panels[CLUSTERED] for one in sentences if CLUSTERED in one.panels]
    return any(clusters(line) for panel in panels for line in panel.weights)


def repetitions_in_words(sentences: Sequence[ComparedSentence]) -> str:
    """The words that each run says more often than the reference does."""
    parts = []
    for label in sentences[0].panels:
        words = [word for one in sentences for word in repeated_words(one.words(label), one)]
        parts.append(f"{label}: {', '.join(words) if words else 'none'}")
    return f"Words said more often than in the reference, bold where drawn: {'; '.join(parts)}."


def repeated_words(words: Sequence[str], sentence: ComparedSentence) -> list[str]:
    """Words that occur at least twice, and more often than in the reference, in their order.

    Punctuation marks are no words.
    """
    wanted, said = Counter(sentence.reference), Counter(filter(sentence_key, words))
    return [word for word, count in said.items() if count > max(1, wanted[word])]


def repeated_places(panel: AttentionExample, sentence: ComparedSentence) -> list[bool]:
    """Whether each output symbol belongs to a repeated word."""
    tokens = [token for token in panel.output if token != END]
    words = join_subwords(tokens)
    repeated = {*repeated_words(words, sentence)}
    ends = [not token.endswith(SEPARATOR) for token in tokens]
    word_of = list(accumulate(ends, initial=0))[: len(tokens)]
    marked = [words[number] in repeated for number in word_of]
    return marked + [False] * (len(panel.output) - len(tokens))


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


def legend(sentences: Sequence[ComparedSentence], style: PanelStyle = STRIPS) -> str:
    """Meaning of shades and marks."""
    bullets = has_bullets(sentences)
    note = f"; equal bullets in a row: equal weights ({CLUSTERED})" if bullets else ""
    return f"weight ({style.zero_name}: exactly 0; no border between equal neighbours{note})"


@dataclass(frozen=True)
class Block:
    """One sentence with its panels, as it is laid out; all measures are inches.

    ``beside`` sets the panels beside each other, each with the source words below it; else they
    stand below each other with the source words once.
    """

    sentence: ComparedSentence
    style: PanelStyle = STRIPS

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
            _draw_panel(shown, label, panel, scale, self.style)
            _label_words(shown, panel, sources=beside or number == last)
            if self.style.repetitions:
                _highlight(shown, repeated_places(panel, self.sentence))
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
        reference = " ".join(self.sentence.reference)
        text = drawable(f"{self.sentence.language}, reference: {reference}")
        return textwrap.wrap(text, max(letters, 20)) or [""]


def _panel_axes(figure: Figure, panel: AttentionExample, left: float, top: float) -> Axes:
    width, height = CELL * len(panel.source), STRIP * len(panel.output)
    across, up = figure.get_size_inches()
    axes = figure.add_axes((left / across, (top - height) / up, width / across, height / up))
    axes.set_xlim(0, len(panel.source))
    axes.set_ylim(len(panel.output), 0)
    return axes


def _draw_panel(
    axes: Axes, label: str, panel: AttentionExample, scale: Normalize, style: PanelStyle
) -> None:
    for y, line in enumerate(panel.weights):
        draw_strip(axes, y, line, scale, style.zero)
        if label == CLUSTERED:
            draw_bullets(axes, y, line, scale)
    axes.set_title(drawable(label), fontsize=8.5, color=MUTED_INK, pad=3, loc="left")
    for spine in axes.spines.values():
        spine.set_visible(style.zero != ZERO)
        spine.set_color(FRAME)


def _label_words(axes: Axes, panel: AttentionExample, *, sources: bool) -> None:
    axes.tick_params(length=0, pad=2, labelcolor=INK, labelsize=8)
    words = [drawable(word) for word in panel.source] if sources else []
    axes.set_xticks([x + 0.5 for x in range(len(words))], words, rotation=90, parse_math=False)
    words = [drawable(word) for word in panel.output]
    axes.set_yticks([y + 0.5 for y in range(len(words))], words, parse_math=False)


def _highlight(axes: Axes, repeated: Sequence[bool]) -> None:
    for label, marked in zip(axes.get_yticklabels(), repeated, strict=True):
        label.set_fontweight("bold" if marked else "normal")
        label.set_color(REPEATED if marked else INK)


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
