"""Metrics of summarization: ROUGE of summaries truncated to 75 bytes, and of whole ones.

The counts of ROUGE-1, ROUGE-2 and ROUGE-L come from the library ``rouge-score``; those of ROUGE-W
are computed here from the same tokens. As in ROUGE-1.5.5 the counts of all references are summed
before they are divided. Other parts of that program are not reproduced: it bootstraps over
summaries, has its own Porter stemmer and stop list, and keeps hyphens. On DUC 2004, with the first
75 bytes of the input as summary, its F scores and these differ by at most 0.01.

References:
    Lin (2004), ROUGE: a package for automatic evaluation of summaries.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from itertools import groupby
from typing import NamedTuple, Self

from repro.evaluation.metrics.metric import Metric, signature
from repro.evaluation.sufficient_statistics import Statistics, mean_of_sums, ratios

MAX_BYTES = 75
"""Largest length of a summary in DUC 2004, task 1."""
_FROM_LIBRARY = ("rouge1", "rouge2", "rougeL")
KINDS = (*_FROM_LIBRARY, "rougeW1.2")
_WEIGHT = 1.2


class Counts(NamedTuple):
    """Matches of a summary with one reference, and the sizes of both texts, in the same units."""

    hits: float
    summary: float
    reference: float


@dataclass(frozen=True)
class Overlap:
    """Precision, recall and their harmonic mean, in percent."""

    precision: float
    recall: float
    fmeasure: float

    @classmethod
    def pooled(cls, counts: Iterable[Counts], weight: float = 1.0) -> Self:
        r"""Divide the sums of counts over all references.

        .. math:: P = \Bigl(\frac{\sum_r h_r}{\sum_r n_r}\Bigr)^{1/w}, \qquad
            R = \Bigl(\frac{\sum_r h_r}{\sum_r m_r}\Bigr)^{1/w}
        """
        hits, summary, reference = map(sum, zip(*counts, strict=True))
        precision = (hits / summary) ** (1 / weight) if summary else 0.0
        recall = (hits / reference) ** (1 / weight) if reference else 0.0
        total = precision + recall
        fmeasure = 2 * precision * recall / total if total else 0.0
        return cls(100 * precision, 100 * recall, 100 * fmeasure)


def rouge(
    summaries: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    max_bytes: int | None = None,
    stemming: bool = True,
) -> dict[str, list[Overlap]]:
    """Compute each of :data:`KINDS` of ROUGE for every summary, from one or more references.

    Summaries and references are truncated to ``max_bytes`` bytes of UTF-8, like option ``-b`` of
    ROUGE-1.5.5, unless that is ``None``. ``stemming`` stems words of more than three letters
    (Porter).

    Raises:
        ValueError: the lists differ in length, or a summary has no reference.
    """
    from rouge_score.rouge_scorer import RougeScorer  # imports NLTK: slow
    from rouge_score.tokenizers import DefaultTokenizer

    scorer = RougeScorer(list(_FROM_LIBRARY), use_stemmer=stemming)
    tokenizer = DefaultTokenizer(stemming)
    scores: dict[str, list[Overlap]] = {kind: [] for kind in KINDS}
    for number, (text, gold) in enumerate(zip(summaries, references, strict=True), start=1):
        if not gold:
            raise ValueError(f"summary {number} has no reference")
        cut, *cut_gold = (truncated(each, max_bytes) for each in (text, *gold))
        words = tokenizer.tokenize(cut)
        found: dict[str, list[Counts]] = {kind: [] for kind in KINDS}
        for reference in cut_gold:
            expected = tokenizer.tokenize(reference)
            for kind, one in scorer.score(reference, cut).items():
                order = 2 if kind == "rouge2" else 1
                sizes = [max(len(tokens) - order + 1, 0) for tokens in (words, expected)]
                found[kind].append(Counts(round(one.precision * sizes[0]), *sizes))
            found["rougeW1.2"].append(weighted_lcs(words, expected))
        for kind, counts in found.items():
            weight = _WEIGHT if kind == "rougeW1.2" else 1.0
            scores[kind].append(Overlap.pooled(counts, weight))
    return scores


def truncated(text: str, max_bytes: int | None) -> str:
    """Truncate a text to ``max_bytes`` bytes of UTF-8, even inside a word.

    A character that would be split is dropped. ROUGE-1.5.5 keeps its first bytes, but reads every
    byte outside ASCII as a space.

    References:
        DUC 2004, task 1: summaries of at most 75 bytes.
    """
    if max_bytes is None:
        return text
    return text.encode()[:max_bytes].decode(errors="ignore")


def weighted_lcs(words: Sequence[str], reference: Sequence[str], weight: float = _WEIGHT) -> Counts:
    r"""Count for ROUGE-W, which rewards consecutive common words, as ROUGE-1.5.5 does.

    .. math:: h = \sum_k k^w, \qquad n = |s|^w, \qquad m = |r|^{w \cdot w}

    The sum is over runs of ``k`` consecutive words of the reference ``r`` that are common words.
    These are the words of a weighted longest common subsequence with the summary ``s``, whose own
    runs are consecutive in both texts. Lin (2004) has :math:`R = h^{1/w} / |r|`; the program, whose
    numbers papers print, raises the length of the reference to the power ``w`` once more, so that
    even equal texts of several words score below 100.

    References:
        Lin (2004), §5; ROUGE-1.5.5, option ``-w``.
    """
    common = {place for place, _ in common_words(words, reference, weight)}
    runs = groupby(place in common for place in range(len(reference)))
    hits = sum(sum(run) ** weight for one, run in runs if one)
    return Counts(hits, len(words) ** weight, len(reference) ** (weight * weight))


def common_words(
    words: Sequence[str], reference: Sequence[str], weight: float = 1.0
) -> list[tuple[int, int]]:
    """Return the places (reference, summary) of a weighted longest common subsequence, last first.

    ``mass[i][j]`` is the score of the first ``i`` reference and ``j`` summary words; ``runs[j]`` is
    the length of the run of matches that ends there. As in ROUGE-1.5.5, equal words are always
    matched and ties drop a word of the reference, which decides between several subsequences.
    """
    mass = [[0.0] * (len(words) + 1) for _ in range(len(reference) + 1)]
    runs = [0] * (len(words) + 1)
    for i, expected in enumerate(reference, start=1):
        above, runs = runs, [0] * (len(words) + 1)
        for j, word in enumerate(words, start=1):
            if word == expected:
                run = above[j - 1]
                mass[i][j] = mass[i - 1][j - 1] + (run + 1) ** weight - run**weight
                runs[j] = run + 1
            else:
                mass[i][j] = max(mass[i - 1][j], mass[i][j - 1])
    pairs, i, j = list[tuple[int, int]](), len(reference), len(words)
    while i and j:
        if reference[i - 1] == words[j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif mass[i - 1][j] >= mass[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return pairs


@dataclass(frozen=True)
class Summaries:
    """Summaries of a split with all references of each."""

    summaries: Sequence[str]
    references: Sequence[Sequence[str]]
    _known: dict[int | None, dict[str, list[Overlap]]] = field(default_factory=dict, repr=False)

    def rouge(self, max_bytes: int | None) -> dict[str, list[Overlap]]:
        """Compute every kind of ROUGE for each summary, once per ``max_bytes``."""
        if max_bytes not in self._known:
            self._known[max_bytes] = rouge(self.summaries, self.references, max_bytes=max_bytes)
        return self._known[max_bytes]


def _rouge(kind: str, part: str, max_bytes: int | None, texts: Summaries) -> Statistics:
    return Statistics(ratios([getattr(one, part) for one in texts.rouge(max_bytes)[kind]]))


_COMMON = f"stem:yes|refs:pooled|rouge-score:{version('rouge-score')}"
_KINDS = [
    ("rouge1", "rouge1", "fmeasure", "f1", "F score of ROUGE-1"),
    ("rouge2", "rouge2", "fmeasure", "f1", "F score of ROUGE-2"),
    ("rougeL", "rougeL", "fmeasure", "f1", "F score of ROUGE-L"),
    ("rougeW", "rougeW1.2", "fmeasure", "f1|wlcs:rouge-1.5.5",
     "F score of ROUGE-W with weight 1.2"),
    ("rougeL_precision", "rougeL", "precision", "precision", "Precision of ROUGE-L"),
    ("rougeL_recall", "rougeL", "recall", "recall", "Recall of ROUGE-L"),
]  # fmt: skip
_CUTS = {
    "": (MAX_BYTES, "75|cut:both", "summaries; these and references are cut to 75 bytes"),
    "_whole": (None, "no", "whole summaries"),
}
METRICS = tuple(
    Metric(
        name + suffix, "%", 2, True,
        signature(name.split("_")[0], f"score:{score}|bytes:{cut}|{_COMMON}"),
        f"{words}, mean over {summaries}.",
        from_sums=mean_of_sums, outputs=Summaries,
        statistics=partial(_rouge, kind, part, max_bytes),
    )
    for suffix, (max_bytes, cut, summaries) in _CUTS.items()
    for name, kind, part, score, words in _KINDS
)  # fmt: skip
