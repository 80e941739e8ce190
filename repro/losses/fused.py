"""Fenchel–Young losses of softmax, sparsemax and α-entmax by kernels that give them with ``p``."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from repro.losses.reduction import Reduction, check_classes
from repro.mappings import Entmax, ProbabilityMap, Softmax, Sparsemax
from repro.mappings._arguments import is_concrete
from repro.mappings._entmax import apply_jacobian
from repro.mappings.kernels import dispatch


def order_of(mapping: ProbabilityMap) -> float | None:
    """``r = α - 1`` of a map for which there are kernels of the loss, else None."""
    kind = type(mapping)
    if kind is Entmax and isinstance(mapping.alpha, float):
        return mapping.alpha - 1.0
    if kind is Softmax and mapping.gamma == 1:
        return 0.0
    return 1.0 if kind is Sparsemax and mapping.gamma == 1 else None


def fused_losses(
    mapping: ProbabilityMap, scores: Tensor, target: Tensor, ignored: int, reduction: Reduction
) -> Tensor | None:
    """Losses of targets, zero where ignored, and reduced; None where another way is needed.

    Args:
        mapping: any.
        scores: shape ``(..., V)``, single or double precision.
        target: shape ``(...)``; classes or the ignored value.
        ignored: has no loss and no gradient.
        reduction: as in :func:`repro.losses.reduction.reduce_losses`.

    Raises:
        IndexError: a target is no class.
    """
    order = order_of(mapping)
    if (
        order is None
        or scores.numel() == 0
        or not is_concrete(scores)
        or not dispatch.has_kernel(scores)
    ):
        return None
    if forward_ad._current_level >= 0:  # the functions of the kernels have no forward mode
        return None
    losses: Tensor = _apply(scores, target, order, ignored, reduction)[0]
    # Rows with infinite scores need the rules of the mapping.
    return losses if order or bool(losses.isfinite().all()) else None


class EntmaxLossFunction(Function):
    """Losses, and ``p``, whose only use is that the gradient ``p - e_y`` has a derivative."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, target: Tensor, order: float, ignored: int, reduction: Reduction
    ) -> tuple[Tensor, Tensor]:
        """One kernel; reduced here, as two steps of autograd take longer than a small kernel."""
        if order == 0:
            # Keeping the probabilities saves the backward pass an exponential of every score: with
            # 2,500 classes it takes a third of the time of that of torch's cross_entropy.
            skipped = target == ignored
            chosen = target.masked_fill(skipped, 0)
            check_classes(chosen, scores.size(-1))
            probs = torch.log_softmax(scores, dim=-1)
            losses = -probs.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
            losses, probs = losses.masked_fill_(skipped, 0.0), probs.exp_()
        else:
            losses, probs = dispatch.launch("entmax_loss", scores, target, order, ignored)
        count = None
        if reduction == "mean":
            count = (target != ignored).sum().clamp_(min=1)
        ctx.save_for_backward(probs, target, count)
        ctx.order, ctx.ignored = order, ignored
        ctx.set_materialize_grads(False)
        if reduction == "none":
            return losses, probs
        total = losses.sum()
        return total if count is None else total.div_(count), probs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None, None, None, None]:
        """``g (p - e_y) + J h`` with ``g`` of the losses and ``h`` of ``p``."""
        probs, target, count = ctx.saved_tensors
        moved = None
        if grads[0] is not None:
            each = grads[0] if count is None else grads[0] / count
            each = each.expand(target.shape)
            if dispatch.differentiable_once(probs, each):
                moved = dispatch.launch("entmax_loss_backward", probs, target, each, ctx.ignored)
            else:
                skipped = target == ctx.ignored
                weight = each.masked_fill(skipped, 0.0).unsqueeze(-1)
                chosen = target.masked_fill(skipped, 0).unsqueeze(-1)
                moved = (weight * probs).scatter_add(-1, chosen, -weight)
        if grads[1] is not None:
            bent = apply_jacobian(probs, ctx.order, grads[1])[0]
            moved = bent if moved is None else moved + bent
        return moved, None, None, None, None


_apply = super(Function, EntmaxLossFunction).apply
"""Skips the work of ``Function.apply`` for functorch, which takes longer than a small kernel."""
