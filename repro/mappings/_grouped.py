"""Simplex projection of group means: what fusedmax and oscarmax have in common.

Both are ``p = P_Δ(z)`` with ``z`` the mean of shifted scores over groups of tied entries (Niculae &
Blondel 2017, Propositions 2 and 3). Groups and shifts do not move with the scores, so the groups
alone give the derivative.
"""

import math
from typing import Any

import torch
from torch import Tensor

from repro.mappings._arguments import centre, number
from repro.mappings._autograd import DifferentiableFunction, keep
from repro.mappings._threshold import sparsemax_powers
from repro.mappings.kernels import dispatch
from repro.mappings.kernels.dispatch import launch


def check_lam(lam: float) -> float:
    """Return ``λ`` as a Python number; raise ``ValueError`` unless it is finite, at least zero."""
    lam = number("lam", lam)
    if not 0 <= lam < math.inf:
        raise ValueError(f"lam must be at least 0 and finite, got {lam}")
    return lam


def is_present(centred: Tensor) -> Tensor:
    """Mask of the centred scores whose entries are allowed."""
    return ~(centred <= -torch.finfo(centred.dtype).max)


def heights_below(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Subtract the largest score of every row, in float64, where differences lose nothing.

    Returns:
        The differences, the mask of the allowed entries, and the largest scores (not clamped).
    """
    centred, top = centre(scores, -1)
    largest = torch.finfo(scores.dtype).max
    heights = scores.clamp(max=largest).double() - top.clamp(-largest, largest).double()
    return heights, is_present(centred), top


def group_means(values: Tensor, weights: Tensor, groups: Tensor) -> Tensor:
    """Mean of every entry's group along the last axis: the sum of its values over its weights."""
    empty = torch.zeros_like(values)
    totals = empty.scatter_add(-1, groups, values)
    sizes = empty.scatter_add(-1, groups, weights).clamp(min=1)
    return (totals / sizes).gather(-1, groups)


def project(levels: Tensor, present: Tensor, top: Tensor) -> Tensor:
    """Euclidean projection onto the simplex along the last axis; zero where not present.

    Args:
        levels: float64, finite unless the row holds a NaN.
        present: boolean, the shape of ``levels``.
        top: the largest score of every row; ``-inf`` if nothing is allowed.
    """
    levels = levels.masked_fill(~present, -torch.inf)
    centred = levels - levels.amax(-1, keepdim=True).clamp(min=-torch.finfo(levels.dtype).max)
    powers = sparsemax_powers(centred.clamp(min=-2.0))
    probs = powers / powers.sum(-1, keepdim=True)
    return probs.masked_fill(top == -torch.inf, 0.0)


def apply_jacobian(probs: Tensor, groups: Tensor, vector: Tensor) -> Tensor:
    """``J v``: the sparsemax derivative of ``v`` averaged over the groups; symmetric."""
    support = (probs > 0).to(vector.dtype)
    kept = vector * support
    mean = kept.sum(-1, keepdim=True) / support.sum(-1, keepdim=True).clamp(min=1)
    return (group_means(kept, support, groups.long()) - mean) * support


class GroupedFunction(DifferentiableFunction):
    """Derivative of ``forward(scores, lam) -> (p, groups)`` along the last axis."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        keep(ctx, *output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """Apply the symmetric Jacobian; it is locally constant."""
        probs, groups = ctx.saved_tensors
        if dispatch.differentiable_once(probs, grads[0]):
            return launch("grouped_backward", probs, groups, grads[0]), None
        return apply_jacobian(probs, groups, grads[0]), None

    @staticmethod
    def tangent(ctx: Any, *tangents: Tensor) -> tuple[Tensor, None]:
        probs, groups = ctx.saved_tensors
        return apply_jacobian(probs, groups, tangents[0]), None
