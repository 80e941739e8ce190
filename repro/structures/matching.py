"""Matchings: the structures of linear assignment."""

import torch
from torch import Tensor

from repro.structures.kernels.codes import MATCHING
from repro.structures.structure import (
    NO_TRANSITIONS,
    Inputs,
    Problem,
    Structure,
    checked_lengths,
    checked_unary,
    no_additional,
)


class Matching(Structure):
    """``min(n, m)`` pairs of ``n`` rows and ``m`` columns (Niculae et al. 2018, §2.2).

    Unary parts ``(B, n, m)``: a row and a column are partners. Each has one partner at most, and
    each of the smaller side exactly one. Vertices ``(B, n)`` hold the column of each row, or -1.
    ``lengths`` is ``(B, 2)``. The oracle finds shortest augmenting paths.
    """

    def checked(self, inputs: Inputs) -> Problem:
        """Check scores ``(B, n, m)``; see the base class."""
        unary, additional, lengths, mask = inputs
        no_additional(additional, "Matching")
        scores = checked_unary(unary, mask, "B n m")
        batch, n, m = scores.shape
        sizes = checked_lengths(lengths, batch, (n, m)).contiguous()
        return Problem(MATCHING, scores, NO_TRANSITIONS, sizes, min(n, m))

    def vertices(self, stored: Tensor, problem: Problem) -> Tensor:
        """Turn rows of columns into columns of rows where the columns were fewer."""
        batch, several, width = stored.shape
        rows = problem.unary.size(1)
        slots = torch.arange(width).expand(stored.shape)
        flipped = problem.flipped.view(-1, 1, 1)
        places = torch.where(flipped, stored.to(torch.int64), slots)
        values = torch.where(flipped, slots, stored.to(torch.int64))
        places = torch.where(stored >= 0, places, rows)
        vertices = torch.full((batch, several, rows + 1), -1)
        return vertices.scatter_(-1, places, values)[..., :rows]
