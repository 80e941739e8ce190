"""BLEU, by sacrebleu: of tokens as they are (what the papers report), and of plain text.

References:
    Papineni et al. (2002); Post (2018), A call for clarity in reporting BLEU scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

MAX_ORDER = 4


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
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False
) -> BleuScore:
    """BLEU of texts whose tokens are parted by spaces, as ``multi-bleu.perl`` counts it.

    Args:
        hypotheses: translations, tokenised like the references.
        references: one for each.
        lowercase: ignore case, as ``multi-bleu.perl -lc``.

    Raises:
        ValueError: the lists differ in length or are empty.
    """
    # sacrebleu warns of tokenised text unless it is told that this is meant.
    return _score(BLEU(tokenize="none", force=True, lowercase=lowercase), hypotheses, references)


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


def bleu_of_statistics(sums: NDArray[np.number]) -> NDArray[np.float64]:
    r"""BLEU in percent of summed counts, as significance tests need it for many samples.

    .. math:: 100 \, \min\{1, e^{1 - r/c}\} \prod_{n=1}^4 p_n^{1/4}

    ``c`` and ``r`` are the lengths of translations and references. An order without a match has
    :math:`p_n = 1 / (2^k t_n)`, where ``t_n`` counts its n-grams and ``k`` the orders up to it
    without a match (sacrebleu's ``smooth:exp``). Without any match, or any n-gram of one order,
    BLEU is 0.

    Args:
        sums: sums of rows of :attr:`BleuScore.statistics`, shape ``(..., 2 + 2 * 4)``.

    Returns:
        Shape ``(...)``.

    References:
        Papineni et al. (2002), §2.3; Chen & Cherry (2014), smoothing 3.
    """
    counts = np.asarray(sums, np.float64)
    ours, theirs = counts[..., 0], counts[..., 1]
    matches, totals = counts[..., 2 : 2 + MAX_ORDER], counts[..., 2 + MAX_ORDER :]
    defined = (matches > 0).any(-1) & (totals > 0).all(-1)
    halvings = np.cumsum(matches == 0, axis=-1)
    smoothed = np.where(matches == 0, 0.5**halvings, matches)
    with np.errstate(divide="ignore", invalid="ignore"):
        brevity = np.minimum(0.0, 1.0 - theirs / ours)
        logarithms = np.log(smoothed / totals).mean(-1)
        return np.where(defined, 100.0 * np.exp(brevity + logarithms), 0.0)


def _score(metric: BLEU, hypotheses: Sequence[str], references: Sequence[str]) -> BleuScore:
    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError(
            f"expected as many translations as references and at least one, got "
            f"{len(hypotheses)} and {len(references)}"
        )
    score = metric.corpus_score(list(hypotheses), [list(references)])
    rows = [_statistics(metric, *pair) for pair in zip(hypotheses, references, strict=True)]
    signature = str(metric.get_signature())
    return BleuScore(float(score.score), signature, np.array(rows, np.int64))


def _statistics(metric: BLEU, hypothesis: str, reference: str) -> list[int]:
    score = metric.corpus_score([hypothesis], [[reference]])
    return [score.sys_len, score.ref_len, *score.counts, *score.totals]
