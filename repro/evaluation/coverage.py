r"""REP-score and DROP-score: words that a translation repeats, and words that it drops.

References:
    Malaviya et al. (2018), §5.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from repro.data.alignment import Links

Words = Sequence[str]


@dataclass(frozen=True)
class RatioScore:
    """A corpus score ``100 Σ numerators / Σ denominators``, with what each sentence adds.

    Attributes:
        numerators: one for each sentence.
        denominators: one for each sentence.
    """

    numerators: tuple[float, ...]
    denominators: tuple[float, ...]

    @property
    def value(self) -> float:
        """The score; 0 where nothing is counted at all."""
        total = sum(self.denominators)
        return 100.0 * sum(self.numerators) / total if total else 0.0

    @property
    def statistics(self) -> NDArray[np.float64]:
        """Numerator and denominator of each sentence, shape ``(sentences, 2)``."""
        return np.stack([np.array(self.numerators), np.array(self.denominators)], axis=1)


def rep_score(
    hypotheses: Sequence[Words],
    references: Sequence[Words],
    *,
    order: int = 2,
    ngram_weight: float = 1.0,
    word_weight: float = 2.0,
) -> RatioScore:
    r"""REP-score: repeated n-grams and words repeated in a row that the reference does not repeat.

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

    Raises:
        ValueError: the lists differ in length.

    References:
        Malaviya et al. (2018), §5; defaults n = 2, λ_1 = 1, λ_2 = 2.
    """
    sigmas = [
        ngram_weight * _excess(_ngrams(words, order), _ngrams(reference, order), least=2)
        + word_weight * _excess(_doubled(words), _doubled(reference), least=1)
        for words, reference in zip(hypotheses, references, strict=True)
    ]
    return RatioScore(tuple(sigmas), tuple(float(len(reference)) for reference in references))


def _ngrams(words: Words, order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[k : k + order]) for k in range(len(words) - order + 1))


def _doubled(words: Words) -> Counter[tuple[str, ...]]:
    """How often each word follows itself."""
    return Counter((first,) for first, second in pairwise(words) if first == second)


def _excess(ours: Counter[tuple[str, ...]], gold: Counter[tuple[str, ...]], least: int) -> int:
    return sum(max(0, count - gold[key]) for key, count in ours.items() if count >= least)


def drop_score(to_hypothesis: Sequence[Links], to_reference: Sequence[Links]) -> RatioScore:
    r"""DROP-score: source words that align to the reference but not to the translation.

    .. math:: 100 \, \frac{\sum |R \setminus T|}{\sum |R|}

    ``R`` and ``T`` are the source positions with a link to the reference and to the translation.

    Args:
        to_hypothesis: links of every source sentence to its translation.
        to_reference: links of every source sentence to its reference.

    Raises:
        ValueError: the lists differ in length.

    References:
        Malaviya et al. (2018), §5.
    """
    dropped, aligned = [], []
    for ours, gold in zip(to_hypothesis, to_reference, strict=True):
        wanted = {j for j, _ in gold}
        dropped.append(float(len(wanted - {j for j, _ in ours})))
        aligned.append(float(len(wanted)))
    return RatioScore(tuple(dropped), tuple(aligned))
