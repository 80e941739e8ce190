"""SparseMAP by the active set method."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from repro.mappings import ConvergenceWarning
from repro.structures.problem import Instances, Selection
from repro.structures.structure import Structure


@dataclass(frozen=True)
class Solution:
    """Sparse mixture of structures for each instance.

    Args:
        structure: the family of structures.
        marginals: ``u``, like the unary scores; differentiable.
        selection: the structures as the solver stores them.
        additional_scores: additional scores, or ``None``.
    """

    structure: Structure
    marginals: Tensor
    selection: Selection = field(repr=False)
    additional_scores: Tensor | None = field(repr=False)
    _weights: Callable[[], Tensor] = field(repr=False)

    @cached_property
    def weights(self) -> Tensor:
        """Weights ``(B, K)`` of the selected structures, filled with zeros; differentiable."""
        return self._weights()

    @property
    def counts(self) -> Tensor:
        """Number of selected structures ``(B,)``."""
        return self._tensor(self.selection.counts)

    @property
    def iterations(self) -> Tensor:
        """Number of oracle calls ``(B,)``, not counting the first."""
        return self._tensor(self.selection.iterations)

    @property
    def gap(self) -> Tensor:
        """Frank-Wolfe gaps ``(B,)``, upper bounds on the suboptimality of the objective."""
        return self._tensor(self.selection.gaps)

    @property
    def converged(self) -> Tensor:
        """Whether the gap is within the tolerance or the rounding error of the scores, ``(B,)``."""
        return self._tensor(self.selection.converged)

    @cached_property
    def structures(self) -> Tensor:
        """Vertices ``(B, K, V)`` of the selected structures.

        Beyond ``counts`` they are filled with -1, or with 0 where vertices are 0/1 vectors.
        """
        stored = torch.from_numpy(self.selection.padded(self.selection.vertices, fill=-1))
        vertices = self.structure.vertices(stored, self.selection.problem)
        return vertices.to(self.marginals.device)

    @cached_property
    def additional(self) -> Tensor | None:
        """Differentiable marginals ``v`` of additional parts, or None without additional scores."""
        if self.additional_scores is None:
            return None
        return self.structure.mixture(self.structures, self.weights, self.additional_scores)

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.marginals.device)


MAX_ITER = 10_000
"""Default limit of oracle calls per instance: far more than well-posed problems need."""


def sparsemap(
    structure: Structure,
    unary: Tensor,
    additional: Tensor | None = None,
    *,
    lengths: Tensor | None = None,
    mask: Tensor | None = None,
    max_iter: int = MAX_ITER,
    tol: float | None = None,
    start: Solution | None = None,
) -> Solution:
    r"""Compute a sparse mixture of high-scoring structures for each instance.

    .. math:: \max_{[u; v] \in \mathcal{M}} \langle η_U, u \rangle + \langle η_F, v \rangle - ½ ‖u‖²

    (Niculae et al. 2018, Eq. 5, Algorithm 2; derivatives by Proposition 1), in double precision.
    The marginals ``u`` are unique; structures, weights and the selected derivative may not be.

    Args:
        structure: the family of structures.
        unary: ``η_U``, scores of unary parts; ``-inf`` forbids a part.
        additional: ``η_F``, scores of additional parts.
        lengths: sizes of the instances in a padded batch.
        mask: like ``unary``, True where a part is allowed.
        max_iter: largest number of oracle calls for an instance.
        tol: gap at which an instance is solved, by default 1e-10 for float64 scores and 1e-6 for
            others; raised to the rounding error of the scores if smaller.
        start: an earlier solution for the same shapes, from whose structures to start.

    Raises:
        ValueError: shapes, types or options do not fit, or scores are NaN or +inf.
        InfeasibleError: an instance has no allowed structure.

    Warns:
        ConvergenceWarning: some instances were not solved; see ``Solution.converged``.
    """
    # These import numba, so only when needed.
    from repro.structures.mixture import Mixture, marginals_of, weights_of

    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, not {max_iter}")
    if tol is not None and not tol >= 0:
        raise ValueError(f"tol must be at least 0, not {tol}")
    gap = tol if tol is not None else 1e-10 if unary.dtype == torch.float64 else 1e-6
    problem = structure.problem(Instances(unary, additional, lengths, mask))
    known = None if start is None else start.selection
    selection = structure.solve(problem, gap, max_iter, known)
    detached = None if additional is None else additional.detach()
    mixture = Mixture(structure, selection, unary.detach(), detached)
    marginals, tracked = marginals_of(mixture, unary, additional), torch.is_grad_enabled()

    def weights() -> Tensor:
        with torch.set_grad_enabled(tracked):
            return weights_of(mixture, unary, additional)

    unsolved = int((~selection.converged).sum())
    if unsolved:
        warnings.warn(
            f"{unsolved} of {len(selection.converged)} instances did not reach the gap {gap:g}"
            f" (max_iter={max_iter}); the largest gap is {selection.gaps.max():g}",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Solution(structure, marginals, selection, additional, weights)
