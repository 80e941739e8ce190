"""Aligners of both directions and their symmetric links."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from repro.data.alignment.corpus import Pairs, flatten, number_words
from repro.data.alignment.model import AlignerSettings, WordAligner, fit_aligner
from repro.data.alignment.symmetry import Links, Symmetry, combine

_PIECE = 10_000


@dataclass(frozen=True)
class TwoWayAligner:
    """Aligners of both directions.

    Attributes:
        forward: explains target words by source words.
        reverse: explains source words by target words.
    """

    forward: WordAligner
    reverse: WordAligner

    def pruned(self) -> "TwoWayAligner":
        """The aligner of new text; see :meth:`~repro.data.alignment.WordAligner.pruned`."""
        return TwoWayAligner(self.forward.pruned(), self.reverse.pruned())

    def align(self, pairs: Pairs, symmetry: Symmetry = "grow-diag-final-and") -> list[Links]:
        """Links ``(source, target)`` of sentence pairs, also of new ones.

        Raises:
            DataError: a sentence is empty.
        """
        return list(self.stream(pairs, symmetry))

    def stream(self, pairs: Pairs, symmetry: Symmetry = "grow-diag-final-and") -> Iterator[Links]:
        """Iterator form of :meth:`align` that holds ten thousand pairs at a time."""
        rest = iter(pairs)
        while piece := list(islice(rest, _PIECE)):
            corpus = flatten(piece, self.forward.source, self.forward.target)
            both = self.forward.best_links(corpus), self.reverse.best_links(corpus.turned())
            for links, reverse in zip(*both, strict=True):
                yield combine(links, frozenset((j, i) for i, j in reverse), symmetry)


def train_two_way(pairs: Pairs, settings: AlignerSettings | None = None) -> TwoWayAligner:
    """Train both directions; see :func:`~repro.data.alignment.train_aligner` for memory.

    Raises:
        DataError: there is no pair, or a sentence is empty.
    """
    settings = settings or AlignerSettings()
    corpus, source, target = number_words(pairs)
    forward = fit_aligner(corpus, source, target, settings)
    return TwoWayAligner(forward, fit_aligner(corpus.turned(), target, source, settings))
