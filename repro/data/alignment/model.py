"""Word aligner: word numbers, expectation maximization, links of both directions."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from repro.data.alignment.expectation import (
    LEAST_TENSION,
    MOST_TENSION,
    UNKNOWN,
    UNSEEN,
    FlatCorpus,
    LinkModel,
    best_links,
    collect_pairs,
    expected_counts,
    fast_align_tension,
    normalize,
    sentence_sizes,
)
from repro.data.alignment.links import Symmetry, grow_diag_final_and
from repro.data.pair import Links
from repro.errors import DataError

Words = Sequence[str]
Pairs = Iterable[tuple[Words, Words]]

_BEAM = 4
"""Exponent of the pruning threshold of fast_align (``-t -4``); see :meth:`WordAligner.pruned`."""
_PIECE = 10_000


@dataclass(frozen=True)
class WordNumbers:
    """Mapping of the words of one language to numbers from 1."""

    numbers: dict[str, int]

    def __len__(self) -> int:
        return len(self.numbers)

    def learn(self, sentence: Words) -> list[int]:
        """Return the numbers of a sentence's words; a new word gets the next number."""
        numbers = self.numbers
        return [numbers.setdefault(word, len(numbers) + 1) for word in sentence]

    def encode(self, sentence: Words) -> list[int]:
        """Return the numbers of a sentence's words, :data:`UNKNOWN` for new words."""
        return [self.numbers.get(word, UNKNOWN) for word in sentence]


def flatten(pairs: Pairs, source: WordNumbers, target: WordNumbers) -> FlatCorpus:
    """Encode and concatenate pairs, reading them once and one at a time.

    Raises:
        DataError: a sentence is empty.
    """
    return _join(pairs, source.encode, target.encode)


def number_words(pairs: Pairs) -> tuple[FlatCorpus, WordNumbers, WordNumbers]:
    """Number the words of both sides by first occurrence and concatenate the pairs, in one pass.

    Raises:
        DataError: there is no pair, or a sentence is empty.
    """
    source, target = WordNumbers({}), WordNumbers({})
    corpus = _join(pairs, source.learn, target.learn)
    if not corpus.pairs:
        raise DataError("no sentence pair to train a word aligner on")
    return corpus, source, target


def _join(
    pairs: Pairs, source: Callable[[Words], list[int]], target: Callable[[Words], list[int]]
) -> FlatCorpus:
    words, others = array("i"), array("i")
    starts, other_starts = array("q", [0]), array("q", [0])
    for number, (sentence, other) in enumerate(pairs, start=1):
        if not sentence or not other:
            side = "target" if sentence else "source"
            raise DataError(f"pair {number}: the {side} sentence is empty; cannot align it")
        words.extend(source(sentence))
        others.extend(target(other))
        starts.append(len(words))
        other_starts.append(len(others))
    flat = np.frombuffer(words, np.int32), np.frombuffer(others, np.int32)
    return FlatCorpus(*flat, np.frombuffer(starts, np.int64), np.frombuffer(other_starts, np.int64))


@dataclass(frozen=True)
class AlignerSettings:
    """Settings of the training of an aligner; defaults are those of ``fast_align -d -o -v``.

    Attributes:
        passes: passes of expectation maximization; the last of the program's five iterations only
            aligns.
        null: probability ``p_0`` of a target word without a counterpart.
        tension: initial value of ``λ``, which is updated after every pass but the first; see
            :func:`~repro.data.alignment.expectation.fast_align_tension`.
        concentration: parameter of the Dirichlet prior of translation probabilities; 0 for none.
    """

    passes: int = 4
    null: float = 0.08
    tension: float = 4.0
    concentration: float = 0.01

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        if self.passes < 1 or not 0 < self.null < 1 or self.concentration < 0:
            raise ValueError(
                f"expected passes >= 1, 0 < null < 1 and concentration >= 0, got {self}"
            )
        if not LEAST_TENSION <= self.tension <= MOST_TENSION:
            raise ValueError(f"expected {LEAST_TENSION} <= tension <= {MOST_TENSION}, got {self}")


