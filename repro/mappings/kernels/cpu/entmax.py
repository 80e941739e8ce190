"""Kernels and launchers of sparsemax, α-entmax and their losses."""

import numpy as np
import torch
from torch import Tensor

from repro.mappings.kernels.cpu import blocks
from repro.mappings.kernels.cpu.compile import allocating, kernel, matrix, vector
from repro.mappings.kernels.cpu.entmax_backward import backward_rows, loss_backward_rows
from repro.mappings.kernels.cpu.entmax_powers import solve_powers
from repro.mappings.kernels.cpu.entmax_solver import Problem, solve_rational, solve_rows
from repro.mappings.kernels.cpu.parallel import run

_RATIONAL = (1.0, 0.5)
"""Orders ``r = α - 1`` at which no powers are needed."""
_POWER_COST = 6
"""Cost of an entry that needs powers, relative to one that is only read and written."""


@allocating
def _solve(solve, kind, scores, order, orders, targets, ignored, probs, losses, size, start, stop):
    rows, none, short = matrix(scores, kind, stop, size), np.empty(0), size <= blocks.TILED
    problem = Problem(
        rows, order, vector(orders, np.float64(0), stop), vector(targets, np.int64(0), stop),
        ignored, matrix(probs, kind, stop, size), vector(losses, kind, stop),
    )  # fmt: skip
    narrow, wide = blocks.new_block(rows, rows, short), blocks.new_block(rows, none, short)
    wide_row = blocks.new_block(rows, none, False)
    states = np.empty(blocks.rows_in(narrow), np.int8)
    return solve_rows(solve, problem, narrow, wide, wide_row, states, start, stop)


@kernel
def _rational_rows(kind, scores, order, orders, targets, ignored, probs, losses, size, start, stop):
    return _solve(
        solve_rational, kind, scores, order, orders, targets, ignored, probs, losses, size,
        start, stop,
    )  # fmt: skip


@kernel
def _power_rows(kind, scores, order, orders, targets, ignored, probs, losses, size, start, stop):
    return _solve(
        solve_powers, kind, scores, order, orders, targets, ignored, probs, losses, size,
        start, stop,
    )  # fmt: skip


@kernel
def _backward_rows(kind, probs, grads, order, orders, out, order_grads, size, start, stop):
    rows = matrix(probs, kind, stop, size)
    backward_rows(
        rows, matrix(grads, kind, stop, size), order, vector(orders, np.float64(0), stop),
        matrix(out, kind, stop, size), vector(order_grads, kind, stop),
        blocks.new_support(rows, rows), blocks.new_support(rows, np.empty(0)), start, stop,
    )  # fmt: skip
    return 0


@kernel
def _loss_backward_rows(kind, probs, targets, ignored, grads, out, size, start, stop):
    loss_backward_rows(
        matrix(probs, kind, stop, size), vector(targets, np.int64(0), stop), ignored,
        vector(grads, kind, stop), matrix(out, kind, stop, size), start, stop,
    )  # fmt: skip
    return 0


def entmax_forward(
    scores: Tensor, order: float, orders: Tensor | None = None,
    target: Tensor | None = None, losses: Tensor | None = None, ignored: int = 0,
) -> Tensor:  # fmt: skip
    """Compute α-entmax along the last axis, and losses if targets are given.

    Args:
        scores: ``z``, shape ``(..., n)``.
        order: ``r = α - 1`` of all rows.
        orders: ``r`` of each row, in double precision; replaces ``order``.
        target: a class for each row.
        losses: output for the loss of each row.
        ignored: the target of rows without a loss.

    Raises:
        IndexError: a target is neither a class nor the ignored value.
    """
    scores = scores.contiguous()
    probs = torch.empty_like(scores)
    rational = orders is None and order in _RATIONAL
    solver, cost = (_rational_rows, 1) if rational else (_power_rows, _POWER_COST)
    if run(solver, scores, cost, scores, order, orders, target, ignored, probs, losses):
        raise IndexError(f"targets must be in [0, {scores.size(-1)}) or the ignored value")
    return probs


def entmax_forward_rows(scores: Tensor, orders: Tensor) -> Tensor:
    """Compute α-entmax along the last axis with an order for each row, or one for all."""
    return entmax_forward(scores, *_orders(orders))


def entmax_backward(
    probs: Tensor, grad: Tensor, order: float,
    orders: Tensor | None = None, order_grads: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``J g``; write the gradients of the orders to ``order_grads`` if it is given."""
    probs, grad = probs.contiguous(), grad.contiguous()
    out = torch.empty_like(probs)
    run(_backward_rows, probs, 1, probs, grad, order, orders, out, order_grads)
    return out


def entmax_backward_scores(probs: Tensor, grad: Tensor, orders: Tensor) -> Tensor:
    """Return ``J g`` with an order for each row, or one for all."""
    return entmax_backward(probs, grad, *_orders(orders))


def entmax_backward_rows(probs: Tensor, grad: Tensor, orders: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``J g``, and the gradient of each row's order."""
    order_grads = probs.new_empty(probs.numel() // probs.size(-1))
    return entmax_backward(probs, grad, *_orders(orders), order_grads), order_grads


def entmax_loss(
    scores: Tensor, target: Tensor, order: float, ignored: int
) -> tuple[Tensor, Tensor]:
    """Compute losses and α-entmax along the last axis; see :func:`entmax_forward` for errors."""
    losses = scores.new_empty(target.shape)
    return losses, entmax_forward(scores, order, None, target.contiguous(), losses, ignored)


def entmax_loss_backward(probs: Tensor, target: Tensor, grads: Tensor, ignored: int) -> Tensor:
    """Return ``g (p - e_y)``, zero for rows whose target is ignored."""
    probs, target, grads = probs.contiguous(), target.contiguous(), grads.contiguous()
    out = torch.empty_like(probs)
    run(_loss_backward_rows, probs, 1, probs, target, ignored, grads, out)
    return out


def _orders(orders: Tensor) -> tuple[float, Tensor | None]:
    """Split orders into a number for all rows, and None or the orders of each row."""
    if orders.numel() == 1:
        return orders.item(), None
    return 0.0, orders.detach().double().contiguous()
