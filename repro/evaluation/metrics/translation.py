"""Translation: BLEU, repeated words (REP-score) and dropped words (DROP-score), METEOR."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.data.pair import Links
from repro.evaluation.bleu import bleu_of_statistics, ngrams, plain_counts, token_counts
from repro.evaluation.meteor import LANGUAGE, meteor_nltk, meteor_of_statistics, meteor_statistics
from repro.evaluation.metrics.metric import Metric, signature
from repro.evaluation.sufficient_statistics import Statistics, percentage_of_sums, ratios

Words = Sequence[str]


@dataclass(frozen=True)
class Translations:
    """Translations of a split with what they are compared with.

    Attributes:
        hypotheses: words of each translation.
        references: words of each reference.
        language: target language.
        sources: words of each source.
        align: links of sources to translations or references, of a trained aligner.
        plain: translations and references as a reader would see them; ``None`` for a corpus that
            is published tokenised.
        meteor_jar: program of METEOR 1.5, if there is one.
    """

    hypotheses: Sequence[Words]
    references: Sequence[Words]
    language: str = ""
    sources: Sequence[Words] = ()
    align: Callable[[Sequence[Words], Sequence[Words]], list[Links]] | None = None
    plain: tuple[Sequence[str], Sequence[str]] | None = None
    meteor_jar: Path | None = None

    @property
    def lines(self) -> tuple[list[str], list[str]]:
        """Hypotheses and references, words joined by spaces."""
        ours, gold = (
            [" ".join(one) for one in side] for side in (self.hypotheses, self.references)
        )
        return ours, gold


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


def _bleu(lowercase: bool, texts: Translations) -> Statistics:
    return Statistics(token_counts(*texts.lines, lowercase=lowercase).astype(float))


_MULTI_BLEU = "smooth:none|program:multi-bleu"
_SACREBLEU = f"smooth:exp|sacrebleu:{version('sacrebleu')}"

METRICS = (
    Metric(
        "bleu", "", 2, True, signature("bleu", f"tok:none|case:mixed|{_MULTI_BLEU}"),
        "BLEU of tokens as they are, as multi-bleu.perl counts it.",
        of_sums=bleu_of_statistics, reads=Translations, statistics=partial(_bleu, False),
    ),
    Metric(
        "bleu_lc", "", 2, True, signature("bleu", f"tok:none|case:lc|{_MULTI_BLEU}"),
        "BLEU of tokens in lower case, as multi-bleu.perl -lc counts it.",
        of_sums=bleu_of_statistics, reads=Translations, statistics=partial(_bleu, True),
    ),
    Metric(
        "bleu_13a", "", 2, True, signature("bleu", f"tok:13a|case:lc|{_SACREBLEU}"),
        "BLEU of plain text in lower case.",
        of_sums=partial(bleu_of_statistics, smoothed=True), reads=Translations,
        statistics=lambda texts: None if texts.plain is None else Statistics(
            plain_counts(*texts.plain, lowercase=True).astype(float)
        ),
    ),
    Metric(
        "rep", "", 2, False, signature("rep", "n:2|ngrams:1|words:2"),
        "REP-score: repetitions absent from the reference, per 100 reference words.",
        of_sums=percentage_of_sums, reads=Translations,
        statistics=lambda texts: Statistics(rep_counts(texts.hypotheses, texts.references)),
    ),
    Metric(
        "drop", "%", 2, False, signature("drop", "aligner:fast_align|symmetry:grow-diag-final-and"),
        "DROP-score: source words aligned to the reference but not to the translation.",
        of_sums=percentage_of_sums, reads=Translations,
        statistics=lambda texts: None if texts.align is None else Statistics(
            drop_counts(
                texts.align(texts.sources, texts.hypotheses),
                texts.align(texts.sources, texts.references),
            )
        ),
    ),
    Metric(
        "meteor", "", 2, True, signature("meteor", "program:meteor-1.5|norm:no"),
        "METEOR 1.5 by its own program.",
        of_sums=meteor_of_statistics, reads=Translations,
        statistics=lambda texts: Statistics(meteor_statistics(*texts.lines, jar=texts.meteor_jar))
        if texts.meteor_jar is not None and texts.language == LANGUAGE else None,
    ),
    Metric(
        "meteor_nltk", "", 2, True,
        signature("meteor_nltk", f"modules:exact,stem|mean:sentence|nltk:{version('nltk')}"),
        "METEOR of 2007 by NLTK, without synonyms, mean over sentences; not METEOR 1.5.",
        of_sums=percentage_of_sums, reads=Translations,
        statistics=lambda texts: Statistics(meteor_nltk(texts.hypotheses, texts.references))
        if texts.language == LANGUAGE else None,
    ),
)  # fmt: skip
