r"""ROUGE of summaries against one or several references.

ROUGE-1, ROUGE-2 and ROUGE-L come from the library ``rouge-score``; ROUGE-W is computed here from
the same tokens, by the formula of ROUGE-1.5.5. It is not that program, which bootstraps over
summaries, has its own Porter stemmer and stop list, sums n-gram counts over references before it
divides, and keeps hyphens. Here each reference gives a score of its own, and these are averaged (or
the best is taken).

References:
    Lin (2004), ROUGE: a package for automatic evaluation of summaries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from statistics import fmean

from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import DefaultTokenizer

KINDS = ("rouge1", "rouge2", "rougeL", "rougeW1.2")
_FROM_LIBRARY = ("rouge1", "rouge2", "rougeL")
_WEIGHT = 1.2


@dataclass(frozen=True)
class Overlap:
    """Precision, recall and their harmonic mean, in percent."""

    precision: float
    recall: float
    fmeasure: float


@dataclass(frozen=True)
class RougeSettings:
    """Choices that change the numbers.

    Attributes:
        stemming: stem words of more than three letters (Porter).
        max_bytes: summaries are cut to this many bytes of UTF-8 first; ``None`` for no cut.
        best_reference: take the reference with the largest F instead of the average.
    """

    stemming: bool = True
    max_bytes: int | None = None
    best_reference: bool = False

    @property
    def signature(self) -> str:
        """The settings and the library's version, to be printed below a table."""
        cut = "no" if self.max_bytes is None else str(self.max_bytes)
        references = "best" if self.best_reference else "average"
        return (
            f"stem:{'yes' if self.stemming else 'no'}|bytes:{cut}|refs:{references}"
            f"|rouge-score:{version('rouge-score')}"
        )


def rouge(
    summaries: Sequence[str],
    references: Sequence[Sequence[str]],
    settings: RougeSettings | None = None,
) -> dict[str, list[Overlap]]:
    """Score every summary.

    Args:
        summaries: one text each.
        references: one or more texts for each summary.
        settings: stemming, truncation, several references.

    Returns:
        For each of :data:`KINDS` the scores of all summaries; their means are the corpus scores.

    Raises:
        ValueError: the lists differ in length, or a summary has no reference.
    """
    settings = settings or RougeSettings()
    scorer = RougeScorer(list(_FROM_LIBRARY), use_stemmer=settings.stemming)
    tokenizer = DefaultTokenizer(settings.stemming)
    scores: dict[str, list[Overlap]] = {kind: [] for kind in KINDS}
    for number, (text, gold) in enumerate(zip(summaries, references, strict=True), start=1):
        if not gold:
            raise ValueError(f"summary {number} has no reference")
        cut = truncated(text, settings.max_bytes)
        each = [_score_pair(scorer, tokenizer, cut, reference) for reference in gold]
        for kind in KINDS:
            scores[kind].append(_combine([pair[kind] for pair in each], settings.best_reference))
    return scores


def corpus_rouge(scores: Mapping[str, Sequence[Overlap]]) -> dict[str, Overlap]:
    """Means over summaries.

    Args:
        scores: what :func:`rouge` returns.
    """
    return {kind: _mean(values) for kind, values in scores.items()}


def truncated(text: str, max_bytes: int | None) -> str:
    """The first bytes of a text; a character that is cut in two is left out.

    References:
        DUC 2004, task 1: summaries of at most 75 bytes.
    """
    if max_bytes is None:
        return text
    return text.encode()[:max_bytes].decode(errors="ignore")


def _score_pair(
    scorer: RougeScorer, tokenizer: DefaultTokenizer, text: str, reference: str
) -> dict[str, Overlap]:
    found = scorer.score(reference, text)
    overlaps = {kind: _percent(found[kind].precision, found[kind].recall) for kind in _FROM_LIBRARY}
    return overlaps | {
        "rougeW1.2": weighted_lcs_overlap(tokenizer.tokenize(text), tokenizer.tokenize(reference))
    }


def weighted_lcs_overlap(
    words: Sequence[str], reference: Sequence[str], weight: float = _WEIGHT
) -> Overlap:
    r"""ROUGE-W as ROUGE-1.5.5 counts it: a common subsequence whose words in a row count for more.

    .. math:: P = \frac{W^{1/w}}{n}, \qquad R = \frac{W^{1/w}}{m^w}

    A run of ``k`` common words adds ``k^w`` to ``W``; ``n`` and ``m`` are the lengths of the
    summary and the reference. Lin (2004) has :math:`R = W^{1/w} / m`; the program, whose numbers
    papers print, weighs the length of the reference, so that even equal texts fall short of one
    hundred.

    References:
        Lin (2004), §5; for the program, a pair that it scored: 26 words of reference, 74 of
        summary, twelve in common, recall 0.18732, precision 0.12627.
    """
    if not words or not reference:
        return Overlap(0.0, 0.0, 0.0)
    hits = _weighted_lcs(words, reference, weight) ** (1 / weight)
    return _percent(hits / len(words), hits / len(reference) ** weight)


def _weighted_lcs(words: Sequence[str], reference: Sequence[str], weight: float) -> float:
    above_mass, above_run = [0.0] * (len(reference) + 1), [0] * (len(reference) + 1)
    for word in words:
        mass, run = [0.0], [0]
        for j, other in enumerate(reference):
            if word == other:
                length = above_run[j]
                mass.append(above_mass[j] + (length + 1) ** weight - length**weight)
                run.append(length + 1)
            else:
                mass.append(max(above_mass[j + 1], mass[j]))
                run.append(0)
        above_mass, above_run = mass, run
    return above_mass[-1]


def _percent(precision: float, recall: float) -> Overlap:
    total = precision + recall
    fmeasure = 2 * precision * recall / total if total else 0.0
    return Overlap(100 * precision, 100 * recall, 100 * fmeasure)


def _combine(scores: Sequence[Overlap], best: bool) -> Overlap:
    return max(scores, key=lambda score: score.fmeasure) if best else _mean(scores)


def _mean(scores: Sequence[Overlap]) -> Overlap:
    return Overlap(
        fmean(score.precision for score in scores),
        fmean(score.recall for score in scores),
        fmean(score.fmeasure for score in scores),
    )
