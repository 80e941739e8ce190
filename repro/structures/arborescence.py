"""Dependency trees: the structures of non-projective parsing."""

import torch
from torch import Tensor

from repro.structures.kernels.codes import ARBORESCENCE, SINGLE_ROOT
from repro.structures.matrix_tree import tree_log_partition, tree_marginals
from repro.structures.structure import (
    NO_TRANSITIONS,
    Inputs,
    Problem,
    Structure,
    checked_lengths,
    checked_unary,
    gathered,
    no_additional,
    weighted_parts,
)


class Arborescence(Structure):
    """A tree over ``n`` words and a root (Niculae et al. 2018, §2.2, "Non-projective ...").

    Unary parts ``(B, n + 1, n + 1)``: the arc from the head (row) to the modifier (column), where
    0 is the root. Column 0 and the diagonal are not arcs; their scores are ignored and their
    marginals are zero. Vertices ``(B, n + 1)`` hold the head of each word, and -1 at the root.
    ``lengths`` counts words. The oracle is Chu-Liu and Edmonds' algorithm.

    Args:
        single_root: whether exactly one word hangs on the root.
    """

    def __init__(self, single_root: bool = False) -> None:
        self.single_root = single_root

    def checked(self, inputs: Inputs) -> Problem:
        """Check scores ``(B, n + 1, n + 1)``; see the base class."""
        unary, additional, lengths, mask = inputs
        no_additional(additional, "Arborescence")
        scores = checked_unary(unary, mask, "B n+1 n+1")
        batch, rows, columns = scores.shape
        if rows != columns or rows == 0:
            raise ValueError(f"arcs (B, n+1, n+1) expected, got {tuple(scores.shape)}")
        words = checked_lengths(lengths, batch, (rows - 1,))
        code = SINGLE_ROOT if self.single_root else ARBORESCENCE
        sizes = (words + 1).expand(batch, 2).contiguous()
        return Problem(code, scores, NO_TRANSITIONS, sizes, rows - 1)

    def vertices(self, stored: Tensor, problem: Problem) -> Tensor:
        """Put the root, which has no head, before the words."""
        root = stored.new_full((*stored.shape[:-1], 1), -1)
        return torch.cat([root, stored], dim=-1).to(torch.int64)

    def score(self, vertex: Tensor, unary: Tensor, additional: Tensor | None = None) -> Tensor:
        """Sum of the scores of arcs; see the base class."""
        no_additional(additional, "Arborescence")
        return gathered(unary.transpose(-1, -2), vertex)

    def unary_mixture(self, vertices: Tensor, weights: Tensor, like: Tensor) -> Tensor:
        """Add weights up at the arcs; see the base class."""
        return weighted_parts(like.transpose(-1, -2), vertices, weights).transpose(-1, -2)

    def log_partition(
        self, unary: Tensor, additional: Tensor | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """Compute the log-partition function by the Matrix-Tree theorem; see the base class."""
        no_additional(additional, "Arborescence")
        return tree_log_partition(unary, lengths, self.single_root)

    def marginals(
        self, unary: Tensor, additional: Tensor | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """Compute the marginals by the Matrix-Tree theorem; see the base class."""
        no_additional(additional, "Arborescence")
        return tree_marginals(unary, lengths, self.single_root), None
