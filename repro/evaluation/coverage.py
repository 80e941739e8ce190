r"""REP-score and DROP-score: words that a translation repeats, and words that it drops.

References:
    Malaviya et al. (2018), §5.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from repro.data.pair import Links
from repro.evaluation.bleu import ngrams
from repro.evaluation.sufficient_statistics import ratios

Words = Sequence[str]


def rep_counts(
    hypotheses: Sequence[Words],
    references: Sequence[Words],
    *,
    order: int = 2,
    ngram_weight: float = 1.0,
    word_weight: float = 2.0,
) -> NDArray[np.float64]:
    r"""Count repeated n-grams and doubled words that are absent from the reference.

    .. math:: \sigma = \lambda_1 \sum_{s \in V^n,\, t(s) \ge 2} \max\{0, t(s) - r(s)\}
              + \lambda_2 \sum_{w \in V} \max\{0, t(ww) - r(ww)\}

    ``t`` and ``r`` count in the translation and in the reference. The sum of ``σ`` over
    sentences is divided by the number of reference words and multiplied by 100.

    Args:
        hypotheses: translations, tokenised.
        references: their references, tokenised.
        order: ``n``.
        ngram_weight: ``λ_1``.
        word_weight: ``λ_2``.

    Returns:
        ``σ`` and the number of reference words of each sentence, shape ``(sentences, 2)``.

    Raises:
        ValueError: the lists differ in length.

    References:
        Malaviya et al. (2018), §5; defaults n = 2, λ_1 = 1, λ_2 = 2.
    """
    sigmas = [
        ngram_weight * _excess(ngrams(words, order), ngrams(reference, order), least=2)
        + word_weight * _excess(_doubled(words), _doubled(reference), least=1)
        for words, reference in zip(hypotheses, references, strict=True)
    ]
    return ratios(sigmas, [len(reference) for reference in references])


def _doubled(words: Words) -> Counter[tuple[str, ...]]:
    """Count how often each word follows itself."""
    return Counter((first,) for first, second in pairwise(words) if first == second)


def _excess(ours: Counter[tuple[str, ...]], gold: Counter[tuple[str, ...]], least: int) -> int:
    return sum(max(0, count - gold[key]) for key, count in ours.items() if count >= least)


def drop_counts(
    to_hypothesis: Sequence[Links], to_reference: Sequence[Links]
) -> NDArray[np.float64]:
    r"""Count source words that align to the reference but not to the translation.

    .. math:: 100 \, \frac{\sum |R \setminus T|}{\sum |R|}

    ``R`` and ``T`` are the source positions with a link to the reference and to the translation.

    Args:
        to_hypothesis: links of every source sentence to its translation.
        to_reference: links of every source sentence to its reference.

    Returns:
        ``|R \ T|`` and ``|R|`` of each sentence, shape ``(sentences, 2)``.

    Raises:
        ValueError: the lists differ in length.

    References:
        Malaviya et al. (2018), §5.
    """
    dropped, aligned = [], []
    for ours, gold in zip(to_hypothesis, to_reference, strict=True):
        wanted = {j for j, _ in gold}
        dropped.append(len(wanted - {j for j, _ in ours}))
        aligned.append(len(wanted))
    return ratios(dropped, aligned)
