"""Attention of several runs to the same sentences, as in Niculae & Blondel (2017), C.3 and C.4."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, ClassVar

from matplotlib.axes import Axes

from repro.data.segmentation import SEPARATOR
from repro.data.sentence_search import sentence_key
from repro.data.vocabulary import END
from repro.report.figures.canvas import Canvas
from repro.report.figures.comparison import Sentence, choose_sentences, shown_sentences
from repro.report.figures.heatmap import Panel
from repro.report.figures.kinds import OWN, Figure, FigureRuns, Row
from repro.report.figures.panels import Block, bulleted, draw_blocks
from repro.results import ResultsError

SOFT = "softmax"
"""Mapping whose zeros are all underflow."""
REPEATED = "#b3422d"
NOT_SHOWN = "No stored sentence shows what the paper's figure shows; this one comes closest."


@dataclass(frozen=True)
class SentencePanels(Figure):
    """Heat maps for each sentence and run: source words below, output words on the left."""

    shows: ClassVar[str] = "the best run of each row"
    count: int  # most sentences that are shown
    longest: int  # most symbols of a source that fit on the page; outputs may have four more
    repetitions: bool = False  # highlight repeated words: Malaviya et al. (2018), Figure 2
    # How well a sentence shows the effect that the figure is about, above zero if it does; None
    # shows the longest sources.
    excess: Callable[[Sentence], int] | None = None
    point: str = ""  # what excess measures, in words

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        rule = f"the longest source of at most {self.longest} symbols"
        if self.excess is not None:
            rule = f"{self.point}; at most {self.longest} words"
        return choose_sentences(runs, self._rank, self.count, rule)

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
        first = sentences[0]
        lengths = ", ".join(f"{p.label} {len(p.words)}" for p in first.panels)
        shown = (
            self.excess is None or first.row[OWN] or (self._fits(first) and self.excess(first) > 0)
        )
        bullets = bulleted([panel for one in sentences for panel in one.panels])
        parts = [
            "" if shown else NOT_SHOWN,
            f"Words of the outputs: {lengths}." if self.excess else "",
            f"Words to which {bullets} gives equal weights bear the same bullet." * bool(bullets),
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


def sentence_block(sentence: Sentence, repetitions: bool = False) -> Block:
    """Lay out a sentence below its reference; ``repetitions`` highlights repeated words."""

    def finish(panel: Panel, axes: Axes) -> None:
        marks = repeated_places(panel, sentence) if repetitions else ()
        for tick, marked in zip(axes.get_yticklabels(), marks, strict=False):
            if marked:
                tick.set(fontweight="bold", color=REPEATED)

    title = f"{sentence.row['language']}, reference: {' '.join(sentence.reference)}"
    return Block(title, sentence.panels, finish)


def underflow(sentences: Sequence[Sentence]) -> str:
    """Return a note that weights of softmax underflow to zero; empty if none does."""
    panels = [p for one in sentences for p in one.panels if p.mapping == SOFT]
    zeros = any(weight == 0 for panel in panels for line in panel.weights for weight in line)
    return f"Weights of {SOFT} below the least single-precision number are zero." if zeros else ""


def repetitions_in_words(sentences: Sequence[Sentence]) -> str:
    """List the words of the phrases that each run repeats."""
    parts: dict[str, list[str]] = defaultdict(list)
    for one in sentences:
        for panel in one.panels:
            parts[panel.label] += repeated_words(panel.words, one)
    found = [f"{label}: {', '.join(words) if words else 'none'}" for label, words in parts.items()]
    bold = " (bold)" if any(parts.values()) else ""
    return f"Words of repeated phrases{bold}: {'; '.join(found)}."


def repeated_words(words: Sequence[str], sentence: Sentence) -> list[str]:
    """Return words of phrases that are said again and more often than in the reference, in order.

    A phrase is two words, as in REP: a single word, such as an article, may well occur again, but
    not at once. Punctuation marks do not count as words.
    """
    plain = [[*filter(sentence_key, text)] for text in (words, sentence.reference)]
    said, wanted = (Counter(pairwise(text)) for text in plain)
    again = {one for one, n in said.items() if n > max(one[0] != one[1], wanted[one])}
    return [word for word in dict.fromkeys(plain[0]) if any(word in pair for pair in again)]


def most_repeated(sentence: Sentence) -> int:
    """Return the largest number of words in repeated phrases of an output."""
    return max(len(repeated_words(panel.words, sentence)) for panel in sentence.panels)


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
    "attention_to_two_translated": SentencePanels(
        2,
        longest=14,
        repetitions=True,
        excess=most_repeated,
        point="the sentence of which one output repeats the most words",
    ),
    "attention_to_six_translated": SentencePanels(6, longest=10),
    "longer_summary": SentencePanels(
        1,
        longest=26,
        excess=longer,
        point="the summary by fusedmax exceeds the longest of the others the most",
    ),
    "shorter_summary": SentencePanels(
        1,
        longest=26,
        excess=shorter,
        point="the summaries by fusedmax and oscarmax fall short of the others the most",
    ),
}
