"""One direction of the aligner: training by expectation maximisation, and best links."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.data.alignment import expectation
from repro.data.alignment.corpus import FlatCorpus, Pairs, WordNumbers, flatten, number_words
from repro.data.alignment.diagonal import best_tension, sentence_sizes
from repro.data.alignment.symmetry import Links
from repro.data.alignment.table import PairTable, collect_pairs

Progress = Callable[[int, float], None]
"""Called after each pass with its number and the log-likelihood per target word before it."""


@dataclass(frozen=True)
class AlignerSettings:
    """How an aligner is trained; the defaults are those of Dyer et al. (2013) and of fast_align.

    Attributes:
        passes: passes of expectation maximisation.
        null: probability ``p_0`` of a target word without a counterpart.
        tension: ``λ``, with which training starts.
        learn_tension: fit ``λ`` after every pass but the first.
        concentration: of the Dirichlet prior of translation probabilities; 0 for none.
    """

    passes: int = 5
    null: float = 0.08
    tension: float = 4.0
    learn_tension: bool = True
    concentration: float = 0.01

    def __post_init__(self) -> None:
        """Refuse settings without meaning."""
        if self.passes < 1 or not 0 < self.null < 1 or self.concentration < 0:
            raise ValueError(
                f"expected passes >= 1, 0 < null < 1 and concentration >= 0, got {self}"
            )


@dataclass(frozen=True)
class WordAligner:
    r"""IBM Model 2 with a diagonal prior, ``p(e, a | f) = \prod_i \delta(a_i) t(e_i | f_{a_i})``.

    Attributes:
        source: numbers of the source words.
        target: numbers of the target words.
        table: the word pairs that occurred together.
        probabilities: ``t`` of every slot of the table.
        null: ``p_0``.
        tension: ``λ``.

    References:
        Dyer, Chahuneau & Smith (2013), §2.
    """

    source: WordNumbers
    target: WordNumbers
    table: PairTable
    probabilities: NDArray[np.float64]
    null: float
    tension: float

    def align(self, pairs: Pairs) -> list[Links]:
        """The most probable links ``(source, target)`` of sentence pairs, also new ones.

        Raises:
            DataError: a sentence is empty.
        """
        return list(self.best_links(flatten(pairs, self.source, self.target)))

    def best_links(self, corpus: FlatCorpus) -> Iterator[Links]:
        """Likewise, of pairs that are encoded already."""
        if not len(corpus):
            return
        links = expectation.best_links(
            corpus.source, corpus.target, corpus.source_starts, corpus.target_starts,
            self.table.keys, self.probabilities, self.table.width, self.null, self.tension,
        )  # fmt: skip
        for part in np.split(links, corpus.target_starts[1:-1]):
            yield frozenset((int(j), i) for i, j in enumerate(part) if j >= 0)

    def translation_probability(self, source: str, target: str) -> float:
        """``t(target | source)``; 0 for words that never occurred together."""
        numbers = self.source.numbers.get(source), self.target.numbers.get(target)
        if numbers[0] is None or numbers[1] is None:
            return 0.0
        key = numbers[0] * self.table.width + numbers[1]
        places = np.flatnonzero(self.table.keys == key)
        return float(self.probabilities[places[0]]) if len(places) else 0.0


def train_aligner(
    pairs: Pairs, settings: AlignerSettings | None = None, progress: Progress | None = None
) -> WordAligner:
    """Train on sentence pairs; the result does not depend on anything but the arguments.

    The pairs are read once. Memory: 4 bytes a word of the corpus, and at most 96 bytes for each
    pair of a source and a target word that stand in one sentence pair.

    Raises:
        DataError: there is no pair, or a sentence is empty.
    """
    return fit_aligner(*number_words(pairs), settings or AlignerSettings(), progress)


def fit_aligner(
    corpus: FlatCorpus,
    source: WordNumbers,
    target: WordNumbers,
    settings: AlignerSettings,
    progress: Progress | None = None,
) -> WordAligner:
    """Train on pairs that :func:`~repro.data.alignment.corpus.number_words` encoded."""
    table = collect_pairs(corpus, len(target))
    probabilities, tension = _fit(corpus, table, len(source), len(target), settings, progress)
    return WordAligner(source, target, table, probabilities, settings.null, tension)


def _fit(
    corpus: FlatCorpus,
    table: PairTable,
    sources: int,
    targets: int,
    settings: AlignerSettings,
    progress: Progress | None,
) -> tuple[NDArray[np.float64], float]:
    """Passes of expectation maximisation from the uniform table."""
    probabilities = np.full(len(table.keys), 1.0 / targets)
    tension, sizes = settings.tension, sentence_sizes(corpus)
    counts = np.empty(len(table.keys))
    for number in range(settings.passes):
        counts.fill(0.0)
        likelihood, links, near = expectation.expected_counts(
            corpus.source, corpus.target, corpus.source_starts, corpus.target_starts, table.keys,
            probabilities, table.width, settings.null, tension, counts,
        )  # fmt: skip
        expectation.normalise(
            table.keys, table.width, counts, sources, settings.concentration, probabilities
        )
        if settings.learn_tension and number > 0:
            tension = best_tension(sizes, links, near, tension)
        if progress is not None:
            progress(number + 1, likelihood / len(corpus.target))
    return probabilities, tension
