r"""Conditional gradient for SparseMAP: vanilla, away-step and pairwise.

Niculae et al. (2018, Figure 2) compare these solvers with the active set method, whose oracle and
stopping criterion they share. They are written in NumPy, to draw that figure; nothing trains with
them.

Three misprints of Algorithm 1 are corrected: the step of line 20 is ``γ d``, not ``d``; the away
direction of line 15 is ``d^W``, not ``d^A``, which is undefined; and the structure to move away
from has the lowest ``⟨η_U - u, m_w⟩ + ⟨η_F, n_w⟩``, as in the text of §A.1, not the highest as in
line 4.

References:
    Niculae et al. (2018), Algorithm 1; Lacoste-Julien & Jaggi (2015).
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from repro.structures.kernels.codes import Array
from repro.structures.structure import Structure

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


class _Iterate:
    """Mixture of structures, rows of unary ``parts`` with scores ``theta``; marginals ``u``."""

    def __init__(self, parts: Array, theta: float) -> None:
        self.parts, self.theta, self.weights = parts[None], np.array([theta]), np.ones(1)
        self.u = parts

    def find(self, parts: Array, theta: float) -> int:
        """Return the index of a structure, which is added with weight zero if it is new."""
        same = (self.parts == parts).all(1) & (self.theta == theta)
        if same.any():
            return int(same.argmax())
        self.parts, self.theta = np.vstack([self.parts, parts]), np.append(self.theta, theta)
        self.weights = np.append(self.weights, 0.0)
        return len(self.weights) - 1

    def step(self, best: int, gain: float, variant: Variant) -> None:
        """Move weights by the step of a variant, given the best structure and its gap."""
        lowered = self.theta - self.parts @ self.u
        worst = int(np.where(self.weights > 0, lowered, np.inf).argmin())
        loss, share = float(self.weights @ lowered - lowered[worst]), float(self.weights[worst])
        forward = variant == "vanilla" or (variant == "away" and (share == 1 or gain >= loss))
        change = np.zeros_like(self.weights)
        if forward:
            change, slope, largest = change - self.weights, gain, 1.0
            change[best] += 1
        elif variant == "away":
            change, slope, largest = change + self.weights, loss, share / (1 - share)
            change[worst] -= 1
        else:
            slope, largest = gain + loss, share
            change[best], change[worst] = 1, -1
        curvature = float(np.square(change @ self.parts).sum())
        # The optimal step (Eq. 8); the longest one takes all weight from what it moves away from.
        length = largest if slope >= largest * curvature else slope / curvature
        self.weights = self.weights + length * change
        if length == largest:
            self.weights[np.arange(len(change)) != best if forward else worst] = 0
        kept = self.weights > 0
        if not kept.all():
            self.parts, self.theta = self.parts[kept], self.theta[kept]
            self.weights = self.weights[kept]
        self.u = self.weights @ self.parts


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
        structure: any structure.
        unary: ``η_U`` of one instance, without the batch dimension.
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
    scores, extra = unary.detach().double()[None], None
    if additional is not None:
        extra = additional.detach().double()[None]

    def oracle(marginals: Array) -> tuple[Array, float]:
        lowered = scores - torch.from_numpy(marginals).view(scores.shape)
        vertex = structure.map(lowered, extra)
        parts = structure.indicator(vertex, scores).flatten().numpy()
        return parts, float(structure.score(vertex, scores, extra))

    at = _Iterate(*oracle(np.zeros(unary.numel())))
    history = []
    while True:
        parts, theta = oracle(at.u)
        score, norm = float(at.weights @ at.theta), float(at.u @ at.u)
        gain = float(theta - parts @ at.u) - (score - norm)
        history.append((score - norm / 2, gain, len(at.weights)))
        if gain <= tol or len(history) == max_iter:
            break
        at.step(at.find(parts, theta), gain, variant)
    objective, gap, support = torch.tensor(history, dtype=torch.float64).unbind(-1)
    marginals = torch.from_numpy(at.u).view(unary.shape).to(unary)
    return Descent(marginals, objective, gap, support.long(), bool(gain <= tol))
