"""Both directions of the aligner as one."""

from dataclasses import dataclass

from repro.data.alignment.corpus import Pairs
from repro.data.alignment.model import AlignerSettings, WordAligner, train_aligner
from repro.data.alignment.symmetry import Links, grow_diag_final_and


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
        backward = self.backward.align(_reversed(pairs))
        turned = [frozenset((j, i) for i, j in links) for links in backward]
        return [
            grow_diag_final_and(*both)
            for both in zip(self.forward.align(pairs), turned, strict=True)
        ]


def train_two_way(pairs: Pairs, settings: AlignerSettings | None = None) -> TwoWayAligner:
    """Train both directions.

    Raises:
        DataError: there is no pair, or a sentence is empty.
    """
    return TwoWayAligner(train_aligner(pairs, settings), train_aligner(_reversed(pairs), settings))


def _reversed(pairs: Pairs) -> Pairs:
    return [(target, source) for source, target in pairs]
