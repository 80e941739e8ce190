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

    ``r`` is above -1, a number or a tensor with size 1 on ``dim``, the axis of the distributions.
    The result, without ``dim``, is at most zero, ``Σ p log p`` at ``r = 0``, zero on one-hot rows.
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

    The loss is zero where the target is ``ignored``.

    Raises:
        IndexError: a target is neither a class nor ignored.
    """
    probs, (centered, _) = entmax_forward(scores, r), center(scores, -1)
    skipped = target == ignored
    chosen = target.masked_fill(skipped, 0)
    check_classes(chosen, scores.size(-1))
    chosen = chosen.unsqueeze(-1)
    best = (probs * centered).sum(-1) - tsallis(probs, r, -1)
    losses = (best - centered.gather(-1, chosen).squeeze(-1)).clamp(min=0)
    forbidden = scores.gather(-1, chosen).squeeze(-1) == -torch.inf
    return losses.masked_fill(forbidden, torch.inf).masked_fill(skipped, 0.0), probs


@in_torch
def entmax_loss_backward(probs: Tensor, target: Tensor, grads: Tensor, ignored: int) -> Tensor:
    """Return ``g (p - e_y)``, zero for rows whose target is ignored."""
    skipped = target == ignored
    weight = grads.masked_fill(skipped, 0.0).unsqueeze(-1)
    chosen = target.masked_fill(skipped, 0).unsqueeze(-1)
    return (weight * probs).scatter_add(-1, chosen, -weight)


@in_torch
def fenchel_young(scores: Tensor, target: Tensor, r: float, ignored: int) -> tuple[Tensor, Tensor]:
    """Return the losses of :func:`entmax_loss`, and nothing for the backward pass."""
    return entmax_loss(scores, target, r, ignored)[0], scores.new_empty(0)


@in_torch
def fenchel_young_backward(
    scores: Tensor, thresholds: Tensor, target: Tensor, grads: Tensor, r: float, ignored: int
) -> Tensor:
    """Return ``g (p - e_y)``, zero for rows whose target is ignored; ``p`` is computed anew."""
    return entmax_loss_backward(entmax_forward(scores, r), target, grads, ignored)


def terms_in_r(probs: Tensor, r: Tensor) -> Tensor:
    """Return the terms, one per entry, of ``∂Ω/∂r = (Σ p L² κ(-r L) - Ω) / (1 + r)``.

    Here ``p`` is fixed, ``L = log p``, and ``κ`` is :func:`decay_curvature`.
    """
    logs = on_support(probs, probs > 0).log()
    theta = -r * logs
    rate = logs.square() * decay_curvature(theta)
    return probs * (rate - logs * decay_ratio(theta) / (1 + r)) / (1 + r)


class WithGradient(DifferentiableFunction):
    """A given value whose gradient in ``point`` is a given slope.

    Most values are maxima: by Danskin's theorem, the maximizer is the gradient in the scores.
    """

    @staticmethod
    def forward(
        point: Tensor, slope: Tensor, value: Tensor, dim: int, chosen: Tensor | None
    ) -> Tensor:
        """Return ``value``, with the shape of ``point`` without ``dim``.

        Args:
            point: where the gradient is.
            slope: the gradient, or the gradient plus one at the entries ``chosen``.
            value: what the caller has computed; it may depend on other parameters.
            dim: the axis that ``value`` does not have.
            chosen: indices with size 1 on ``dim``, or None.
        """
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save the slope with its graph: its derivative is the Hessian."""
        _, slope, _, ctx.dim, chosen = inputs
        ctx.save_for_backward(slope, chosen)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return ``g`` times the slope, less ``g`` at ``chosen``, in a single buffer; and ``g``."""
        slope, chosen = ctx.saved_tensors
        grad = grads[0].unsqueeze(ctx.dim)
        moved = grad * slope
        if chosen is not None:
            moved = moved.scatter_add_(ctx.dim, chosen, -grad)
        return moved, None, grads[0], None, None
