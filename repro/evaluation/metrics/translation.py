"""Metrics of translation: BLEU, METEOR, repetitions (REP-score), dropped words (DROP-score).

References:
    Papineni et al. (2002); Post (2018), A call for clarity in reporting BLEU scores.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from repro.data.pair import Links
from repro.evaluation.meteor import LANGUAGE, meteor_nltk
from repro.evaluation.metrics.metric import Metric, signature
from repro.evaluation.sufficient_statistics import Statistics, percentage_of_sums, ratios

Words = Sequence[str]
WordT = TypeVar("WordT", str, bytes)
MAX_ORDER = 4


@dataclass(frozen=True)
class Translations:
    """Translations of a split, with references and further inputs of metrics.

    Attributes:
        hypotheses: words of each translation.
        references: words of each reference.
        language: target language.
        sources: words of each source.
        align: trained aligner, which links sources to translations or references, if available.
        plain: detokenized translations and references; ``None`` for a corpus that is published
            tokenized.
    """

    hypotheses: Sequence[Words]
    references: Sequence[Words]
    language: str = ""
    sources: Sequence[Words] = ()
    align: Callable[[Sequence[Words], Sequence[Words]], list[Links]] | None = None
    plain: tuple[Sequence[str], Sequence[str]] | None = None

    @property
    def lines(self) -> tuple[list[str], list[str]]:
        """Hypotheses and references with their words joined by spaces."""
        ours, gold = (
            [" ".join(one) for one in side] for side in (self.hypotheses, self.references)
        )
        return ours, gold


def token_counts(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False
) -> NDArray[np.int64]:
    """Count n-grams of tokenized text as ``multi-bleu.perl`` (Moses) does.

    The program reads bytes: tokens are separated by ASCII whitespace only, and ``-lc`` lower-cases
    the letters A to Z only, in every locale. It does not smooth: without a common 4-gram, BLEU is
    0. Empty translations have BLEU 0, where the program stops with a division by zero.

    Returns:
        Shape ``(sentences, 2 + 2 * 4)``: lengths of translation and reference, matches and totals
        of n-grams for each order; :func:`bleu_of_statistics` takes their sums.
    """
    rows = []
    for pair in zip(hypotheses, references, strict=True):
        words, reference = (_tokens(text, lowercase) for text in pair)
        matches, totals = [], []
        for order in range(1, MAX_ORDER + 1):
            found = ngrams(words, order)
            matches.append((found & ngrams(reference, order)).total())
            totals.append(found.total())
        rows.append([len(words), len(reference), *matches, *totals])
    return np.array(rows, np.int64)


def plain_counts(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False
) -> NDArray[np.int64]:
    """Count n-grams of detokenized text like sacrebleu (13a), in the form of :func:`token_counts`.

    sacrebleu's BLEU is ``bleu_of_statistics(sums, smoothed=True)``.
    """
    metric, rows = BLEU(lowercase=lowercase), []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        score = metric.corpus_score([hypothesis], [[reference]])
        rows.append([score.sys_len, score.ref_len, *score.counts, *score.totals])
    return np.array(rows, np.int64)


def bleu_of_statistics(sums: NDArray[np.number], *, smoothed: bool = False) -> NDArray[np.float64]:
    r"""Compute BLEU in percent from summed counts.

    .. math:: 100 \, \min\{1, e^{1 - r/c}\} \prod_{n=1}^4 p_n^{1/4}

    ``c`` and ``r`` are the lengths of translations and references, and :math:`p_n` is the share of
    matching n-grams. Unless smoothed, BLEU is 0 if some order has no match.

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


def _tokens(text: str, lowercase: bool) -> list[bytes]:
    """Split at ASCII whitespace; methods of ``bytes`` treat only ASCII as spaces and letters."""
    content = text.encode()
    return (content.lower() if lowercase else content).split()


def ngrams(words: Sequence[WordT], order: int) -> Counter[tuple[WordT, ...]]:
    """Count the n-grams of one order."""
    return Counter(tuple(words[k : k + order]) for k in range(len(words) - order + 1))


