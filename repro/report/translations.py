"""Translations by several runs side by side, as in Malaviya et al. (2018), Appendix B."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from repro.report.attention_panels import Block, legend, underflow, weight_scale
from repro.report.canvas import INK, MUTED_INK, drawable, new_figure, text_width
from repro.report.compared_sentences import (
    ComparedSentence,
    Row,
    chosen_sentences,
    runs_shown,
    shown_sentences,
)
from repro.report.strips import draw_bar

COUNT = 8
"""Sentences that are shown."""
LONGEST = 24
"""Symbols of a source that fit."""
MISSED, MISTAKEN = "#1f5f9e", "#b3422d"
WIDTH, NAMES, SIZE, LINE, MARGIN, GAP, FOOT = 9.6, 1.15, 9.0, 0.19, 0.15, 0.14, 0.55


@dataclass(frozen=True)
class Word:
    """A word of a text, and whether it is marked."""

    text: str
    marked: bool


def gather_translations(kept: Mapping[str, Sequence[Row]], prefer: Sequence[str]) -> dict[str, Any]:
    """Choose eight sentences: preferred sources, else those that the runs differ about most.

    Runs differ by how many words of the reference the best one finds more than the worst one.
    Sources of at most 24 symbols go first.

    Raises:
        ResultsError: the runs kept no sentence in common, or a row is malformed.
    """

    def rank(sentence: ComparedSentence) -> tuple[int, ...]:
        found = [len(common_words(sentence.reference, ours)[0]) for ours in _outputs(sentence)]
        return len(sentence.source) > LONGEST, min(found) - max(found)

    return chosen_sentences(kept, prefer, rank, COUNT)


def draw_translations(row: Row) -> Figure:
    """Draw source, reference and translations as text, below them the attention to one sentence.

    Words of the reference that a run lacks are blue, words of a translation that the reference
    lacks are red.

    Raises:
        ResultsError: the row is malformed or weights are no distributions.
    """
    sentences = shown_sentences(row)
    texts = [list(_lines(sentence)) for sentence in sentences]
    block = Block(mapped_sentence(sentences))
    beside = block.width(True) <= WIDTH
    written = sum(LINE * len(lines) + GAP for lines in texts) + MARGIN
    maps = block.height(beside, WIDTH)
    height = written + maps + FOOT
    figure = new_figure(max(WIDTH, block.width(beside)), height)
    _write_texts(figure, texts)
    scale = weight_scale([block.sentence])
    block.draw(figure, 0.0, height - written, WIDTH, beside, scale)
    draw_bar(figure, scale, MARGIN, legend([block.sentence]))
    return figure


def describe_translations(row: Row) -> str:
    """Every text, in words."""
    parts = []
    for sentence in shown_sentences(row):
        texts = {"reference": sentence.reference}
        texts |= {label: sentence.words(label) for label in sentence.panels}
        found = "; ".join(f"{label}: {' '.join(words)!r}" for label, words in texts.items())
        parts.append(f"{sentence.text!r}: {found}")
    return f"Translations by several runs. {'. '.join(parts)}."


def remark_translations(row: Row) -> str:
    """How often each run repeats a word at once, and which runs are shown."""
    sentences = shown_sentences(row)
    counts = [
        f"{label} {sum(_repeats(sentence.words(label)) for sentence in sentences)}"
        for label in sentences[0].panels
    ]
    repeated = f"Immediate repetitions: {', '.join(counts)}."
    remarks = (repeated, underflow([mapped_sentence(sentences)]), runs_shown(row))
    return " ".join(remark for remark in remarks if remark)


def mapped_sentence(sentences: Sequence[ComparedSentence]) -> ComparedSentence:
    """The sentence whose attention is drawn: the first of the shortest sources."""
    return min(sentences, key=lambda sentence: len(sentence.source))


def common_words(one: Sequence[str], other: Sequence[str]) -> tuple[set[int], set[int]]:
    """Places of a longest common subsequence in both texts; the leftmost where there are several.

    Returns:
        Places in ``one`` and places in ``other``.
    """
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in reversed(range(len(one))):
        for j in reversed(range(len(other))):
            same = one[i] == other[j]
            skipped = max(table[i + 1][j], table[i][j + 1])
            table[i][j] = 1 + table[i + 1][j + 1] if same else skipped
    places: tuple[set[int], set[int]] = (set(), set())
    i = j = 0
    while i < len(one) and j < len(other):
        if one[i] == other[j]:
            places[0].add(i)
            places[1].add(j)
            i, j = i + 1, j + 1
        elif table[i + 1][j] >= table[i][j + 1]:
            i += 1
        else:
            j += 1
    return places


def _outputs(sentence: ComparedSentence) -> list[list[str]]:
    return [sentence.words(label) for label in sentence.panels]


def _lines(sentence: ComparedSentence) -> Iterator[tuple[str, list[Word], str]]:
    """Every line of a sentence's texts: a name or none, its words, and the colour of marks."""
    reference = sentence.reference
    found = [common_words(reference, ours) for ours in _outputs(sentence)]
    shared = set.intersection(*(places for places, _ in found))
    texts = [("input", [Word(word, False) for word in sentence.text.split()], INK)]
    marks = [Word(word, n not in shared) for n, word in enumerate(reference)]
    texts.append(("reference", marks, MISSED))
    for label, (_, places) in zip(sentence.panels, found, strict=True):
        ours = sentence.words(label)
        marks = [Word(word, n not in places) for n, word in enumerate(ours)]
        texts.append((label, marks, MISTAKEN))
    for name, words, colour in texts:
        for number, line in enumerate(_wrapped(words)):
            yield (name if number == 0 else ""), line, colour


def _wrapped(words: Sequence[Word]) -> list[list[Word]]:
    """Words in lines that fit into the width."""
    lines: list[list[Word]] = [[]]
    room = WIDTH - NAMES - 2 * MARGIN
    for word in words:
        width = _advance(word)
        if lines[-1] and width > room:
            lines.append([])
            room = WIDTH - NAMES - 2 * MARGIN
        lines[-1].append(word)
        room -= width
    return lines


def _advance(word: Word) -> float:
    """Width of a word with the space behind it."""
    return text_width(drawable(word.text), SIZE) + 0.055


def _write_texts(figure: Figure, texts: Sequence[Sequence[tuple[str, list[Word], str]]]) -> None:
    width, height = figure.get_size_inches()
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    y = MARGIN + LINE / 2
    for lines in texts:
        for name, words, colour in lines:
            _write(axes, MARGIN, y, name, MUTED_INK)
            x = MARGIN + NAMES
            for word in words:
                _write(axes, x, y, word.text, colour if word.marked else INK)
                x += _advance(word)
            y += LINE
        y += GAP


def _write(axes: Axes, x: float, y: float, text: str, colour: str) -> None:
    axes.text(
        x, y, drawable(text), fontsize=SIZE, color=colour, va="center", parse_math=False
    )  # fmt: skip


def _repeats(words: Sequence[str]) -> int:
    return sum(word == before for before, word in pairwise(words))
