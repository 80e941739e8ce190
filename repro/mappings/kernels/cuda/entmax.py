"""Launchers of the kernels of α-entmax: rows, grids and memory."""

import torch
from torch import Tensor

from repro.mappings.kernels.cuda import policy
from repro.mappings.kernels.cuda.backward import backward_kernel, loss_backward_kernel
from repro.mappings.kernels.cuda.forward import forward_kernel
from repro.mappings.kernels.cuda.launch import (
    Numbers,
    extent,
    numbers_of,
    programs_for,
    rows_of,
    run,
    run_tiles,
)

_RULES = {1.0: 1, 0.5: 2}
"""Orders with rational steps; see ``thresholds.py``."""


def _work(rule: int) -> policy.Work:
    return policy.RATIONAL if rule else policy.POWERS


def entmax_forward(scores: Tensor, order: float) -> Tensor:
    """``p`` along the last axis at one order."""
    return solve(scores, numbers_of(order), _RULES.get(order, 0), wide=order > 1.0)


def entmax_forward_rows(scores: Tensor, orders: Tensor) -> Tensor:
    """``p`` along the last axis with an order for each row, or one for all."""
    return solve(scores, numbers_of(orders), 0)


def solve(
    scores: Tensor, numbers: Numbers, rule: int, *, wide: bool = False, norm: bool = False
) -> Tensor:
    """``p`` along the last axis.

    Args:
        scores: ``z``, ``n >= 1`` on the last axis.
        numbers: ``r``, or ``α`` of normmax.
        rule: see ``thresholds.py``.
        wide: compute in double precision whatever the scores are.
        norm: α-normmax.
    """
    rows = rows_of(scores)
    probs = torch.empty_like(rows)
    _forward(rows, probs, numbers, rule, wide, norm, None, rows, 0)
    return probs


def project(levels: Tensor, probs: Tensor) -> None:
    """Fill ``probs`` with the Euclidean projections of the rows of ``levels`` onto the simplex.

    They are computed in the precision of ``probs``.
    """
    _forward(levels, probs, numbers_of(1.0), _RULES[1.0], False, False, None, levels, 0)


def entmax_loss(
    scores: Tensor, target: Tensor, order: float, ignored: int
) -> tuple[Tensor, Tensor]:
    """Losses and ``p`` along the last axis; NaN where a target is neither a class nor ignored."""
    rows, targets = rows_of(scores), target.contiguous()
    probs, losses = torch.empty_like(rows), rows.new_empty(target.shape)
    rule = _RULES.get(order, 0)
    _forward(rows, probs, numbers_of(order), rule, order > 1.0, False, targets, losses, ignored)
    return losses, probs


def _forward(
    rows: Tensor,
    probs: Tensor,
    numbers: Numbers,
    rule: int,
    wide: bool,
    norm: bool,
    targets: Tensor | None,
    losses: Tensor,
    ignored: int,
) -> None:
    by_row = numbers.each is not None
    # Rows with an order of their own may need double precision.
    itemsize = 8 if wide or by_row else probs.element_size()
    run_tiles(
        forward_kernel, policy.tile(rows.size(-1), itemsize, _work(rule), single=by_row), rows,
        probs, *numbers.arguments(rows), rows if targets is None else targets, losses, ignored,
        RULE=rule, NORM=norm, ROWS=by_row, WIDE=wide, LOSS=targets is not None,
    )  # fmt: skip


def entmax_backward(probs: Tensor, grad: Tensor, order: float) -> Tensor:
    """``J g``."""
    return _backward(probs, grad, numbers_of(order), _RULES.get(order, 0), large=order > 1.0)[0]


def entmax_backward_scores(probs: Tensor, grad: Tensor, orders: Tensor) -> Tensor:
    """``J g`` with an order for each row, or one for all."""
    return entmax_backward_rows(probs, grad, orders)[0]


def entmax_backward_rows(probs: Tensor, grad: Tensor, orders: Tensor) -> tuple[Tensor, Tensor]:
    """``J g``, and for each row the gradient of its order."""
    return _backward(probs, grad, numbers_of(orders), 0)


def _backward(
    probs: Tensor, grad: Tensor, numbers: Numbers, rule: int, *, large: bool = False
) -> tuple[Tensor, Tensor]:
    """Gradients of the scores, and of the orders where there is one for each row.

    Args:
        probs: distributions on the last axis.
        grad: incoming gradients, the same shape.
        numbers: ``r``.
        rule: see ``thresholds.py``.
        large: one order for all rows is above one.
    """
    rows, grads = rows_of(probs), rows_of(grad)
    with_orders = numbers.each is not None
    count, length = extent(rows)
    out, drifts = torch.empty_like(rows), rows.new_empty(count if with_orders else 0)
    # Rows with an order of their own may need double precision.
    itemsize = 8 if large or with_orders else rows.element_size()
    run_tiles(
        backward_kernel, policy.tile(length, itemsize, _work(rule)), rows, grads, out,
        *numbers.arguments(rows), drifts, RULE=rule, ROWS=with_orders, LARGE=large,
    )  # fmt: skip
    return out, drifts


def entmax_loss_backward(probs: Tensor, target: Tensor, grads: Tensor, ignored: int) -> Tensor:
    """``g (p - e_y)``."""
    rows = rows_of(probs)
    out = torch.empty_like(rows)
    count, length = extent(rows)
    size = min(policy.STREAM_ENTRIES, policy.next_power_of_2(length))
    grid = (count, programs_for(length, size))
    run(
        loss_backward_kernel, grid, rows, target.contiguous(), grads.contiguous(), out, ignored,
        length, N=size, warps=policy.STREAM_WARPS,
    )  # fmt: skip
    return out
