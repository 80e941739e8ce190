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


def bleu_of_statistics(sums: NDArray[np.int64]) -> float:
    """BLEU of summed counts, as significance tests need it for many samples.

    Args:
        sums: the sum of rows of :attr:`BleuScore.statistics`.
    """
    lengths, counts = sums[:2].tolist(), sums[2:].tolist()
    score = BLEU.compute_bleu(
        correct=counts[:MAX_ORDER],
        total=counts[MAX_ORDER:],
        sys_len=lengths[0],
        ref_len=lengths[1],
        smooth_method="exp",
    )
    return float(score.score)


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
