"""Families of structures with a compiled oracle: tag sequences, dependency trees, matchings."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from repro.structures.compiled import (
    NO_TRANSITIONS,
    CompiledStructure,
    checked_choices,
    gathered,
    weighted_parts,
)
from repro.structures.forward_backward import sequence_log_partition
from repro.structures.kernels.codes import ARBORESCENCE, MATCHING, SEQUENCE, SINGLE_ROOT
from repro.structures.matrix_tree import tree_log_partition
from repro.structures.problem import (
    Instances,
    Problem,
    checked_lengths,
    checked_unary,
    no_additional,
    on_host,
)
from repro.structures.structure import Structure


class LinearChain(CompiledStructure):
    """One of ``m`` tags for each of ``n`` items (Niculae et al. 2018, §2.2, "Sequence tagging").

    Unary parts ``(B, n, m)``: item ``i`` has tag ``a``. Additional parts ``(B, n - 1, m, m)``, or
    ``(n - 1, m, m)`` shared by the batch: item ``i`` has tag ``a`` and the next has tag ``b``.
    Vertices ``(B, n)`` hold the tags. The oracle is Viterbi's algorithm.
    """

    has_additional = True

    def problem(self, given: Instances) -> Problem:
        """Check scores ``(B, n, m)`` and transitions; see the base class."""
        scores, additional = checked_unary(given, "B n m"), given.additional
        batch, n, m = scores.shape
        items = checked_lengths(given.lengths, batch, (n,))
        # Trailing tags that are forbidden at all items are cut off, unless all tags are.
        tags = torch.zeros(batch, 1, dtype=torch.int64)
        if m > 0:
            allowed = (scores.numpy() != -np.inf).any(1)
            tags = torch.from_numpy(m - allowed[:, ::-1].argmax(1)).unsqueeze(1)
        transitions, shape = NO_TRANSITIONS, (max(n - 1, 0), m, m)
        if additional is not None:
            if additional.shape not in (shape, (batch, *shape)):
                raise ValueError(
                    f"transitions {shape} or {(batch, *shape)} expected, got "
                    f"{tuple(additional.shape)}"
                )
            if additional.dtype != (dtype := given.unary.dtype):
                raise ValueError(f"transitions are {additional.dtype}, unary scores {dtype}")
            if additional.numel():
                wide = on_host(additional, torch.float64)
                transitions = wide.reshape(-1, *shape).contiguous()
        return Problem(SEQUENCE, scores, transitions, torch.cat([items, tags], dim=1), n)

    def score(self, vertex: Tensor, unary: Tensor, additional: Tensor | None = None) -> Tensor:
        """Sum the scores of tags and transitions; see the base class."""
        total = gathered(unary, vertex)
        if additional is None:
            return total
        each = additional.expand(vertex.size(0), *additional.shape[-3:])
        return total + gathered(each.flatten(-2), _pairs(vertex, additional.size(-1)))

    def mixture(self, vertices: Tensor, weights: Tensor, like: Tensor) -> Tensor:
        """Compute the marginals ``(B, n - 1, m, m)`` of transitions of sequences ``(B, K, n)``."""
        each = like.expand(vertices.size(0), *like.shape[-3:])
        pairs = _pairs(vertices, like.size(-1))
        return weighted_parts(each.flatten(-2), pairs, weights).view(each.shape)

    def log_partition(
        self, unary: Tensor, additional: Tensor | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """Compute the log-partition function by the forward algorithm; see the base class."""
        return sequence_log_partition(unary, additional, lengths)

    def marginals(
        self, unary: Tensor, additional: Tensor | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the marginals of tags and of each instance's transitions; see the base class."""
        if additional is not None and additional.dim() == 3:
            additional = additional.expand(len(unary), -1, -1, -1)
        return super().marginals(unary, additional, lengths)

    @staticmethod
    def with_ends(
        unary: Tensor,
        start: Tensor | None = None,
        end: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """Add scores of the first and of the last tag, ``(m,)`` or ``(B, m)``, to unary scores.

        The indicators of the first and last tags are unary parts already, so no additional parts
        are needed for their scores.
        """
        batch, n, _ = unary.shape
        items = torch.arange(n, device=unary.device)
        last = items.new_full((batch, 1), n) if lengths is None else lengths.view(-1, 1)
        if start is not None:
            unary = unary + (items == 0).view(1, n, 1) * start.view(-1, 1, start.size(-1))
        if end is not None:
            unary = unary + (items == last - 1).unsqueeze(-1) * end.view(-1, 1, end.size(-1))
        return unary


def _pairs(tags: Tensor, m: int) -> Tensor:
    """Return the pairs of tags of transitions, each as one of ``m²`` values; -1 in padding."""
    return torch.where(tags[..., 1:] >= 0, tags[..., :-1] * m + tags[..., 1:], -1)


class HeadStructure(Structure):
    """Base class of families of dependency trees, over ``n`` words and a root.

    Unary parts ``(B, n + 1, n + 1)``: the arc from the head (row) to the modifier (column), where
    0 is the root. Column 0 and the diagonal are not arcs: their scores are ignored and their
    marginals are zero. Vertices ``(B, n + 1)`` hold the head of each word, and -1 for the root.
    ``lengths`` counts words. A subclass defines :meth:`best`, as for every structure.

    Args:
        single_root: whether the root has exactly one child.
    """

    def __init__(self, single_root: bool = False) -> None:
        self.single_root = single_root

    def problem(self, given: Instances) -> Any:
        """Check scores ``(B, n + 1, n + 1)``, and forbid what is no arc; see the base class."""
        scores, words = self._checked(given)
        scores = scores.masked_fill(torch.eye(scores.size(1), dtype=torch.bool), -torch.inf)
        scores[:, :, 0] = -torch.inf
        grid = (words + 1).expand(-1, 2)
        checked = Instances(scores, given.additional, grid)
        return replace(super().problem(checked), lengths=words.squeeze(1))

    def _checked(self, given: Instances) -> tuple[Tensor, Tensor]:
        """Check scores and lengths; return them, the latter as ``(B, 1)``."""
        scores = checked_unary(given, "B n+1 n+1")
        batch, rows, columns = scores.shape
        if rows != columns or rows == 0:
            raise ValueError(f"arcs (B, n+1, n+1) expected, got {tuple(scores.shape)}")
        return scores, checked_lengths(given.lengths, batch, (rows - 1,))

    def vertices(self, stored: Tensor, problem: Any) -> Tensor:
        """Find the head of each word in 0/1 parts; see the base class."""
        parts = super().vertices(stored, problem).unflatten(-1, problem.groups[0].shape[1:])
        return torch.where(parts.any(-2), parts.argmax(-2), -1)

    def score(self, vertex: Tensor, unary: Tensor, additional: Tensor | None = None) -> Tensor:
        """Sum the scores of arcs; see the base class."""
        no_additional(additional, type(self).__name__)
        return gathered(unary.transpose(-1, -2), vertex)

    def unary_mixture(self, vertices: Tensor, weights: Tensor, like: Tensor) -> Tensor:
        """Sum the weights of the trees that contain each arc; see the base class."""
        return weighted_parts(like.transpose(-1, -2), vertices, weights).transpose(-1, -2)

    def checked_target(
        self,
        target: Tensor,
        unary: Tensor,
        additional: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """Check heads, ``(B, n)`` of the words or ``(B, n + 1)`` with the root; see the base."""
        if target.dim() == 2 and target.size(1) == unary.size(1) - 1:
            target = pad(target, (1, 0), value=-1)
        _, words = self._checked(Instances(unary, lengths=lengths))
        vertex = checked_choices(target, unary, words + 1, 1)
        self.refuse_invalid(vertex, lengths, 2 * self.indicator(vertex, unary.detach()) - 1)
        return vertex


class Arborescence(HeadStructure, CompiledStructure):
    """Dependency tree (Niculae et al. 2018, §2.2, "Non-projective ..."), in the form of its base.

    The oracle is Chu-Liu and Edmonds' algorithm.
    """

    def problem(self, given: Instances) -> Problem:
        """Check scores ``(B, n + 1, n + 1)``; see the base class."""
        no_additional(given.additional, "Arborescence")
        scores, words = self._checked(given)
        code = SINGLE_ROOT if self.single_root else ARBORESCENCE
        sizes = (words + 1).expand(-1, 2).contiguous()
        return Problem(code, scores, NO_TRANSITIONS, sizes, scores.size(1) - 1)

    def vertices(self, stored: Tensor, problem: Problem) -> Tensor:
        """Prepend the root, whose head is -1; see the base class."""
        root = stored.new_full((*stored.shape[:-1], 1), -1)
        return torch.cat([root, stored], dim=-1).to(torch.int64)

    def log_partition(
        self, unary: Tensor, additional: Tensor | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """Compute the log-partition function by the Matrix-Tree theorem; see the base class."""
        no_additional(additional, "Arborescence")
        return tree_log_partition(unary, lengths, self.single_root)


class Matching(CompiledStructure):
    """Matching of ``min(n, m)`` pairs of ``n`` rows and ``m`` columns (Niculae et al. 2018, §2.2).

    Unary parts ``(B, n, m)``: a row is matched with a column. Each row and column is in at most one
    pair, each of the smaller side in exactly one. Vertices ``(B, n)`` hold the column of each row,
    or -1. ``lengths`` is ``(B, 2)``. The oracle finds shortest augmenting paths.
    """

    def problem(self, given: Instances) -> Problem:
        """Check scores ``(B, n, m)``; see the base class."""
        no_additional(given.additional, "Matching")
        scores = checked_unary(given, "B n m")
        batch, n, m = scores.shape
        sizes = checked_lengths(given.lengths, batch, (n, m)).contiguous()
        return Problem(MATCHING, scores, NO_TRANSITIONS, sizes, min(n, m))

    def vertices(self, stored: Tensor, problem: Problem) -> Tensor:
        """Invert the stored row of each column if rows outnumber columns; see the base class."""
        batch, several, width = stored.shape
        rows = problem.unary.size(1)
        slots = torch.arange(width).expand(stored.shape)
        flipped = (problem.sizes[:, 0] > problem.sizes[:, 1]).view(-1, 1, 1)
        places = torch.where(flipped, stored.to(torch.int64), slots)
        values = torch.where(flipped, slots, stored.to(torch.int64))
        places = torch.where(stored >= 0, places, rows)
        vertices = torch.full((batch, several, rows + 1), -1)
        return vertices.scatter_(-1, places, values)[..., :rows]


STRUCTURES: dict[str, Callable[..., Structure]] = {
    "matching": Matching,
    "arborescence": Arborescence,
}
"""Structures over word pairs of two sentences or heads of one, by their name in ``structure=``."""
