"""Attention of several runs to the same sentences, as in Niculae & Blondel (2017), C.3 and C.4."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, zip_longest
from typing import Any, ClassVar

from repro.data.segmentation import SEPARATOR
from repro.data.sentence_search import sentence_key
from repro.report.figures.canvas import (
    INK,
    MARGIN,
    MUTED_INK,
    Canvas,
    drawable,
    in_lines,
    text_width,
)
from repro.report.figures.comparison import END, Panel, Sentence, choose_sentences, shown_sentences
from repro.report.figures.heatmap import (
    CELL,
    FOOT,
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
"""Mapping whose groups of equal weights get bullets; mapping whose zeros are all underflow."""
REPEATED = "#b3422d"
WIDEST = 11.0
"""Width of the page in inches."""
TITLE_LINE, TITLE_SIZE, LABEL, GAP = 0.19, 9, 0.22, 0.16


@dataclass(frozen=True)
class SentencePanels(Figure):
    """Heat maps for each sentence and run: source words below, output words on the left.

    Attributes:
        count: most sentences that are shown.
        longest: most symbols of a source that fit on the page; outputs may have four more.
        repetitions: whether words that an output repeats are highlighted, as in Malaviya et al.
            (2018), Figure 2.
        excess: how well a sentence shows the effect that the figure is about, above zero if it
            does; None shows the longest sources.
        point: what ``excess`` measures, in words.
        missing: note that replaces the figure if no sentence shows the effect.
    """

    shows: ClassVar[str] = "the best run of each row"
    count: int
    longest: int
    repetitions: bool = False
    excess: Callable[[Sentence], int] | None = None
    point: str = ""
    missing: str = ""

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        rule = f"the longest source of at most {self.longest} symbols"
        if self.excess is not None:
            rule = f"{self.point}; at most {self.longest} words"
        data = choose_sentences(runs, self._rank, self.count, rule)
        first = Sentence(data["sentences"][0])
        if self.excess is None or first.row[OWN]:
            return data
        return data if self._fits(first) and self.excess(first) > 0 else {MISSING: self.missing}

    def draw(self, data: Row) -> Canvas:
        sentences = shown_sentences(data)
        return draw_blocks([sentence_block(one, self.repetitions) for one in sentences])

    def describe(self, data: Row) -> str:
        sentences = shown_sentences(data)
        weights: dict[str, list[float]] = defaultdict(list)
        for panel in (panel for one in sentences for panel in one.panels):
            weights[panel.label] += [weight for line in panel.weights for weight in line]
        shares = [
            f"{n}: {sum(w > 0 for w in every)} of {len(every)}" for n, every in weights.items()
        ]
        text = f"Attention of several runs to {len(sentences)} sentences."
        return f"{text} Nonzero weights: {'; '.join(shares)}."

    def remark(self, data: Row) -> str:
        sentences = shown_sentences(data)
        lengths = ", ".join(f"{p.label} {len(p.words)}" for p in sentences[0].panels)
        bullets = f"Words to which {CLUSTERED} gives equal weights bear the same bullet."
        parts = [
            f"Words of the outputs: {lengths}." if self.excess else "",
            bullets if has_bullets([panel for one in sentences for panel in one.panels]) else "",
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


class Block:
    """Layout of the panels of one sentence; all lengths are in inches.

    Panels are side by side, in as many rows as the width of the page requires. Source words are
    written below a panel unless the panel below it has the same.

    Attributes:
        panels: heat map of each run.
        width: width of all columns, with margins.

    Args:
        title: text above the panels.
        panels: heat map of each run.
        marked: function that tells which output symbols of a panel are highlighted.
    """

    def __init__(
        self,
        title: str,
        panels: Sequence[Panel],
        marked: Callable[[Panel], Sequence[bool]] | None = None,
    ) -> None:
        self.panels, self._text, self._marked = panels, drawable(title), marked
        self._left = room([word for panel in panels for word in panel.output])
        # Width of a column with the gap behind it.
        self._step = self._left + CELL * max(len(panel.columns) for panel in panels) + GAP
        # Panels per row, chosen so that rows have almost equally many.
        most = max(1, int((WIDEST - MARGIN) / self._step))
        self._across = math.ceil(len(panels) / math.ceil(len(panels) / most))
        self.width = MARGIN + self._step * self._across
        # Whether the source words are written below each panel.
        pairs = zip_longest(panels, panels[self._across :])
        self._named = [not below or [*below.columns] != [*p.columns] for p, below in pairs]
        self._heights = []
        for start in range(0, len(panels), self._across):
            row = slice(start, start + self._across)
            named = any(self._named[row])
            words = room([word for panel in panels[row] for word in panel.columns])
            most_output = max(len(panel.output) for panel in panels[row])
            self._heights.append(LABEL + CELL * most_output + (words if named else 0.05))

    def height(self, width: float) -> float:
        """Return the height with title, source words and the space below."""
        return TITLE_LINE * len(self._title(width)) + 0.06 + sum(self._heights) + 0.1

    def draw(self, canvas: Canvas, down: float, width: float) -> None:
        """Draw the block ``down`` inches below the top of the canvas."""
        title = self._title(width)
        canvas.write(MARGIN, down + 0.06, "\n".join(title), fontsize=TITLE_SIZE, linespacing=1.25)
        down += TITLE_LINE * len(title) + 0.06
        for number, panel in enumerate(self.panels):
            row, column = divmod(number, self._across)
            left = MARGIN + self._left + column * self._step
            top = down + sum(self._heights[:row]) + LABEL
            named = self._named[number]
            grid = Heatmap(panel.weights, panel.output, panel.columns, name_columns=named)
            axes = draw_heatmap(canvas, left, top, grid)
            axes.set_title(drawable(panel.label), fontsize=9, color=MUTED_INK, pad=3, loc="left")
            if panel.mapping == CLUSTERED:
                for y, weights in enumerate(panel.weights):
                    draw_bullets(axes, y, weights)
            if self._marked is not None:
                marks = self._marked(panel)
                for tick, marked in zip(axes.get_yticklabels(), marks, strict=True):
                    tick.set_fontweight("bold" if marked else "normal")
                    tick.set_color(REPEATED if marked else INK)

    def _title(self, width: float) -> list[str]:
        room = max(width - 2 * MARGIN, 2.0)
        words = in_lines(self._text.split(), lambda word: text_width(f"{word} ", TITLE_SIZE), room)
        return [" ".join(line) for line in words] or [""]


def sentence_block(sentence: Sentence, repetitions: bool = False) -> Block:
    """Lay out a sentence below its reference; ``repetitions`` highlights repeated words."""
    title = f"{sentence.row['language']}, reference: {' '.join(sentence.reference)}"
    marked = partial(repeated_places, sentence=sentence) if repetitions else None
    return Block(title, sentence.panels, marked)


def draw_blocks(blocks: Sequence[Block]) -> Canvas:
    """Draw blocks below each other, with the colour bar at the foot."""
    note = "no line between equal weights"
    if has_bullets([panel for block in blocks for panel in block.panels]):
        note += f" · equal bullets in a row: equal weights ({CLUSTERED})"
    width = max(bar_room(note), *(block.width for block in blocks))
    canvas = Canvas(width, sum(block.height(width) for block in blocks) + FOOT)
    down = 0.0
    for block in blocks:
        block.draw(canvas, down, width)
        down += block.height(width)
    draw_bar(canvas, note)
    return canvas


def has_bullets(panels: Sequence[Panel]) -> bool:
    """Return whether any row of a panel has groups of equal weights that get bullets."""
    clustered = (panel for panel in panels if panel.mapping == CLUSTERED)
    return any(clusters(line) for panel in clustered for line in panel.weights)


def underflow(sentences: Sequence[Sentence]) -> str:
    """Return a note that weights of softmax underflow to zero; empty if none does."""
    panels = [p for one in sentences for p in one.panels if p.mapping == SOFT]
    zeros = any(weight == 0 for panel in panels for line in panel.weights for weight in line)
    return f"Weights of {SOFT} below the least single-precision number are zero." if zeros else ""


def repetitions_in_words(sentences: Sequence[Sentence]) -> str:
    """List the words that each run repeats more often than the reference does."""
    parts: dict[str, list[str]] = defaultdict(list)
    for one in sentences:
        for panel in one.panels:
            parts[panel.label] += repeated_words(panel.words, one)
    found = [f"{label}: {', '.join(words) if words else 'none'}" for label, words in parts.items()]
    bold = ", bold" if any(parts.values()) else ""
    return f"Words said more often than in the reference{bold}: {'; '.join(found)}."


def repeated_words(words: Sequence[str], sentence: Sentence) -> list[str]:
    """Return words that occur at least twice and more often than in the reference, in order.

    Punctuation marks do not count as words.
    """
    wanted, said = Counter(sentence.reference), Counter(filter(sentence_key, words))
    return [word for word, count in said.items() if count > max(1, wanted[word])]


def repeated_places(panel: Panel, sentence: Sentence) -> list[bool]:
    """Return whether each output symbol belongs to a repeated word."""
    tokens = [token for token in panel.output if token != END]
    words, repeated = panel.words, {*repeated_words(panel.words, sentence)}
    ends = [not token.endswith(SEPARATOR) for token in tokens]
    word_of = list(accumulate(ends, initial=0))[: len(tokens)]
    marked = [words[number] in repeated for number in word_of]
    return marked + [False] * (len(panel.output) - len(tokens))


def _lengths(sentence: Sentence, mappings: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return output lengths of the runs with these mappings, and those of the other runs."""
    ours = [len(p.output) for p in sentence.panels if p.mapping in mappings]
    if not ours:
        raise ResultsError(f"no run uses {' or '.join(mappings)}: nothing to compare")
    others = [len(p.output) for p in sentence.panels if p.mapping not in mappings]
    return ours, others


