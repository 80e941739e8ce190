"""Kernels and launchers of sparsemax, α-entmax and their losses."""

import numpy as np
import torch
from torch import Tensor

from repro.mappings.kernels.cpu import blocks
from repro.mappings.kernels.cpu.compile import allocating, kernel, matrix, vector
from repro.mappings.kernels.cpu.entmax_backward import (
    backward_rows,
    loss_backward_rows,
    one,
    rational_backward_rows,
    root,
)
from repro.mappings.kernels.cpu.entmax_powers import solve_powers
from repro.mappings.kernels.cpu.entmax_solver import (
    LOWEST_R,
    Problem,
    solve_rational,
    solve_rows,
)
from repro.mappings.kernels.cpu.parallel import run

_RATIONAL = (1.0, 0.5)
"""Orders ``r = α - 1`` at which no powers are needed."""
_POWER_COST = 6
"""Cost of an entry that needs powers, relative to one that is only read and written."""


# A kernel for each case: numba compiles all that a kernel may call, a solver once for each block.


@allocating
def _solve(
    solve, rows, like, like_wide, kind, r, r_of_rows, targets, ignored, probs, losses, start, stop
):
    """Solve rows in a block of the precision of ``like``; see :func:`solve_rows` for ``wide``."""
    size, short = rows.shape[1], rows.shape[1] <= blocks.TILED
    problem = Problem(
        rows, r, vector(r_of_rows, np.float64(0), stop), vector(targets, np.int64(0), stop),
        ignored, matrix(probs, kind, stop, size), vector(losses, kind, stop),
    )  # fmt: skip
    block = blocks.new_block(rows, like, short)
    wide = None if like_wide is None else blocks.new_block(rows, like_wide, short)
    # The constant False would have a type of its own, for which all would be compiled again.
    wide_row = blocks.new_block(rows, np.empty(0), np.bool_(False))
    states = np.empty(blocks.rows_in(block), np.int8)
    return solve_rows(solve, problem, block, wide, wide_row, states, start, stop)


@kernel
def _rational_rows(kind, scores, r, r_of_rows, targets, ignored, probs, losses, size, start, stop):
    """Compute sparsemax or 1.5-entmax."""
    rows = matrix(scores, kind, stop, size)
    return _solve(
        solve_rational, rows, rows, None, kind, r, r_of_rows, targets, ignored, probs, losses,
        start, stop,
    )  # fmt: skip


@kernel
def _power_rows(kind, scores, r, r_of_rows, targets, ignored, probs, losses, size, start, stop):
    """Compute rows in their own precision: float64, or ``0.04 <= r <= 1``."""
    rows = matrix(scores, kind, stop, size)
    return _solve(
        solve_powers, rows, rows, None, kind, r, r_of_rows, targets, ignored, probs, losses,
        start, stop,
    )  # fmt: skip


@kernel
def _double_power_rows(
    kind, scores, r, r_of_rows, targets, ignored, probs, losses, size, start, stop
):
    """Compute rows in double precision."""
    rows = matrix(scores, kind, stop, size)
    return _solve(
        solve_powers, rows, np.empty(0), None, kind, r, r_of_rows, targets, ignored, probs, losses,
        start, stop,
    )  # fmt: skip


@kernel
def _mixed_power_rows(
    kind, scores, r, r_of_rows, targets, ignored, probs, losses, size, start, stop
):
    """Compute rows in the precision that the ``r`` of each needs."""
    rows = matrix(scores, kind, stop, size)
    return _solve(
        solve_powers, rows, rows, np.empty(0), kind, r, r_of_rows, targets, ignored, probs, losses,
        start, stop,
    )  # fmt: skip


@kernel
def _sparsemax_backward_rows(kind, probs, grads, r, r_of_rows, out, r_grads, size, start, stop):
    """Differentiate sparsemax in the scores."""
    rows = matrix(probs, kind, stop, size)
    rational_backward_rows(
        rows, matrix(grads, kind, stop, size), r, one, matrix(out, kind, stop, size),
        blocks.new_support(rows, rows), start, stop,
    )  # fmt: skip
    return 0


@kernel
def _entmax15_backward_rows(kind, probs, grads, r, r_of_rows, out, r_grads, size, start, stop):
    """Differentiate 1.5-entmax in the scores."""
    rows = matrix(probs, kind, stop, size)
    rational_backward_rows(
        rows, matrix(grads, kind, stop, size), r, root, matrix(out, kind, stop, size),
        blocks.new_support(rows, rows), start, stop,
    )  # fmt: skip
    return 0


