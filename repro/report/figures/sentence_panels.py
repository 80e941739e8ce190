"""Attention of several runs to the same sentences, as in Niculae & Blondel (2017), C.3 and C.4."""

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar

from repro.data.segmentation import SEPARATOR, join_subwords
from repro.data.sentence_search import sentence_key
from repro.report.figures.canvas import INK, MUTED_INK, Canvas, drawable
from repro.report.figures.comparison import END, Panel, Sentence, choose_sentences, shown_sentences
from repro.report.figures.heatmap import (
    CELL,
    FOOT,
    MARGIN,
    Heatmap,
    bar_room,
    clusters,
    draw_bar,
    draw_bullets,
    draw_heatmap,
    room,
)
from repro.report.figures.kinds import MISSING, OWN, Figure, FigureRuns, Row
from repro.results import ResultsError

CLUSTERED, SOFT = "oscarmax", "softmax"
"""Mapping whose groups of equal weights bear bullets; mapping without zeros but for underflow."""
REPEATED = "#b3422d"
WIDEST = 11.0
"""Inches that the page has for a figure."""
TITLE_LINE, TITLE_LETTER, LABEL, GAP = 0.19, 0.08, 0.22, 0.16

LONGEST_SUMMARIZED, LONGEST_TRANSLATED, LONGEST_OF_MANY = 26, 14, 10
"""Symbols of a source that fit beside and below the panels of other runs."""


@dataclass(frozen=True)
class SentencePanels(Figure):
    """A panel for each sentence and run: source words below, output words on the left.

    Attributes:
        count: sentences that are shown, if there are so many.
        longest: symbols of a source that fit; outputs may have four more.
        repetitions: whether words that an output repeats are highlighted, as in Malaviya et al.
            (2018), Figure 2.
        excess: by how much a sentence makes the point of the figure; without one, the longest
            sources are shown.
        point: what ``excess`` measures, in words.
        missing: what the figure says where no sentence makes its point.
    """

    shows: ClassVar[str] = "the best run of each row"
    count: int
    longest: int
    repetitions: bool = False
    excess: Callable[[Sentence], int] | None = None
    point: str = ""
    missing: str = ""

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        if self.excess is None:
            rule = f"the longest source of at most {self.longest} symbols"
            return choose_sentences(runs, self._rank, self.count, rule)
        rule = f"{self.point}; at most {self.longest} words"
        data = choose_sentences(runs, self._rank, self.count, rule)
        shown = Sentence(data["sentences"][0])
        if shown.row[OWN] or (self._fits(shown) and self.excess(shown) > 0):
            return data
        return {MISSING: self.missing}

    def draw(self, data: Row) -> Canvas:
        blocks = [Block(sentence, self.repetitions) for sentence in shown_sentences(data)]
        note = "no line between equal weights"
        if has_bullets([block.sentence for block in blocks]):
            note += f" · equal bullets in a row: equal weights ({CLUSTERED})"
        width = max(bar_room(note), *(block.width for block in blocks))
        canvas = Canvas(width, sum(block.height(width) for block in blocks) + FOOT)
        down = 0.0
        for block in blocks:
            block.draw(canvas, down, width)
            down += block.height(width)
        draw_bar(canvas, note)
        return canvas

    def describe(self, data: Row) -> str:
        sentences = shown_sentences(data)
        weights: dict[str, list[float]] = {}
        for panel in (panel for one in sentences for panel in one.panels):
            weights.setdefault(panel.label, []).extend(w for line in panel.weights for w in line)
        shares = [
            f"{n}: {sum(w > 0 for w in every)} of {len(every)}" for n, every in weights.items()
        ]
        text = f"Attention of several runs to {len(sentences)} sentences."
        return f"{text} Nonzero weights: {'; '.join(shares)}."

    def remark(self, data: Row) -> str:
        sentences = shown_sentences(data)
        lengths = ", ".join(f"{p.label} {len(p.words)}" for p in sentences[0].panels)
        parts = [
            f"Words of the outputs: {lengths}." if self.excess else "",
            f"Words to which {CLUSTERED} gives equal weights bear the same bullet."
            if has_bullets(sentences)
            else "",
            repetitions_in_words(sentences) if self.repetitions else "",
            underflow(sentences),
        ]
        return " ".join(filter(None, parts))

    def _fits(self, sentence: Sentence) -> bool:
        longest = max(len(panel.output) for panel in sentence.panels)
        return len(sentence.source) <= self.longest and longest <= self.longest + 4

    def _rank(self, sentence: Sentence) -> tuple[int, ...]:
        fits, size = self._fits(sentence), len(sentence.source)
        if self.excess is not None:
            return not fits, -self.excess(sentence), -size
        return not fits, -size if fits else size


