"""Reductions, and the check of targets, that all losses share."""

from typing import Literal

from torch import Tensor

from repro.mappings._arguments import is_concrete

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


def check_classes(target: Tensor, size: int) -> None:
    """Check that every target is a class, where reading values needs no synchronization.

    Raises:
        IndexError: one is below zero or not below ``size``.
    """
    if is_concrete(target) and bool(((target < 0) | (target >= size)).any()):
        raise IndexError(f"targets must be in [0, {size}) or the ignored value")
