"""Solutions of SparseMAP."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from repro.structures.padded_mixture import padded_vertices
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
        vertices: the structures as users see them; derived from ``selection`` if None. Under
            ``torch.func.vmap`` they are those of the mapped instance, and ``selection``, with all
            that is derived from it, is that of all instances together.
    """

    structure: Structure
    marginals: Tensor
    weights: Tensor
    selection: Selection = field(repr=False)
    scores: Tensor | None = field(repr=False)
    vertices: Tensor | None = field(default=None, repr=False)

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
        """Return whether the gap is small enough ``(B,)``, up to the rounding of the scores."""
        return self._tensor(self.selection.converged)

    @cached_property
    def structures(self) -> Tensor:
        """Vertices ``(B, K, V)`` of the selected structures; -1 where an instance has fewer."""
        if self.vertices is not None:
            return self.vertices
        return padded_vertices(self.structure, self.selection).to(self.marginals.device)

    @cached_property
    def additional(self) -> Tensor | None:
        """``v``, marginals of additional parts of each instance; differentiable. Or ``None``."""
        if self.scores is None:
            return None
        return self.structure.mixture(self.structures, self.weights, self.scores)

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.marginals.device)