@dataclass(frozen=True)
class Block:
    """One sentence with its panels, as it is laid out; all measures are inches.

    Panels are drawn side by side in as many lines as the page needs; the source words are
    written below the last panel of each column.
    """

    sentence: Sentence
    repetitions: bool = False

    @property
    def width(self) -> float:
        """Width of all columns, with margins."""
        return MARGIN + self._step * self._across

    def height(self, width: float) -> float:
        """Height with title, source words and the space below."""
        return TITLE_LINE * len(self._title(width)) + 0.06 + sum(self._heights) + 0.1

    def draw(self, canvas: Canvas, down: float, width: float) -> None:
        """Draw from a height that is measured from the top of the canvas."""
        title = self._title(width)
        canvas.write(MARGIN, down + 0.06, "\n".join(title), fontsize=9, linespacing=1.25)
        down += TITLE_LINE * len(title) + 0.06
        for number, panel in enumerate(self.sentence.panels):
            line, column = divmod(number, self._across)
            left = MARGIN + self._left + column * self._step
            top = down + sum(self._heights[:line]) + LABEL
            named = self._named(number)
            grid = Heatmap(panel.weights, panel.output, panel.columns, name_columns=named)
            axes = draw_heatmap(canvas, left, top, grid)
            axes.set_title(drawable(panel.label), fontsize=9, color=MUTED_INK, pad=3, loc="left")
            if panel.mapping == CLUSTERED:
                for y, weights in enumerate(panel.weights):
                    draw_bullets(axes, y, weights)
            if self.repetitions:
                marks = repeated_places(panel, self.sentence)
                for tick, marked in zip(axes.get_yticklabels(), marks, strict=True):
                    tick.set_fontweight("bold" if marked else "normal")
                    tick.set_color(REPEATED if marked else INK)

    @property
    def _left(self) -> float:
        return room([word for panel in self.sentence.panels for word in panel.output])

    @property
    def _step(self) -> float:
        """Width of a column with the space behind it."""
        columns = max(len(panel.columns) for panel in self.sentence.panels)
        return self._left + CELL * columns + GAP

    @property
    def _across(self) -> int:
        """Panels beside each other, so that lines are as even as they can be."""
        count = len(self.sentence.panels)
        most = max(1, int((WIDEST - MARGIN) / self._step))
        return math.ceil(count / math.ceil(count / most))

    @property
    def _heights(self) -> list[float]:
        """Heights of the rows of panels."""
        panels, across = self.sentence.panels, self._across
        heights = []
        for start in range(0, len(panels), across):
            line = panels[start : start + across]
            named = any(self._named(start + n) for n in range(len(line)))
            words = room([word for panel in line for word in panel.columns]) if named else 0.05
            heights.append(LABEL + CELL * max(len(panel.output) for panel in line) + words)
        return heights

    def _named(self, number: int) -> bool:
        """Return whether the source words are written below a panel."""
        panels = self.sentence.panels
        below = panels[number + self._across :: self._across][:1]
        return not below or len(below[0].columns) != len(panels[number].columns)

    def _title(self, width: float) -> list[str]:
        reference = " ".join(self.sentence.reference)
        text = drawable(f"{self.sentence.row['language']}, reference: {reference}")
        return textwrap.wrap(text, max(int((width - 2 * MARGIN) / TITLE_LETTER), 20)) or [""]


