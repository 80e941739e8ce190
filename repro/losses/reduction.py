"""From the losses of single targets to what is returned."""

from typing import Literal

from torch import Tensor

Reduction = Literal["mean", "sum", "none"]


def reduce_losses(losses: Tensor, ignored: Tensor, reduction: Reduction) -> Tensor:
    """Sum or average the losses of the targets that count.

    Args:
        losses: one per target, zero where ignored.
        ignored: boolean, the shape of ``losses``.
        reduction: ``"mean"`` is zero if every target is ignored.
    """
    if reduction == "none":
        return losses
    total = losses.sum()
    return total / (~ignored).sum().clamp(min=1) if reduction == "mean" else total
