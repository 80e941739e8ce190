"""Translations by several runs side by side, as in Malaviya et al. (2018), Appendix B."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any, ClassVar

from repro.evaluation.metrics import summarization
from repro.report.figures.canvas import INK, MUTED_INK, Canvas, drawable, in_lines, text_width
from repro.report.figures.comparison import Sentence, choose_sentences, shown_sentences
from repro.report.figures.heatmap import FOOT, draw_bar
from repro.report.figures.kinds import Figure, FigureRuns, Row
from repro.report.figures.sentence_panels import sentence_block, underflow

COUNT = 8
"""Number of sentences that are shown."""
LONGEST = 24
"""Most symbols of a source that fit."""
MISSED, MISTAKEN = "#1f5f9e", "#b3422d"
WIDTH, NAMES, SIZE, LINE, MARGIN, GAP = 9.6, 1.15, 9.0, 0.19, 0.15, 0.14
SPACE = 0.04
"""Space between two words, in inches."""


Word = tuple[str, bool]
"""Word of a text, and whether it is colored."""


class Translations(Figure):
    """Source, reference and translations as text, above the attention to one sentence.

    Words of the reference that any translation lacks are blue, words of a translation that the
    reference lacks are red.
    """

    shows: ClassVar[str] = "the best run of each row"
    rule = (
        f"of sources of at most {LONGEST} symbols the one where the best translation finds most "
        "words of the reference that the worst one lacks"
    )

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        def rank(sentence: Sentence) -> tuple[int, ...]:
            found = [
                len(common_words(sentence.reference, panel.words)[0]) for panel in sentence.panels
            ]
            return len(sentence.source) > LONGEST, min(found) - max(found)

        return choose_sentences(runs, rank, COUNT, self.rule)

    def draw(self, data: Row) -> Canvas:
        sentences = shown_sentences(data)
        texts = [_lines(sentence) for sentence in sentences]
        block = sentence_block(mapped_sentence(sentences))
        written = sum(LINE * len(lines) + GAP for lines in texts) + MARGIN
        canvas = Canvas(max(WIDTH, block.width), written + block.height(WIDTH) + FOOT)
        page, y = canvas.page(), MARGIN + LINE / 2
        for lines in texts:
            for name, words, color in lines:
                page.text(MARGIN, y, drawable(name), fontsize=SIZE, color=MUTED_INK, va="center")
                x = MARGIN + NAMES
                for marked, group in groupby(words, key=lambda word: word[1]):
                    text = " ".join(drawable(word) for word, _ in group)
                    ink = color if marked else INK
                    page.text(x, y, text, fontsize=SIZE, color=ink, va="center")
                    x += text_width(text, SIZE) + SPACE
                y += LINE
            y += GAP
        block.draw(canvas, written, WIDTH)
        draw_bar(canvas)
        return canvas

    def describe(self, data: Row) -> str:
        sentences = shown_sentences(data)
        labels = ", ".join(panel.label for panel in sentences[0].panels)
        return f"{len(sentences)} sentences with their reference and translations by {labels}."

    def remark(self, data: Row) -> str:
        sentences = shown_sentences(data)
        counts = Counter[str]()
        for panel in (panel for one in sentences for panel in one.panels):
            counts[panel.label] += sum(word == before for before, word in pairwise(panel.words))
        found = ", ".join(f"{label} {count}" for label, count in counts.items())
        zeros = underflow([mapped_sentence(sentences)])
        return f"Immediate repetitions: {found}. {zeros}".strip()


def mapped_sentence(sentences: Sequence[Sentence]) -> Sentence:
    """Return the sentence whose attention is drawn: the one with the shortest source."""
    return min(sentences, key=lambda sentence: len(sentence.source))


def common_words(one: Sequence[str], other: Sequence[str]) -> tuple[set[int], set[int]]:
    """Find a longest common subsequence; return the indices of its words in both texts."""
    # Reversed, so that ties between several subsequences are broken from the front.
    pairs = summarization.common_words(other[::-1], one[::-1])
    return {len(one) - 1 - i for i, _ in pairs}, {len(other) - 1 - j for _, j in pairs}


def _width(word: Word) -> float:
    return text_width(drawable(word[0]), SIZE) + SPACE


def _lines(sentence: Sentence) -> list[tuple[str, list[Word], str]]:
    """Return the lines of the texts: name (first lines only), words, color of marked words."""
    reference = sentence.reference
    found = [common_words(reference, panel.words) for panel in sentence.panels]
    shared = set.intersection(*(places for places, _ in found))
    texts = [
        ("input", [(word, False) for word in sentence.text.split()], INK),
        ("reference", [(word, n not in shared) for n, word in enumerate(reference)], MISSED),
    ]
    for panel, (_, places) in zip(sentence.panels, found, strict=True):
        marks = [(word, n not in places) for n, word in enumerate(panel.words)]
        texts.append((panel.label, marks, MISTAKEN))
    lines = []
    for name, words, color in texts:
        wrapped = in_lines(words, _width, WIDTH - NAMES - 2 * MARGIN)
        lines += [(name if n == 0 else "", line, color) for n, line in enumerate(wrapped)]
    return lines


FIGURES = {"translations": Translations()}
