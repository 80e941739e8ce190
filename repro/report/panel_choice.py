"""Which sentences figures of attention panels show: rules, so that nobody picks the prettiest."""

from collections.abc import Mapping, Sequence
from typing import Any

from repro.report.attention_panels import joined, remark_attention_panels
from repro.report.compared_sentences import (
    ComparedSentence,
    Rank,
    Row,
    chosen_sentences,
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

    Raises:
        ResultsError: as :func:`gather_sentences`, or no run is labelled fusedmax.
    """
    _require(kept, SUMMARIES[:1])

    def rank(sentence: ComparedSentence) -> tuple[int, ...]:
        return not _fits(sentence, longest), -_longer(sentence), -len(sentence.source)

    return chosen_sentences(kept, prefer, rank, 1)


def gather_shorter_summary(
    kept: Mapping[str, Sequence[Row]], prefer: Sequence[str], longest: int
) -> dict[str, Any]:
    """Choose the sentence whose fusedmax and oscarmax outputs are shorter than the others'.

    The shortest of the others exceeds the longer of these two the most.

    Raises:
        ResultsError: as :func:`gather_sentences`, or no run is labelled fusedmax or oscarmax.
    """
    _require(kept, SUMMARIES)

    def rank(sentence: ComparedSentence) -> tuple[int, ...]:
        return not _fits(sentence, longest), -_shorter(sentence), -len(sentence.source)

    return chosen_sentences(kept, prefer, rank, 1)


def longest_that_fits(longest: int) -> Rank:
    """Sources of at most so many symbols first, the longest of them first."""

    def rank(sentence: ComparedSentence) -> tuple[int, ...]:
        fits, size = _fits(sentence, longest), len(sentence.source)
        return not fits, -size if fits else size

    return rank


def remark_longer_summary(row: Row) -> str:
    """How long the outputs are, and whether that of fusedmax is not the longest."""
    (sentence,) = shown_sentences(row)
    label, _ = SUMMARIES
    holds = _longer(sentence) > 0
    doubt = "" if holds else f"In no stored sentence that fits, {label} says more than all others."
    return joined(_lengths(sentence), doubt, remark_attention_panels(row))


def remark_shorter_summary(row: Row) -> str:
    """How long the outputs are, and whether those of fusedmax and oscarmax are not the shortest."""
    (sentence,) = shown_sentences(row)
    both, holds = " and ".join(SUMMARIES), _shorter(sentence) > 0
    doubt = "" if holds else f"In no stored sentence that fits, {both} say less than all others."
    return joined(_lengths(sentence), doubt, remark_attention_panels(row))


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
