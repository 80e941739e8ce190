"""BLEU of tokens, as ``multi-bleu.perl`` counts it, and of plain text, by sacrebleu.

References:
    Papineni et al. (2002); Post (2018), A call for clarity in reporting BLEU scores.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

MAX_ORDER = 4
_LONGEST = 9999
"""Largest difference of lengths that ``multi-bleu.perl`` looks for, and its default length."""


@dataclass(frozen=True)
class BleuScore:
    """BLEU of a corpus.

    Attributes:
        value: in percent.
        signature: every choice that changes the number.
        statistics: for each sentence the counts that BLEU sums, shape ``(sentences, 2 + 2 * 4)``:
            lengths of translation and reference, matches and totals of n-grams.
    """

    value: float
    signature: str
    statistics: NDArray[np.int64]


def tokenised_bleu(
    hypotheses: Sequence[str], references: Sequence[str | Sequence[str]], *, lowercase: bool = False
) -> BleuScore:
    """BLEU of tokenised text, equal to ``multi-bleu.perl`` (Moses).

    The program reads bytes: tokens are separated by ASCII whitespace only, and ``-lc`` lower-cases
    the letters A to Z only, in every locale. It does not smooth: without a common 4-gram, BLEU is
    0. The length of the closest reference counts, the shorter one of two. Empty translations have
    BLEU 0, where the program stops with a division by zero.

    Args:
        hypotheses: translations, tokenised like the references.
        references: one text or several for each translation.
        lowercase: ignore case, as ``multi-bleu.perl -lc``.

    Raises:
        ValueError: the lists differ in length or are empty.
    """
    _check_lengths(hypotheses, references)
    pairs = [
        (_tokens(text, lowercase), [_tokens(each, lowercase) for each in _texts(gold)])
        for text, gold in zip(hypotheses, references, strict=True)
    ]
    statistics = np.array([_counts(words, gold) for words, gold in pairs], np.int64)
    case = "lc" if lowercase else "mixed"
    signature = f"case:{case}|tok:none|smooth:none|program:multi-bleu"
    return BleuScore(float(bleu_of_statistics(statistics.sum(0))), signature, statistics)


def detokenised_bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False
) -> BleuScore:
    """BLEU of plain text with sacrebleu's own tokenisation (13a).

    Args:
        hypotheses: translations as a reader would see them.
        references: one for each.
        lowercase: ignore case.

    Raises:
        ValueError: the lists differ in length or are empty.
    """
    return _score(BLEU(lowercase=lowercase), hypotheses, references)


def bleu_of_statistics(sums: NDArray[np.number], *, smoothed: bool = False) -> NDArray[np.float64]:
    r"""BLEU in percent of summed counts, as significance tests need it for many samples.

    .. math:: 100 \, \min\{1, e^{1 - r/c}\} \prod_{n=1}^4 p_n^{1/4}

    ``c`` and ``r`` are the lengths of translations and references, and :math:`p_n` is the share of
    n-grams that match. BLEU is 0 if some order has no match.

    Args:
        sums: sums of rows of :attr:`BleuScore.statistics`, shape ``(..., 2 + 2 * 4)``.
        smoothed: an order without a match has :math:`p_n = 1 / (2^k t_n)` instead of 0, where
            ``t_n`` counts its n-grams and ``k`` the orders up to it without a match (sacrebleu's
            ``smooth:exp``). BLEU is then 0 if no order has a match, or one has no n-gram.

    Returns:
        Shape ``(...)``.

    References:
        Papineni et al. (2002), §2.3; Chen & Cherry (2014), smoothing 3.
    """
    counts = np.asarray(sums, np.float64)
    ours, theirs = counts[..., 0], counts[..., 1]
    matches, totals = counts[..., 2 : 2 + MAX_ORDER], counts[..., 2 + MAX_ORDER :]
    found = matches > 0
    defined = (found.any(-1) if smoothed else found.all(-1)) & (totals > 0).all(-1)
    halvings = np.cumsum(matches == 0, axis=-1)
    shares = np.where(matches == 0, 0.5**halvings, matches)
    with np.errstate(divide="ignore", invalid="ignore"):
        brevity = np.minimum(0.0, 1.0 - theirs / ours)
        logarithms = np.log(shares / totals).mean(-1)
        return np.where(defined, 100.0 * np.exp(brevity + logarithms), 0.0)


def _check_lengths(hypotheses: Sequence[str], references: Sequence[object]) -> None:
    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError(
            f"expected as many translations as references and at least one, got "
            f"{len(hypotheses)} and {len(references)}"
        )


def _texts(references: str | Sequence[str]) -> Sequence[str]:
    return [references] if isinstance(references, str) else references


def _tokens(text: str, lowercase: bool) -> list[bytes]:
    """Split at ASCII whitespace; methods of ``bytes`` know no other, and no other letters."""
    content = text.encode()
    return (content.lower() if lowercase else content).split()


def _counts(words: Sequence[bytes], references: Sequence[Sequence[bytes]]) -> list[int]:
    """Lengths of a translation and its closest reference, matches and totals of n-grams."""
    lengths = [(abs(len(words) - len(gold)), len(gold)) for gold in references]
    _, closest = min([*lengths, (_LONGEST, _LONGEST)])
    matches, totals = [], []
    for order in range(1, MAX_ORDER + 1):
        found = _ngrams(words, order)
        wanted: Counter[tuple[bytes, ...]] = Counter()
        for gold in references:
            wanted |= _ngrams(gold, order)
        matches.append((found & wanted).total())
        totals.append(found.total())
    return [len(words), closest, *matches, *totals]


def _ngrams(words: Sequence[bytes], order: int) -> Counter[tuple[bytes, ...]]:
    return Counter(tuple(words[k : k + order]) for k in range(len(words) - order + 1))


def _score(metric: BLEU, hypotheses: Sequence[str], references: Sequence[str]) -> BleuScore:
    _check_lengths(hypotheses, references)
    score = metric.corpus_score(list(hypotheses), [list(references)])
    rows = [_statistics(metric, *pair) for pair in zip(hypotheses, references, strict=True)]
    signature = str(metric.get_signature())
    return BleuScore(float(score.score), signature, np.array(rows, np.int64))


def _statistics(metric: BLEU, hypothesis: str, reference: str) -> list[int]:
    score = metric.corpus_score([hypothesis], [[reference]])
    return [score.sys_len, score.ref_len, *score.counts, *score.totals]
