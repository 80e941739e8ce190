"""Launchers of the kernels of α-entmax: arguments and allocation."""

import torch
from torch import Tensor

from repro.mappings.kernels.cuda import policy
from repro.mappings.kernels.cuda.entmax_backward import backward_kernel
from repro.mappings.kernels.cuda.entmax_solver import forward_kernel
from repro.mappings.kernels.cuda.launch import numbers_of, run_tiles

_RULES = {1.0: 1, 0.5: 2}
"""Rules for orders that need no powers; see ``entmax_solver.py``."""


def entmax_forward(scores: Tensor, order: float | Tensor) -> Tensor:
    """Compute α-entmax along the last axis; a tensor holds the order of each row, or one for all.

    The order is ``r = α - 1``.
    """
    return solve(scores, order)


entmax_forward_rows = entmax_forward


def solve(scores: Tensor, order: float | Tensor, *, probs: Tensor | None = None) -> Tensor:
    """Compute α-entmax along the last axis.

    Args:
        scores: ``z``, shape ``(..., n)`` with ``n >= 1``.
        order: ``r``; a tensor holds one for each row, or one for all.
        probs: output, whose type is that of the computation; allocated like ``scores`` if None.
    """
    rows = scores.contiguous()
    probs = torch.empty_like(rows) if probs is None else probs
    rule, by_row = 0, isinstance(order, Tensor)
    if not isinstance(order, Tensor):
        rule = 4 if order > 1.0 else _RULES.get(order, 0)
    # Orders above one need double precision.
    itemsize = 8 if rule == 4 or by_row else probs.element_size()
    run_tiles(
        forward_kernel, policy.RATIONAL if rule in (1, 2) else policy.POWERS, itemsize, rows,
        probs, *numbers_of(order, rows), single=by_row, RULE=rule, ROWS=by_row,
    )  # fmt: skip
    return probs


def entmax_backward(probs: Tensor, grad: Tensor, order: float | Tensor) -> Tensor:
    """Return ``J g``; a tensor holds the order of each row, or one for all."""
    return entmax_backward_rows(probs, grad, order)[0]


entmax_backward_scores = entmax_backward


def entmax_backward_rows(
    probs: Tensor, grad: Tensor, order: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Return ``J g`` and, if ``order`` is a tensor, the gradient of the order for each row."""
    rows = probs.contiguous()
    rule, large, by_row = 0, False, isinstance(order, Tensor)
    if not isinstance(order, Tensor):
        rule, large = _RULES.get(order, 0), order > 1.0
    out = torch.empty_like(rows)
    drifts = rows.new_empty(rows.numel() // rows.size(-1) if by_row else 0)
    # Rows with an order of their own may need double precision.
    itemsize = 8 if large or by_row else rows.element_size()
    run_tiles(
        backward_kernel, policy.RATIONAL if rule else policy.POWERS, itemsize, rows,
        grad.contiguous(), out, *numbers_of(order, rows), drifts,
        RULE=rule, ROWS=by_row, LARGE=large,
    )  # fmt: skip
    return out, drifts
