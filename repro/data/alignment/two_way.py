"""Both directions of the aligner as one."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from repro.data.alignment.corpus import Pairs, flatten, number_words
from repro.data.alignment.model import AlignerSettings, WordAligner, fit_aligner
from repro.data.alignment.symmetry import Links, grow_diag_final_and

_PIECE = 10_000


@dataclass(frozen=True)
class TwoWayAligner:
    """Aligners of both directions, symmetrised by grow-diag-final-and.

    Attributes:
        forward: explains target words by source words.
        backward: explains source words by target words.
    """

    forward: WordAligner
    backward: WordAligner

    def align(self, pairs: Pairs) -> list[Links]:
        """Symmetric links ``(source, target)`` of sentence pairs, also new ones.

        Raises:
            DataError: a sentence is empty.
        """
        return list(self.stream(pairs))

    def stream(self, pairs: Pairs) -> Iterator[Links]:
        """Like :meth:`align`, ten thousand pairs at a time: memory does not grow with them."""
        rest = iter(pairs)
        while piece := list(islice(rest, _PIECE)):
            corpus = flatten(piece, self.forward.source, self.forward.target)
            both = self.forward.best_links(corpus), self.backward.best_links(corpus.turned())
            for links, backward in zip(*both, strict=True):
                yield grow_diag_final_and(links, frozenset((j, i) for i, j in backward))


def train_two_way(pairs: Pairs, settings: AlignerSettings | None = None) -> TwoWayAligner:
    """Train both directions; see :func:`~repro.data.alignment.train_aligner` for memory.

    Raises:
        DataError: there is no pair, or a sentence is empty.
    """
    settings = settings or AlignerSettings()
    corpus, source, target = number_words(pairs)
    forward = fit_aligner(corpus, source, target, settings)
    return TwoWayAligner(forward, fit_aligner(corpus.turned(), target, source, settings))
