"""One direction of the aligner: training by expectation maximisation, and best links."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from repro.data.alignment import expectation
from repro.data.alignment.corpus import FlatCorpus, Pairs, WordNumbers, flatten, number_words
from repro.data.alignment.diagonal import (
    LEAST_TENSION,
    MOST_TENSION,
    best_tension,
    fast_align_tension,
    sentence_sizes,
)
from repro.data.alignment.symmetry import Links
from repro.data.alignment.table import UNSEEN, PairTable, collect_pairs

_BEAM = 4
"""Logarithms that lie within so many times the largest one are stored by fast_align (``-t -4``)."""
TensionUpdate = Literal["fast_align", "likelihood", "none"]
Progress = Callable[[int, float], None]
"""Called after each pass with its number and the log-likelihood per target word before it."""


@dataclass(frozen=True)
class AlignerSettings:
    """Training of an aligner; the defaults are those of ``fast_align -d -o -v``.

    Attributes:
        passes: passes of expectation maximisation. Of the program's five iterations the last one
            only aligns.
        null: probability ``p_0`` of a target word without a counterpart.
        tension: initial value of ``λ``.
        tension_update: change of ``λ`` after every pass but the first. ``"fast_align"``: as in that
            program, see :func:`~repro.data.alignment.diagonal.fast_align_tension`;
            ``"likelihood"``: the maximum of the expected log-likelihood, which the program aims
            at; ``"none"``: no change.
        concentration: of the Dirichlet prior of translation probabilities; 0 for none.
    """

    passes: int = 4
    null: float = 0.08
    tension: float = 4.0
    tension_update: TensionUpdate = "fast_align"
    concentration: float = 0.01

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        known = get_args(TensionUpdate)
        if self.passes < 1 or not 0 < self.null < 1 or self.concentration < 0:
            raise ValueError(
                f"expected passes >= 1, 0 < null < 1 and concentration >= 0, got {self}"
            )
        if not LEAST_TENSION <= self.tension <= MOST_TENSION or self.tension_update not in known:
            raise ValueError(
                f"expected {LEAST_TENSION} <= tension <= {MOST_TENSION} and a tension_update of "
                f"{', '.join(known)}, got {self}"
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

    def pruned(self) -> "WordAligner":
        r"""The aligner of new text: fast_align as its script ``force_align.py`` runs it.

        The program stores the translations of a source word ``f`` that have
        :math:`t(e \mid f) \ge \max_{e'} t(e' \mid f)^4`; all others count as never seen.
        """
        used = self.table.keys >= 0
        sources = np.where(used, self.table.keys // self.table.width, 0)
        best = np.zeros(sources.max() + 1)
        np.maximum.at(best, sources[used], self.probabilities[used])
        kept = self.probabilities >= best[sources] ** _BEAM
        return replace(self, probabilities=np.where(kept, self.probabilities, UNSEEN))

    def best_links(self, corpus: FlatCorpus) -> Iterator[Links]:
        """Links of pairs that are encoded already; see :meth:`align`."""
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
    first = 0 if settings.tension_update == "fast_align" else 1
    for number in range(settings.passes):
        counts.fill(0.0)
        likelihood, links, near = expectation.expected_counts(
            corpus.source, corpus.target, corpus.source_starts, corpus.target_starts, table.keys,
            probabilities, table.width, settings.null, tension, first, counts,
        )  # fmt: skip
        expectation.normalise(
            table.keys, table.width, counts, sources, settings.concentration, probabilities
        )
        if settings.tension_update == "fast_align" and number > 0:
            tension = fast_align_tension(sizes, near, tension)
        elif settings.tension_update == "likelihood" and number > 0:
            tension = best_tension(sizes, links, near, tension)
        if progress is not None:
            progress(number + 1, likelihood / len(corpus.target))
    return probabilities, tension
