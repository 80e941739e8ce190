r"""Conditional gradient for SparseMAP: vanilla, away-step and pairwise.

Niculae et al. (2018, Figure 2) compare these solvers with the active set method, whose compiled
oracles and stopping criterion they share here.

Three misprints of Algorithm 1 are corrected: the step of line 20 is ``γ d``, not ``d``; the away
direction of line 15 is ``d^W``, not ``d^A``, which is undefined; and the structure to move away
from has the lowest ``⟨η_U - u, m_w⟩ + ⟨η_F, n_w⟩``, as in the text of §A.1, not the highest as in
line 4.

References:
    Niculae et al. (2018), Algorithm 1; Lacoste-Julien & Jaggi (2015).
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from repro.structures.kernels import conditional_gradient as kernel
from repro.structures.kernels.codes import CONVERGED
from repro.structures.solving import refuse
from repro.structures.structure import Problem, Structure

Variant = Literal["vanilla", "away", "pairwise"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)


@dataclass(frozen=True)
class Descent:
    """Trace of a solver run; entry ``k`` of a history describes the iterate after ``k`` steps.

    Attributes:
        marginals: ``u``, like the unary scores.
        objective: ``⟨η_U, u⟩ + ⟨η_F, v⟩ - ½ ‖u‖²``, ``(T,)``.
        gap: Frank-Wolfe gap, which bounds the distance to the optimum, ``(T,)``.
        support: number of structures with nonzero weight, ``(T,)``.
        converged: whether the last gap is at most the tolerance.
    """

    marginals: Tensor
    objective: Tensor
    gap: Tensor
    support: Tensor
    converged: bool


def conditional_gradient(
    structure: Structure,
    unary: Tensor,
    additional: Tensor | None = None,
    *,
    variant: Variant = "pairwise",
    max_iter: int = 1000,
    tol: float = 1e-6,
) -> Descent:
    """Solve SparseMAP for one instance by conditional gradient.

    Args:
        structure: any structure with a compiled oracle.
        unary: ``η_U`` of one instance, ``(R, C)``, without the batch dimension.
        additional: ``η_F`` of the instance, without the batch dimension.
        variant: ``"vanilla"``, ``"away"`` or ``"pairwise"``.
        max_iter: largest number of iterates; the first one is the highest-scoring structure.
        tol: gap at which the solver stops.

    Raises:
        ValueError: there is no such variant, ``max_iter`` is less than one, or the scores do not
            fit the structure or are NaN or +inf.
        InfeasibleError: no structure is allowed.
    """
    if variant not in VARIANTS:
        raise ValueError(f"variant must be one of {', '.join(VARIANTS)}, got {variant!r}")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter}")
    extra = None if additional is None else additional.unsqueeze(0)
    run = descend(structure.problem(unary.unsqueeze(0), extra), variant, max_iter, tol)
    return replace(run, marginals=run.marginals.to(unary))


def descend(problem: Problem, variant: Variant, max_iter: int, tol: float) -> Descent:
    """Run :func:`conditional_gradient` on a checked problem of one instance, in float64."""
    history, marginals = np.zeros((max_iter, 3)), torch.zeros_like(problem.unary[0])
    rounds = kernel.run(
        problem.code, problem.unary[0].numpy(), problem.additional[0].numpy(),
        VARIANTS.index(variant), tol, history, marginals.numpy(),
    )  # fmt: skip
    refuse(np.array([CONVERGED if rounds > 0 else -rounds]))
    objective, gap, support = torch.from_numpy(history[:rounds]).unbind(-1)
    return Descent(marginals, objective, gap, support.long(), bool(gap[-1] <= tol))