def longer(sentence: Sentence) -> int:
    """Return by how many symbols the output of fusedmax exceeds the longest of the others."""
    ours, others = _lengths(sentence, ["fusedmax"])
    return min(ours) - max(others, default=0)


def shorter(sentence: Sentence) -> int:
    """Return by how many symbols the shortest of the others exceeds fusedmax and oscarmax."""
    ours, others = _lengths(sentence, ["fusedmax", "oscarmax"])
    return min(others, default=0) - max(ours)


FIGURES = {
    "attention_to_summarized": SentencePanels(1, longest=26),
    "attention_to_two_summarized": SentencePanels(2, longest=26),
    "attention_to_translated": SentencePanels(1, longest=14),
    "attention_to_two_translated": SentencePanels(2, longest=14, repetitions=True),
    "attention_to_six_translated": SentencePanels(6, longest=10),
    "longer_summary": SentencePanels(
        1,
        longest=26,
        excess=longer,
        point="the summary by fusedmax exceeds the longest of the others the most",
        missing="In no stored sentence that fits, fusedmax says more than all others.",
    ),
    "shorter_summary": SentencePanels(
        1,
        longest=26,
        excess=shorter,
        point="the summaries by fusedmax and oscarmax fall short of the others the most",
        missing="In no stored sentence that fits, fusedmax and oscarmax say less than all others.",
    ),
}