def has_bullets(sentences: Sequence[Sentence]) -> bool:
    """Return whether a row of a panel has groups of equal weights that are marked."""
    panels = [p for one in sentences for p in one.panels if p.mapping == CLUSTERED]
    return any(clusters(line) for panel in panels for line in panel.weights)


def underflow(sentences: Sequence[Sentence]) -> str:
    """Says so if softmax has weights of zero."""
    panels = [p for one in sentences for p in one.panels if p.mapping == SOFT]
    zeros = any(weight == 0 for panel in panels for line in panel.weights for weight in line)
    return f"Weights of {SOFT} below the least single-precision number are zero." if zeros else ""


def repetitions_in_words(sentences: Sequence[Sentence]) -> str:
    """The words that each run says more often than the reference does."""
    parts: dict[str, list[str]] = {}
    for one in sentences:
        for panel in one.panels:
            parts.setdefault(panel.label, []).extend(repeated_words(panel.words, one))
    found = [f"{label}: {', '.join(words) if words else 'none'}" for label, words in parts.items()]
    bold = ", bold" if any(parts.values()) else ""
    return f"Words said more often than in the reference{bold}: {'; '.join(found)}."


def repeated_words(words: Sequence[str], sentence: Sentence) -> list[str]:
    """Words that occur at least twice, and more often than in the reference, in their order.

    Punctuation marks are no words.
    """
    wanted, said = Counter(sentence.reference), Counter(filter(sentence_key, words))
    return [word for word, count in said.items() if count > max(1, wanted[word])]


def repeated_places(panel: Panel, sentence: Sentence) -> list[bool]:
    """Return whether each output symbol belongs to a repeated word."""
    tokens = [token for token in panel.output if token != END]
    words = join_subwords(tokens)
    repeated = {*repeated_words(words, sentence)}
    ends = [not token.endswith(SEPARATOR) for token in tokens]
    word_of = list(accumulate(ends, initial=0))[: len(tokens)]
    marked = [words[number] in repeated for number in word_of]
    return marked + [False] * (len(panel.output) - len(tokens))


def _lengths(sentence: Sentence, mappings: Sequence[str]) -> tuple[list[int], list[int]]:
    """Output lengths of the runs with these mappings, and of the other runs."""
    ours = [len(p.output) for p in sentence.panels if p.mapping in mappings]
    if not ours:
        raise ResultsError(f"no run uses {' or '.join(mappings)}: nothing to compare")
    others = [len(p.output) for p in sentence.panels if p.mapping not in mappings]
    return ours, others


def longer(sentence: Sentence) -> int:
    """Number of symbols by which the output of fusedmax exceeds the longest of the others."""
    ours, others = _lengths(sentence, ["fusedmax"])
    return min(ours) - max(others, default=0)


def shorter(sentence: Sentence) -> int:
    """Number of symbols by which the shortest of the others exceeds fusedmax and oscarmax."""
    ours, others = _lengths(sentence, ["fusedmax", "oscarmax"])
    return min(others, default=0) - max(ours)


FIGURES = {
    "attention_to_summarized": SentencePanels(1, LONGEST_SUMMARIZED),
    "attention_to_two_summarized": SentencePanels(2, LONGEST_SUMMARIZED),
    "attention_to_translated": SentencePanels(1, LONGEST_TRANSLATED),
    "attention_to_two_translated": SentencePanels(2, LONGEST_TRANSLATED, repetitions=True),
    "attention_to_six_translated": SentencePanels(6, LONGEST_OF_MANY),
    "longer_summary": SentencePanels(
        1,
        LONGEST_SUMMARIZED,
        excess=longer,
        point="the summary by fusedmax exceeds the longest of the others the most",
        missing="In no stored sentence that fits, fusedmax says more than all others.",
    ),
    "shorter_summary": SentencePanels(
        1,
        LONGEST_SUMMARIZED,
        excess=shorter,
        point="the summaries by fusedmax and oscarmax fall short of the others the most",
        missing="In no stored sentence that fits, fusedmax and oscarmax say less than all others.",
    ),
}
