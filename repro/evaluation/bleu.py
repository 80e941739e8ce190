"""BLEU of tokens, as ``multi-bleu.perl`` counts it, and of plain text, by sacrebleu.

References:
    Papineni et al. (2002); Post (2018), A call for clarity in reporting BLEU scores.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

WordT = TypeVar("WordT", str, bytes)
MAX_ORDER = 4
_LONGEST = 9999
"""Largest difference of lengths that ``multi-bleu.perl`` looks for, and its default length."""


def token_counts(
    hypotheses: Sequence[str], references: Sequence[str | Sequence[str]], *, lowercase: bool = False
) -> NDArray[np.int64]:
    """Count n-grams of tokenised text as ``multi-bleu.perl`` (Moses) does.

    The program reads bytes: tokens are separated by ASCII whitespace only, and ``-lc`` lower-cases
    the letters A to Z only, in every locale. It does not smooth: without a common 4-gram, BLEU is
    0. The length of the closest reference counts, the shorter one of two. Empty translations have
    BLEU 0, where the program stops with a division by zero.

    Args:
        hypotheses: translations, tokenised like the references.
        references: one text or several for each translation.
        lowercase: ignore case, as ``multi-bleu.perl -lc``.

    Returns:
        Shape ``(sentences, 2 + 2 * 4)``: lengths of translation and closest reference, matches and
        totals of n-grams, whose sums :func:`bleu_of_statistics` takes.

    Raises:
        ValueError: the lists differ in length or are empty.
    """
    _check_lengths(hypotheses, references)
    rows = []
    for text, gold in zip(hypotheses, references, strict=True):
        words = _tokens(text, lowercase)
        texts = [_tokens(one, lowercase) for one in ([gold] if isinstance(gold, str) else gold)]
        lengths = [(abs(len(words) - len(one)), len(one)) for one in texts]
        _, closest = min([*lengths, (_LONGEST, _LONGEST)])
        matches, totals = [], []
        for order in range(1, MAX_ORDER + 1):
            found = ngrams(words, order)
            wanted: Counter[tuple[bytes, ...]] = Counter()
            for one in texts:
                wanted |= ngrams(one, order)
            matches.append((found & wanted).total())
            totals.append(found.total())
        rows.append([len(words), closest, *matches, *totals])
    return np.array(rows, np.int64)


def plain_counts(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False
) -> NDArray[np.int64]:
    """Count n-grams of plain text with sacrebleu's own tokenisation (13a).

    Args:
        hypotheses: translations as a reader would see them.
        references: one for each.
        lowercase: ignore case.

    Returns:
        As :func:`token_counts`; sacrebleu's BLEU is ``bleu_of_statistics(sums, smoothed=True)``.

    Raises:
        ValueError: the lists differ in length or are empty.
    """
    _check_lengths(hypotheses, references)
    metric, rows = BLEU(lowercase=lowercase), []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        score = metric.corpus_score([hypothesis], [[reference]])
        rows.append([score.sys_len, score.ref_len, *score.counts, *score.totals])
    return np.array(rows, np.int64)


def bleu_of_statistics(sums: NDArray[np.number], *, smoothed: bool = False) -> NDArray[np.float64]:
    r"""BLEU in percent of summed counts.

    .. math:: 100 \, \min\{1, e^{1 - r/c}\} \prod_{n=1}^4 p_n^{1/4}

    ``c`` and ``r`` are the lengths of translations and references, and :math:`p_n` is the share of
    n-grams that match. BLEU is 0 if some order has no match.

    Args:
        sums: sums of rows of :func:`token_counts`, shape ``(..., 2 + 2 * 4)``.
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


def _tokens(text: str, lowercase: bool) -> list[bytes]:
    """Split at ASCII whitespace; methods of ``bytes`` know no other, and no other letters."""
    content = text.encode()
    return (content.lower() if lowercase else content).split()


def ngrams(words: Sequence[WordT], order: int) -> Counter[tuple[WordT, ...]]:
    """Count the n-grams of one order."""
    return Counter(tuple(words[k : k + order]) for k in range(len(words) - order + 1))
