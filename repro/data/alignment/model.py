"""Word aligner: word numbers, expectation maximization, links of both directions."""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

import numpy as np

from repro.data.alignment.expectation import (
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
from repro.data.alignment.links import grow_diag_final_and
from repro.data.pair import Links
from repro.errors import DataError

Words = Sequence[str]
Pairs = Iterable[tuple[Words, Words]]
Numbers = dict[str, int]
"""Numbers of the words of one language, from 1."""

_BEAM = 4
"""Exponent of the pruning threshold of fast_align (``-t -4``); see :meth:`TwoWayAligner.pruned`."""
_PIECE = 10_000
PASSES = 4
"""Passes of expectation maximization; the last of the program's five iterations only aligns."""
TENSION, CONCENTRATION = 4.0, 0.01
"""Initial ``λ`` and parameter of the Dirichlet prior of ``t`` in ``fast_align -d -o -v``; ``λ`` is
updated after every pass but the first, see :func:`fast_align_tension`."""


def flatten(
    pairs: Pairs, number: Callable[[str], int], other_number: Callable[[str], int]
) -> FlatCorpus:
    """Number the words of both sides and concatenate the pairs, reading them once, one at a time.

    Raises:
        DataError: a sentence is empty.
    """
    words, others = array("i"), array("i")
    starts, other_starts = array("q", [0]), array("q", [0])
    for place, (sentence, other) in enumerate(pairs, start=1):
        if not sentence or not other:
            side = "target" if sentence else "source"
            raise DataError(f"pair {place}: the {side} sentence is empty; cannot align it")
        words.extend(map(number, sentence))
        others.extend(map(other_number, other))
        starts.append(len(words))
        other_starts.append(len(others))
    flat = np.frombuffer(words, np.int32), np.frombuffer(others, np.int32)
    return FlatCorpus(*flat, np.frombuffer(starts, np.int64), np.frombuffer(other_starts, np.int64))


def number_words(pairs: Pairs) -> tuple[FlatCorpus, Numbers, Numbers]:
    """Number the words of both sides by first occurrence and concatenate the pairs, in one pass.

    Raises:
        DataError: there is no pair, or a sentence is empty.
    """
    source, target = (defaultdict[str, int](count(1).__next__) for _ in range(2))
    corpus = flatten(pairs, source.__getitem__, target.__getitem__)
    if not corpus.pairs:
        raise DataError("no sentence pair to train a word aligner on")
    return corpus, dict(source), dict(target)


def fit_links(corpus: FlatCorpus, sources: int, targets: int, passes: int) -> LinkModel:
    """Estimate the distribution of links from pairs that :func:`number_words` encoded.

    Expectation maximization starts from uniform translation probabilities.
    """
    table = collect_pairs(corpus, targets)
    probabilities = np.full(len(table.keys), 1.0 / targets)
    model = LinkModel(table, probabilities, TENSION)
    counts, sizes = np.empty(len(table.keys)), sentence_sizes(corpus)
    for number in range(passes):
        counts.fill(0.0)
        _, closeness_sum = expected_counts(corpus, model, counts)
        normalize(table, counts, sources, CONCENTRATION, probabilities)
        if number > 0:
            model = model._replace(tension=fast_align_tension(sizes, closeness_sum, model.tension))
    return model


def _pruned(model: LinkModel) -> LinkModel:
    (keys, width), probabilities = model.table, model.probabilities
    used = keys >= 0
    sources = np.where(used, keys // width, 0)
    best = np.zeros(sources.max() + 1)
    np.maximum.at(best, sources[used], probabilities[used])
    kept = np.where(probabilities >= best[sources] ** _BEAM, probabilities, UNSEEN)
    return model._replace(probabilities=kept)


def _most_probable(corpus: FlatCorpus, model: LinkModel) -> Iterator[Links]:
    for part in np.split(best_links(corpus, model), corpus.target_starts[1:-1]):
        yield frozenset((int(j), i) for i, j in enumerate(part) if j >= 0)


@dataclass(frozen=True)
class TwoWayAligner:
    r"""Aligner of both directions: target words by source words (``forward``), and the ``reverse``.

    Either is IBM Model 2 with a diagonal prior,
    ``p(e, a | f) = \prod_i \delta(a_i) t(e_i | f_{a_i})``.

    References:
        Dyer, Chahuneau & Smith (2013), §2.
    """

    source: Numbers
    target: Numbers
    forward: LinkModel
    reverse: LinkModel

    def pruned(self) -> "TwoWayAligner":
        r"""Return the aligner for new text, as the script ``force_align.py`` of fast_align does.

        It keeps the translations ``e`` of a source word ``f`` with
        :math:`t(e \mid f) \ge \max_{e'} t(e' \mid f)^4` and treats all others as never seen.
        """
        return replace(self, forward=_pruned(self.forward), reverse=_pruned(self.reverse))

    def align(self, pairs: Pairs, symmetric: bool = True) -> Iterator[Links]:
        """Yield the links ``(source, target)`` of sentence pairs, new ones included.

        Ten thousand pairs are read at a time. If ``symmetric``, both directions are combined by
        :func:`grow_diag_final_and`; otherwise only the forward direction aligns.

        Raises:
            DataError: a sentence is empty.
        """
        source, target = _lookup(self.source), _lookup(self.target)
        rest = iter(pairs)
        while piece := list(islice(rest, _PIECE)):
            corpus = flatten(piece, source, target)
            forward = _most_probable(corpus, self.forward)
            if not symmetric:
                yield from forward
                continue
            reverse = _most_probable(corpus.turned(), self.reverse)
            for links, back in zip(forward, reverse, strict=True):
                yield grow_diag_final_and(links, frozenset((j, i) for i, j in back))


def _lookup(numbers: Numbers) -> Callable[[str], int]:
    return lambda word: numbers.get(word, UNKNOWN)


def train_two_way(pairs: Pairs, passes: int = PASSES) -> TwoWayAligner:
    """Train aligners of both directions; the result is a pure function of the arguments.

    The pairs are read once. Memory: 4 bytes per word of the corpus and, for each direction, at most
    96 bytes per pair of a source and a target word that occur in one sentence pair.

    Raises:
        DataError: there is no pair, or a sentence is empty.
    """
    corpus, source, target = number_words(pairs)
    sizes = len(source), len(target)
    forward = fit_links(corpus, *sizes, passes)
    return TwoWayAligner(source, target, forward, fit_links(corpus.turned(), *sizes[::-1], passes))
