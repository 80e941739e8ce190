"""Which sentences figures of attention panels show: rules, so that nobody picks the prettiest."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from repro.report.attention_panels import joined, remark_attention_panels
from repro.report.choice import OWN, missing
from repro.report.compared_sentences import (
    ComparedSentence,
    Rank,
    Row,
    chosen_sentences,
    compared_sentence,
    shown_sentences,
)
from repro.results import ResultsError

SUMMARIES = ("fusedmax", "oscarmax")
"""Labels of the runs whose summaries are compared with the others'."""


def gather_sentences(
    kept: Mapping[str, Sequence[Row]], prefer: Sequence[str], count: int, longest: int
) -> dict[str, Any]:
    """Choose sentences: preferred sources, else the longest ones that fit.

    Args:
        kept: rows of each run, by the label of the run.
        prefer: sources, the first one first.
        count: how many sentences are shown.
        longest: symbols of a source that fit; outputs may have four more.

    Raises:
        ResultsError: the runs kept no sentence in common, or a row is malformed.
    """
    return chosen_sentences(kept, prefer, longest_that_fits(longest), count)


def gather_longer_summary(
    kept: Mapping[str, Sequence[Row]], prefer: Sequence[str], longest: int
) -> dict[str, Any]:
    """Choose the sentence whose fusedmax output exceeds the longest of the others the most.

    Where no sentence that fits has such an output, the figure has no example.

    Raises:
        ResultsError: as :func:`gather_sentences`, or no run is labelled fusedmax.
    """
    _require(kept, SUMMARIES[:1])

    def rank(sentence: ComparedSentence) -> tuple[int, ...]:
        return not _fits(sentence, longest), -_longer(sentence), -len(sentence.source)

    chosen = chosen_sentences(kept, prefer, rank, 1)
    if _shows(chosen, _longer, longest):
        return chosen
    return missing(f"In no stored sentence that fits, {SUMMARIES[0]} says more than all others.")


def gather_shorter_summary(
    kept: Mapping[str, Sequence[Row]], prefer: Sequence[str], longest: int
) -> dict[str, Any]:
    """Choose the sentence whose fusedmax and oscarmax outputs are shorter than the others'.

    The shortest of the others exceeds the longer of these two the most. Where no sentence that fits
    has such outputs, the figure has no example.

    Raises:
        ResultsError: as :func:`gather_sentences`, or no run is labelled fusedmax or oscarmax.
    """
    _require(kept, SUMMARIES)

    def rank(sentence: ComparedSentence) -> tuple[int, ...]:
        return not _fits(sentence, longest), -_shorter(sentence), -len(sentence.source)

    chosen = chosen_sentences(kept, prefer, rank, 1)
    if _shows(chosen, _shorter, longest):
        return chosen
    both = " and ".join(SUMMARIES)
    return missing(f"In no stored sentence that fits, {both} say less than all others.")


def longest_that_fits(longest: int) -> Rank:
    """Sources of at most so many symbols first, the longest of them first."""

    def rank(sentence: ComparedSentence) -> tuple[int, ...]:
        fits, size = _fits(sentence, longest), len(sentence.source)
        return not fits, -size if fits else size

    return rank


def remark_summaries(row: Row) -> str:
    """How long the outputs are, and what the panels show."""
    (sentence,) = shown_sentences(row)
    return joined(_lengths(sentence), remark_attention_panels(row))


def _shows(chosen: Row, excess: Callable[[ComparedSentence], int], longest: int) -> bool:
    """Whether the chosen sentence makes the figure's point, or is the paper's own."""
    (row,) = chosen["sentences"]
    sentence = compared_sentence(row)
    return bool(row[OWN]) or (_fits(sentence, longest) and excess(sentence) > 0)


def _fits(sentence: ComparedSentence, longest: int) -> bool:
    return len(sentence.source) <= longest and sentence.longest <= longest + 4


def _require(kept: Mapping[str, Sequence[Row]], labels: Sequence[str]) -> None:
    lacking = [label for label in labels if label not in kept]
    if lacking:
        raise ResultsError(f"no run is labelled {', '.join(lacking)}: nothing to compare")


def _longer(sentence: ComparedSentence) -> int:
    """By how many symbols the output of fusedmax exceeds the longest of the others."""
    label, _ = SUMMARIES
    others = [len(panel.output) for name, panel in sentence.panels.items() if name != label]
    return len(sentence.panels[label].output) - max(others, default=0)


def _shorter(sentence: ComparedSentence) -> int:
    """By how many symbols the shortest of the others exceeds fusedmax and oscarmax."""
    lengths = {name: len(panel.output) for name, panel in sentence.panels.items()}
    ours = [lengths.pop(name) for name in SUMMARIES]
    return min(lengths.values(), default=0) - max(ours)


def _lengths(sentence: ComparedSentence) -> str:
    lengths = [f"{label} {len(sentence.words(label))}" for label in sentence.panels]
    return f"Words of the outputs: {', '.join(lengths)}."
