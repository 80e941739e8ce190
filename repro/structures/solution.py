"""What SparseMAP returns."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from repro.structures.selection import Selection
from repro.structures.structure import Structure


class ConvergenceWarning(UserWarning):
    """Some instances are not solved to the tolerance that was asked for."""


@dataclass(frozen=True)
class Solution:
    """A sparse mixture of structures for each instance.

    Args:
        structure: what was solved.
        marginals: ``u``, like the unary scores; differentiable.
        weights: ``(B, K)`` of the selected structures, zero where an instance has fewer;
            differentiable.
        selection: the structures in the form of the kernels.
        scores: additional scores, or ``None``.
    """

    structure: Structure
    marginals: Tensor
    weights: Tensor
    selection: Selection = field(repr=False)
    scores: Tensor | None = field(repr=False)

    @property
    def counts(self) -> Tensor:
        """Number of selected structures ``(B,)``."""
        return self._tensor(self.selection.counts)

    @property
    def iterations(self) -> Tensor:
        """Number of calls of the oracle ``(B,)``, without the first."""
        return self._tensor(self.selection.rounds)

    @property
    def gap(self) -> Tensor:
        """Frank-Wolfe gaps ``(B,)``: the objective is at most so far from the optimum."""
        return self._tensor(self.selection.gaps)

    @property
    def converged(self) -> Tensor:
        """Whether the gap is small enough ``(B,)``, up to the rounding of the scores."""
        return self._tensor(self.selection.converged)

    @cached_property
    def structures(self) -> Tensor:
        """Vertices ``(B, K, V)`` of the selected structures; -1 where an instance has fewer."""
        counts, width = self.selection.counts, self.selection.vertices.shape[1]
        stored = np.full((len(counts), int(counts.max(initial=0)), width), -1, np.int32)
        rows = np.repeat(np.arange(len(counts)), counts)
        stored[rows, np.arange(len(rows)) - self.selection.offsets[rows]] = self.selection.vertices
        found = self.structure.vertices(torch.from_numpy(stored), self.selection.problem)
        return found.to(self.marginals.device)

    @cached_property
    def additional(self) -> Tensor | None:
        """``v``, marginals of additional parts of each instance; differentiable. Or ``None``."""
        if self.scores is None:
            return None
        return self.structure.mixture(self.structures, self.weights, self.scores)

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.marginals.device)
