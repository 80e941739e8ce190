"""SparseMAP by the active set method."""

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from repro.structures import padded_mixture
from repro.structures.any_oracle import MapOracle, OracleStructure
from repro.structures.device import solve_on_device, solves
from repro.structures.padded_mixture import padded_vertices
from repro.structures.structure import Inputs, Problem, Selection, Structure, solve_below_transforms


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


MAX_ITER = 10_000
"""Calls of the oracle for one instance: far more than well-posed problems need."""


def sparsemap(
    structure: Structure | MapOracle,
    unary: Tensor,
    additional: Tensor | None = None,
    *,
    lengths: Tensor | None = None,
    mask: Tensor | None = None,
    max_iter: int = MAX_ITER,
    tol: float | None = None,
    start: Solution | None = None,
) -> Solution:
    r"""Sparse structured inference: a mixture of few structures with high scores.

    .. math:: \max_{[u; v] \in \mathcal{M}} \langle η_U, u \rangle + \langle η_F, v \rangle - ½ ‖u‖²

    (Niculae et al. 2018, Eq. 5, by Algorithm 2, derivatives by Proposition 1); in double precision.
    Marginals are unique; structures and weights, with the derivative of those selected, may not be.

    Args:
        structure: a :class:`Structure`, or an oracle with the method of :class:`MapOracle`.
        unary: ``η_U``, scores of unary parts; ``-inf`` forbids a part.
        additional: ``η_F``, scores of additional parts.
        lengths: sizes of the instances in a padded batch.
        mask: like ``unary``, True where a part is allowed.
        max_iter: largest number of oracle calls for an instance.
        tol: gap at which an instance is solved, 1e-10 in double precision and else 1e-6; at least
            what the rounding of the scores is.
        start: an earlier solution for the same shapes, to start from its structures.

    Raises:
        ValueError: shapes, types or options do not fit, or scores are NaN or +inf.
        InfeasibleError: an instance has no allowed structure.

    Warns:
        ConvergenceWarning: some instances were not solved; see ``Solution.converged``.
    """
    wrapped = structure if isinstance(structure, Structure) else OracleStructure(structure)
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, not {max_iter}")
    if tol is not None and not tol >= 0:
        raise ValueError(f"tol must be at least 0, not {tol}")
    gap = tol if tol is not None else 1e-10 if unary.dtype == torch.float64 else 1e-6
    vertices = None
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        # Transforms of torch.func and forward mode hide values: solve below them, on the CPU.

        def solve(inputs: Inputs) -> tuple[Any, ...]:
            selection = _select(wrapped, wrapped.checked(inputs), gap, max_iter, start)
            return *padded_mixture.pad(wrapped, selection, inputs.unary), selection

        inputs = Inputs(unary, additional, lengths, mask)
        *tensors, selection = solve_below_transforms(solve, inputs)
        mixture = padded_mixture.PaddedMixture(*tensors)
        marginals, weights = padded_mixture.attach(wrapped, unary, additional, mixture)
        vertices = mixture.vertices
    else:
        from repro.structures.mixture import attach  # what needs numba waits for a problem

        problem = wrapped.problem(unary, additional, lengths, mask)
        if start is None and solves(problem, unary):
            found = solve_on_device(wrapped, problem, unary, additional, gap, max_iter)
        else:
            selection = _select(wrapped, problem, gap, max_iter, start)
            found = (selection, *attach(wrapped, unary, additional, selection))
        selection, marginals, weights = found
    unsolved = int((~selection.converged).sum())
    if unsolved:
        warnings.warn(
            f"{unsolved} of {len(selection.converged)} instances did not reach the gap {gap:g}"
            f" within {max_iter} iterations; the largest gap is {selection.gaps.max():g}",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Solution(wrapped, marginals, weights, selection, additional, vertices)


def _select(
    structure: Structure, problem: Problem, tol: float, max_iter: int, start: Solution | None
) -> Selection:
    """Solve a batch on the CPU."""
    from repro.structures.solving import solve, solve_with_oracle

    if not isinstance(structure, OracleStructure):
        return solve(problem, tol, max_iter, None if start is None else start.selection)
    if start is not None:
        raise ValueError("a start needs a structure with a compiled oracle")
    return solve_with_oracle(structure, problem, tol, max_iter)