@dataclass(frozen=True)
class WordAligner:
    r"""IBM Model 2 with a diagonal prior, ``p(e, a | f) = \prod_i \delta(a_i) t(e_i | f_{a_i})``.

    References:
        Dyer, Chahuneau & Smith (2013), §2.
    """

    source: WordNumbers
    target: WordNumbers
    model: LinkModel

    def align(self, pairs: Pairs) -> list[Links]:
        """Find the most probable links ``(source, target)`` of sentence pairs, new ones included.

        Raises:
            DataError: a sentence is empty.
        """
        return list(self.best_links(flatten(pairs, self.source, self.target)))

    def pruned(self) -> "WordAligner":
        r"""Return the aligner for new text, as the script ``force_align.py`` of fast_align does.

        It keeps the translations ``e`` of a source word ``f`` with
        :math:`t(e \mid f) \ge \max_{e'} t(e' \mid f)^4` and treats all others as never seen.
        """
        (keys, width), probabilities = self.model.table, self.model.probabilities
        used = keys >= 0
        sources = np.where(used, keys // width, 0)
        best = np.zeros(sources.max() + 1)
        np.maximum.at(best, sources[used], probabilities[used])
        kept = np.where(probabilities >= best[sources] ** _BEAM, probabilities, UNSEEN)
        return replace(self, model=self.model._replace(probabilities=kept))

    def best_links(self, corpus: FlatCorpus) -> Iterator[Links]:
        """Yield the links of encoded pairs; see :meth:`align`."""
        if not corpus.pairs:
            return
        for part in np.split(best_links(corpus, self.model), corpus.target_starts[1:-1]):
            yield frozenset((int(j), i) for i, j in enumerate(part) if j >= 0)


def fit_aligner(
    corpus: FlatCorpus, source: WordNumbers, target: WordNumbers, settings: AlignerSettings
) -> WordAligner:
    """Train an aligner on pairs that :func:`number_words` encoded.

    Expectation maximization starts from uniform translation probabilities.
    """
    table = collect_pairs(corpus, len(target))
    probabilities = np.full(len(table.keys), 1.0 / len(target))
    model = LinkModel(table, probabilities, settings.null, settings.tension)
    counts, sizes = np.empty(len(table.keys)), sentence_sizes(corpus)
    for number in range(settings.passes):
        counts.fill(0.0)
        _, _, closeness_sum = expected_counts(corpus, model, 0, counts)
        normalize(table, counts, len(source), settings.concentration, probabilities)
        if number > 0:
            model = model._replace(tension=fast_align_tension(sizes, closeness_sum, model.tension))
    return WordAligner(source, target, model)


@dataclass(frozen=True)
class TwoWayAligner:
    """Pair of aligners, one per direction.

    Attributes:
        forward: explains target words by source words.
        reverse: explains source words by target words.
    """

    forward: WordAligner
    reverse: WordAligner

    def pruned(self) -> "TwoWayAligner":
        """Return the aligners for new text; see :meth:`WordAligner.pruned`."""
        return TwoWayAligner(self.forward.pruned(), self.reverse.pruned())

    def align(self, pairs: Pairs, symmetry: Symmetry = "grow-diag-final-and") -> list[Links]:
        """Find the links ``(source, target)`` of sentence pairs, new ones included.

        Raises:
            DataError: a sentence is empty.
        """
        return list(self.stream(pairs, symmetry))

    def stream(self, pairs: Pairs, symmetry: Symmetry = "grow-diag-final-and") -> Iterator[Links]:
        """Yield the results of :meth:`align`, reading ten thousand pairs at a time."""
        rest = iter(pairs)
        while piece := list(islice(rest, _PIECE)):
            corpus = flatten(piece, self.forward.source, self.forward.target)
            both = self.forward.best_links(corpus), self.reverse.best_links(corpus.turned())
            for links, reverse in zip(*both, strict=True):
                turned = frozenset((j, i) for i, j in reverse)
                if symmetry == "grow-diag-final-and":
                    yield grow_diag_final_and(links, turned)
                else:
                    yield links if symmetry == "forward" else turned


def train_two_way(pairs: Pairs, settings: AlignerSettings | None = None) -> TwoWayAligner:
    """Train aligners of both directions; the result is a pure function of the arguments.

    The pairs are read once. Memory: 4 bytes per word of the corpus and, for each direction, at most
    96 bytes per pair of a source and a target word that occur in one sentence pair.

    Raises:
        DataError: there is no pair, or a sentence is empty.
    """
    settings = settings or AlignerSettings()
    corpus, source, target = number_words(pairs)
    forward = fit_aligner(corpus, source, target, settings)
    return TwoWayAligner(forward, fit_aligner(corpus.turned(), target, source, settings))
