"""Regularizers and their conjugates ``max_Ω(z) = max_q <q, z> - Ω(q)``."""

from typing import Any

import torch
from torch import Tensor

from repro.mappings._arguments import center, check_classes
from repro.mappings._autograd import DifferentiableFunction
from repro.mappings._entmax import decay_curvature, decay_ratio, entmax_forward, on_support
from repro.mappings.kernels.dispatch import in_torch

_FAR = 0.1
"""Smallest ``r`` for which ``(p^r - 1) / r`` is computed directly, without harmful cancellation."""


def tsallis(probs: Tensor, r: float | Tensor, dim: int) -> Tensor:
    r"""Return the negative Tsallis entropy ``Ω(p) = Σ (p^α - p) / (α (α - 1))``, ``r = α - 1``.

    Args:
        probs: distributions along ``dim``.
        r: above -1, a number or a tensor with size 1 on ``dim``.
        dim: the axis of the distributions.

    Returns:
        ``Ω(p)``, at most zero, without ``dim``; ``Σ p log p`` at ``r = 0``, zero on one-hot rows.
    """
    if isinstance(r, float) and r == 1.0:
        return (probs * (probs - 1)).sum(dim) / 2
    if isinstance(r, float) and r >= _FAR:
        support = probs > 0
        powers = on_support(probs, support).pow(r) * support
        return (probs * (powers - 1)).sum(dim) / (r * (1 + r))
    logs = on_support(probs, probs > 0).log()
    terms = probs * logs * decay_ratio(-r * logs) / (1 + r)
    return terms.sum(dim)


@in_torch
def entmax_loss(scores: Tensor, target: Tensor, r: float, ignored: int) -> tuple[Tensor, Tensor]:
    """Compute the losses ``max_Ω(z) - z_y`` of α-entmax along the last axis, and ``p``.

    The loss is zero where the target is ``ignored``, and NaN where it is not a class and values
    cannot be read; if they can, an IndexError is raised.
    """
    probs, (centered, _) = entmax_forward(scores, r), center(scores, -1)
    skipped = target == ignored
    chosen = target.masked_fill(skipped, 0)
    check_classes(chosen, scores.size(-1))
    wrong = (chosen < 0) | (chosen >= scores.size(-1))
    chosen = chosen.masked_fill(wrong, 0).unsqueeze(-1)
    best = (probs * centered).sum(-1) - tsallis(probs, r, -1)
    losses = (best - centered.gather(-1, chosen).squeeze(-1)).clamp(min=0)
    forbidden = scores.gather(-1, chosen).squeeze(-1) == -torch.inf
    losses = losses.masked_fill(forbidden, torch.inf).masked_fill(wrong, torch.nan)
    return losses.masked_fill(skipped, 0.0), probs


@in_torch
def entmax_loss_backward(probs: Tensor, target: Tensor, grads: Tensor, ignored: int) -> Tensor:
    """Return ``g (p - e_y)``, zero for rows whose target is ignored."""
    skipped = target == ignored
    weight = grads.masked_fill(skipped, 0.0).unsqueeze(-1)
    chosen = target.masked_fill(skipped, 0).unsqueeze(-1)
    return (weight * probs).scatter_add(-1, chosen, -weight)


class HeldTsallis(DifferentiableFunction):
    """Tsallis regularizer at the maximizer ``p``, differentiated in its order ``r`` only.

    By Danskin's theorem ``p`` counts as constant. Its graph is still used in the backward pass,
    as second derivatives depend on how ``p`` changes.
    """

    @staticmethod
    def forward(probs: Tensor, r: Tensor, dim: int) -> Tensor:
        """Return ``Ω_r(p)``."""
        return tsallis(probs, r, dim)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        probs, r, ctx.dim = inputs
        ctx.save_for_backward(probs, r)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        """Multiply by ``∂Ω/∂r`` at a fixed ``p``, the sum of :func:`_order_terms`."""
        probs, r = ctx.saved_tensors
        terms = _order_terms(probs, r)
        return None, (grads[0].unsqueeze(ctx.dim) * terms).sum_to_size(r.shape), None


def _order_terms(probs: Tensor, r: Tensor) -> Tensor:
    """Return the terms, one per entry, of ``∂Ω/∂r = (Σ p L² κ(-r L) - Ω) / (1 + r)``.

    Here ``p`` is fixed, ``L = log p``, and ``κ`` is :func:`decay_curvature`.
    """
    logs = on_support(probs, probs > 0).log()
    theta = -r * logs
    rate = logs.square() * decay_curvature(theta)
    return probs * (rate - logs * decay_ratio(theta) / (1 + r)) / (1 + r)


class Danskin(DifferentiableFunction):
    """Maximum whose gradient in the scores is, by Danskin's theorem, the maximizer ``p``."""

    @staticmethod
    def forward(scores: Tensor, probs: Tensor, value: Tensor, dim: int) -> Tensor:
        """Return ``value``, the maximum, which the caller has computed."""
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save the maximizer with its graph: its derivative is the Hessian."""
        _, probs, _, ctx.dim = inputs
        ctx.save_for_backward(probs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, Tensor, None]:
        """Return ``g p`` for the scores and ``g`` for ``value``, which may depend on parameters."""
        (probs,) = ctx.saved_tensors
        return grads[0].unsqueeze(ctx.dim) * probs, None, grads[0], None
