"""Sums of exponentials: a finite logarithm of zero, and marginals as gradients."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

LOWEST = -1e30
"""Stands for the logarithm of zero: finite, so that differences of logarithms stay numbers."""


def possible(logarithm: Tensor) -> Tensor:
    """Mask of logarithms that are not that of zero; NaN counts as possible."""
    return ~(logarithm.detach() <= LOWEST / 2)


def log_add(first: Tensor, second: Tensor) -> Tensor:
    """``log(exp(first) + exp(second))``; the second derivative of torch's own one overflows."""
    return torch.stack(torch.broadcast_tensors(first, second)).logsumexp(0)


def gradients(log_partition: Callable[..., Tensor], points: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Gradients of a batch of log-partition functions: the marginals.

    They stay attached if a point requires a gradient and gradients are enabled.

    Args:
        log_partition: from the points to ``(B,)``.
        points: scores, one tensor per group.
    """
    attached = torch.is_grad_enabled() and any(point.requires_grad for point in points)
    with torch.enable_grad():
        leaves = [p if p.requires_grad and attached else _leaf(p) for p in points]
        total = log_partition(*leaves).sum()
        return torch.autograd.grad(total, leaves, create_graph=attached)


def _leaf(point: Tensor) -> Tensor:
    return point.detach().requires_grad_()
