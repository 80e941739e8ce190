"""SparseMAP by the active set method."""

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from repro.structures import padded_mixture
from repro.structures.any_oracle import MapOracle, OracleStructure
from repro.structures.device_solution import solve_on_device, solves
from repro.structures.selection import Selection
from repro.structures.solution import ConvergenceWarning, Solution
from repro.structures.structure import Problem, Structure
from repro.structures.transforms import Inputs, solve_below_transforms

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
    limits = _limits(unary.dtype, tol, max_iter)
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        inputs = Inputs(unary, additional, lengths, mask)
        return _solve_below_transforms(wrapped, inputs, limits, start)
    problem = wrapped.problem(unary, additional, lengths, mask)
    return _solve_directly(wrapped, problem, unary, additional, limits, start)


def _solve_directly(
    structure: Structure,
    problem: Problem,
    unary: Tensor,
    additional: Tensor | None,
    limits: tuple[float, int],
    start: Solution | None,
) -> Solution:
    """Solve a checked problem where its scores are, and tie the solution to them.

    What needs numba is imported with the first problem.
    """
    from repro.structures.mixture import attach

    tol, max_iter = limits
    if start is None and solves(problem, unary):
        found = solve_on_device(structure, problem, unary, additional, tol, max_iter)
    else:
        selection = _select(structure, problem, tol, max_iter, start)
        found = (selection, *attach(structure, unary, additional, selection))
    selection, marginals, weights = found
    _warn(selection, tol, max_iter)
    return Solution(structure, marginals, weights, selection, additional)


def _solve_below_transforms(
    structure: Structure, inputs: Inputs, limits: tuple[float, int], start: Solution | None
) -> Solution:
    """Solve on the CPU under transforms of ``torch.func`` or in forward mode."""

    def solve(inputs: Inputs) -> tuple[Any, ...]:
        selection = _select(structure, structure.problem(*inputs), *limits, start)
        return *padded_mixture.pad(structure, selection, inputs.unary), selection

    *tensors, selection = solve_below_transforms(solve, inputs)
    mixture = padded_mixture.PaddedMixture(*tensors)
    unary, additional = inputs.unary, inputs.additional
    marginals, weights = padded_mixture.attach(structure, unary, additional, mixture)
    _warn(selection, *limits)
    return Solution(structure, marginals, weights, selection, additional, mixture.vertices)


def _select(
    structure: Structure, problem: Problem, tol: float, max_iter: int, start: Solution | None
) -> Selection:
    """Solve a batch on the CPU."""
    from repro.structures.oracle_solving import solve_with_oracle
    from repro.structures.solving import solve

    if not isinstance(structure, OracleStructure):
        return solve(problem, tol, max_iter, None if start is None else start.selection)
    if start is not None:
        raise ValueError("a start needs a structure with a compiled oracle")
    return solve_with_oracle(structure, problem, tol, max_iter)


def _limits(dtype: torch.dtype, tol: float | None, max_iter: int) -> tuple[float, int]:
    """The gap that is good enough, and the largest number of iterations."""
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, not {max_iter}")
    if tol is None:
        return (1e-10 if dtype == torch.float64 else 1e-6), max_iter
    if not tol >= 0:
        raise ValueError(f"tol must be at least 0, not {tol}")
    return tol, max_iter


def _warn(selection: Selection, tol: float, max_iter: int) -> None:
    """Say how many instances are not solved."""
    unsolved = int((~selection.converged).sum())
    if unsolved:
        warnings.warn(
            f"{unsolved} of {len(selection.converged)} instances did not reach the gap {tol:g}"
            f" within {max_iter} iterations; the largest gap is {selection.gaps.max():g}",
            ConvergenceWarning,
            stacklevel=4,
        )