@kernel
def _power_backward_rows(kind, probs, grads, r, r_of_rows, out, r_grads, size, start, stop):
    """Differentiate at any ``r``, also in ``r``."""
    rows = matrix(probs, kind, stop, size)
    backward_rows(
        rows, matrix(grads, kind, stop, size), r, vector(r_of_rows, np.float64(0), stop),
        matrix(out, kind, stop, size), vector(r_grads, kind, stop),
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
    scores: Tensor, r: float, r_of_rows: Tensor | None = None,
    target: Tensor | None = None, losses: Tensor | None = None, ignored: int = 0,
) -> Tensor:  # fmt: skip
    """Compute α-entmax along the last axis, and losses if targets are given.

    Args:
        scores: ``z``, shape ``(..., n)``.
        r: ``r = α - 1`` of all rows.
        r_of_rows: ``r`` of each row, in double precision; replaces ``r``.
        target: a class for each row.
        losses: output for the loss of each row.
        ignored: the target of rows without a loss.

    Raises:
        IndexError: a target is neither a class nor the ignored value.
    """
    scores = scores.contiguous()
    probs = torch.empty_like(scores)
    if r_of_rows is None and r in _RATIONAL:
        solver, cost = _rational_rows, 1
    elif scores.dtype == torch.float64 or (r_of_rows is None and LOWEST_R <= r <= 1.0):
        solver, cost = _power_rows, _POWER_COST
    else:
        solver, cost = _double_power_rows if r_of_rows is None else _mixed_power_rows, _POWER_COST
    if run(solver, scores, cost, scores, r, r_of_rows, target, ignored, probs, losses):
        raise IndexError(f"targets must be in [0, {scores.size(-1)}) or the ignored value")
    return probs


def entmax_forward_rows(scores: Tensor, r_of_rows: Tensor) -> Tensor:
    """Compute α-entmax along the last axis with one ``r`` for each row, or one for all."""
    return entmax_forward(scores, *_split_r(r_of_rows))


def entmax_backward(
    probs: Tensor, grad: Tensor, r: float,
    r_of_rows: Tensor | None = None, r_grads: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``J g``; write the gradients of ``r`` to ``r_grads`` if it is given."""
    probs, grad = probs.contiguous(), grad.contiguous()
    out = torch.empty_like(probs)
    if r_of_rows is None and r_grads is None and r in _RATIONAL:
        differentiate = _sparsemax_backward_rows if r == 1.0 else _entmax15_backward_rows
    else:
        differentiate = _power_backward_rows
    run(differentiate, probs, 1, probs, grad, r, r_of_rows, out, r_grads)
    return out


def entmax_backward_scores(probs: Tensor, grad: Tensor, r_of_rows: Tensor) -> Tensor:
    """Return ``J g`` with one ``r`` for each row, or one for all."""
    return entmax_backward(probs, grad, *_split_r(r_of_rows))


def entmax_backward_rows(probs: Tensor, grad: Tensor, r_of_rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``J g``, and the gradient of each row's ``r``."""
    r_grads = probs.new_empty(probs.numel() // probs.size(-1))
    return entmax_backward(probs, grad, *_split_r(r_of_rows), r_grads), r_grads


def entmax_loss(scores: Tensor, target: Tensor, r: float, ignored: int) -> tuple[Tensor, Tensor]:
    """Compute losses and α-entmax along the last axis; see :func:`entmax_forward` for errors."""
    losses = scores.new_empty(target.shape)
    return losses, entmax_forward(scores, r, None, target.contiguous(), losses, ignored)


def entmax_loss_backward(probs: Tensor, target: Tensor, grads: Tensor, ignored: int) -> Tensor:
    """Return ``g (p - e_y)``, zero for rows whose target is ignored."""
    probs, target, grads = probs.contiguous(), target.contiguous(), grads.contiguous()
    out = torch.empty_like(probs)
    run(_loss_backward_rows, probs, 1, probs, target, ignored, grads, out)
    return out


def _split_r(r_of_rows: Tensor) -> tuple[float, Tensor | None]:
    """Split ``r`` into a number for all rows, and None or one value for each row."""
    if r_of_rows.numel() == 1:
        return r_of_rows.item(), None
    return 0.0, r_of_rows.detach().double().contiguous()