def rep_counts(
    hypotheses: Sequence[Words], references: Sequence[Words], *, as_printed: bool = False
) -> NDArray[np.float64]:
    r"""Count repeated bigrams and doubled words that are absent from the reference.

    .. math:: \sigma = \lambda_1 \sum_{s \in V^n,\, t(s) \ge 2} \max\{0, t(s) - r(s)\}
              + \lambda_2 \sum_{w \in V} \max\{0, t(ww) - r(ww)\}

    with n = 2, λ₁ = 1, λ₂ = 2. ``t`` and ``r`` count in the translation and in the reference;
    ``ww`` is a word that follows itself, as the paper's text says and its released script counts.
    The sum of ``σ`` over sentences is divided by the number of reference words and multiplied by
    100. ``as_printed`` takes the paper's formula to the letter, with ``t(w) - r(w)`` in the second
    sum, which counts every surplus word, repeated or not.

    Returns:
        ``σ`` and the number of reference words of each sentence, shape ``(sentences, 2)``.

    References:
        Malaviya et al. (2018), §5.
    """
    words_of = partial(ngrams, order=1) if as_printed else _doubled
    sigmas = [
        _excess(ngrams(words, 2), ngrams(reference, 2), least=2)
        + 2 * _excess(words_of(words), words_of(reference), least=1)
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

    Returns:
        ``|R \ T|`` and ``|R|`` of each sentence, shape ``(sentences, 2)``.

    References:
        Malaviya et al. (2018), §5.
    """
    dropped, aligned = [], []
    for ours, gold in zip(to_hypothesis, to_reference, strict=True):
        wanted = {j for j, _ in gold}
        dropped.append(len(wanted - {j for j, _ in ours}))
        aligned.append(len(wanted))
    return ratios(dropped, aligned)


def length_quartiles(sources: Sequence[Words]) -> list[str] | None:
    """Return the quarter of each source by its length, ``"q1"`` for the shortest.

    A length that equals a quartile belongs to the quarter below it, so that quarters may differ in
    size. Without sources, return ``None``.
    """
    if not sources:
        return None
    lengths = [len(words) for words in sources]
    quarters = np.searchsorted(np.quantile(lengths, [0.25, 0.5, 0.75]), lengths)
    return [f"q{number + 1}" for number in quarters]


def _bleu(lowercase: bool, texts: Translations) -> Statistics:
    return Statistics(token_counts(*texts.lines, lowercase=lowercase).astype(float))


_MULTI_BLEU = "smooth:none|program:multi-bleu"
_SACREBLEU = f"smooth:exp|sacrebleu:{version('sacrebleu')}"

METRICS = (
    Metric(
        "bleu", "", 2, True, signature("bleu", f"tok:none|case:mixed|{_MULTI_BLEU}"),
        "BLEU of tokens as they are, as multi-bleu.perl counts it.",
        from_sums=bleu_of_statistics, outputs=Translations, statistics=partial(_bleu, False),
    ),
    Metric(
        "bleu_lc", "", 2, True, signature("bleu", f"tok:none|case:lc|{_MULTI_BLEU}"),
        "BLEU of tokens in lower case, as multi-bleu.perl -lc counts it.",
        from_sums=bleu_of_statistics, outputs=Translations, statistics=partial(_bleu, True),
    ),
    Metric(
        "bleu_13a", "", 2, True, signature("bleu", f"tok:13a|case:lc|{_SACREBLEU}"),
        "BLEU of plain text in lower case.",
        from_sums=partial(bleu_of_statistics, smoothed=True), outputs=Translations,
        statistics=lambda texts: None if texts.plain is None else Statistics(
            plain_counts(*texts.plain, lowercase=True).astype(float)
        ),
    ),
    Metric(
        "rep", "", 2, False, signature("rep", "n:2|ngrams:1|words:2"),
        "REP-score: repetitions absent from the reference, per 100 reference words.",
        from_sums=percentage_of_sums, outputs=Translations, part="length", recorded="both",
        statistics=lambda texts: Statistics(
            rep_counts(texts.hypotheses, texts.references), parts=length_quartiles(texts.sources)
        ),
    ),
    Metric(
        "rep_printed", "", 2, False, signature("rep_printed", "n:2|formula:printed"),
        "REP-score by the formula that the paper prints, not by the released program.",
        from_sums=percentage_of_sums, outputs=Translations,
        statistics=lambda texts: Statistics(
            rep_counts(texts.hypotheses, texts.references, as_printed=True)
        ),
    ),
    Metric(
        "drop", "%", 2, False, signature("drop", "aligner:fast_align|symmetry:grow-diag-final-and"),
        "DROP-score: source words aligned to the reference but not to the translation.",
        from_sums=percentage_of_sums, outputs=Translations, part="length", recorded="both",
        statistics=lambda texts: None if texts.align is None else Statistics(
            drop_counts(
                texts.align(texts.sources, texts.hypotheses),
                texts.align(texts.sources, texts.references),
            ),
            parts=length_quartiles(texts.sources),
        ),
    ),
    Metric(
        "meteor", "", 2, True, signature("meteor", "program:meteor-1.5|norm:no"),
        "METEOR 1.5 by its own program.",
    ),
    Metric(
        "meteor_nltk", "", 2, True,
        signature("meteor_nltk", f"modules:exact,stem|mean:sentence|nltk:{version('nltk')}"),
        "METEOR of 2007 by NLTK, without synonyms, mean over sentences; not METEOR 1.5.",
        from_sums=percentage_of_sums, outputs=Translations,
        statistics=lambda texts: Statistics(meteor_nltk(texts.hypotheses, texts.references))
        if texts.language == LANGUAGE else None,
    ),
)  # fmt: skip
