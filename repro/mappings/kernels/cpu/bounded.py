"""Kernels and launchers of csoftmax, csparsemax and budget, and their derivatives.

Rows that are special (NaN, infinite scores, negative bounds within the slack), whose bounds hardly
exceed the total, or that single precision does not bring to their total, are checked and solved one
by one in double precision. Results come with the place of each entry: 0 at zero, 1 strictly inside
its bounds, 2 at its upper bound.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from repro.mappings.kernels.cpu.blocks import TILED, fill, stride_of, width_of
from repro.mappings.kernels.cpu.bounded_blocks import (
    new_bounded_block,
    survey,
    take_bounded,
)
from repro.mappings.kernels.cpu.compile import inline, kernel, matrix, vector
from repro.mappings.kernels.cpu.csoftmax import solve_csoftmax, write_csoftmax
from repro.mappings.kernels.cpu.csparsemax import solve_csparsemax, write_csparsemax
from repro.mappings.kernels.cpu.parallel import run
from repro.mappings.kernels.cpu.simd import (
    load,
    load_first,
    load_first_as,
    splat,
    store_first,
    total,
    where,
)

_INTERIOR, _AT_UPPER, _NOWHERE = 1, 2, 3
_CLEAR = 1.01
"""Bounds whose rough sum exceeds the total by this factor need no exact sum."""
_TOLERANCE = 1e-7
"""Excess mass at which a row in single precision is solved."""
_CHUNK = 256
"""Entries that are added up in the precision of the row before the sum is widened."""
_COST = 4
"""Cost of an entry, relative to one that is only read and written."""
_ONE = torch.ones(1, dtype=torch.float64)
"""The total of a distribution."""


class Problem(NamedTuple):
    """Arguments of the kernel.

    Attributes:
        rows: scores, shape (rows, n).
        uppers: bounds, one row for all or one for each.
        totals: what rows sum to, one for all or one for each.
        order: 0 for csoftmax, 1 for csparsemax and budget.
        slack: how far bounds may be negative, and sum to less than the total.
        probs: room for results, shape (rows, n).
        place: room for the places of the entries, shape (rows, n).
    """

    rows: Any
    uppers: Any
    totals: Any
    order: Any
    slack: Any
    probs: Any
    place: Any


@inline
def _settle(problem, i):
    """Fill a row that needs no solver; return whether it is one, and whether it is faulty."""
    row, probs, place = problem.rows[i], problem.probs[i], problem.place[i]
    uppers = problem.uppers[i if problem.uppers.shape[0] > 1 else 0]
    wanted = problem.totals[i if problem.totals.shape[0] > 1 else 0]
    room, wrong, bad, present = 0.0, False, False, False
    for j in range(row.shape[0]):
        upper = uppers[j] if row[j] != -math.inf else row.dtype.type(0)
        room += np.float64(max(upper, row.dtype.type(0)))
        wrong |= math.isnan(upper) or upper < -problem.slack
        bad |= math.isnan(row[j])
        present |= row[j] > -math.inf
    tight = room <= wanted * (1.0 + np.finfo(row.dtype).eps)
    fault = wrong or not wanted > 0.0 or (room < wanted - problem.slack and (bad or present))
    if fault or bad:
        fill(probs, math.nan)
        place[:] = 0
    elif tight:
        for j in range(row.shape[0]):
            allowed = row[j] > -math.inf
            probs[j] = max(uppers[j], row.dtype.type(0)) if allowed else 0.0
            place[j] = _AT_UPPER if allowed and uppers[j] >= 0.0 else 0
    return fault or bad or tight, fault


@inline
def _solve(problem, block, pending, base, first, stop, fallback):
    """Solve the rows of a block; those that are solved are not pending any more."""
    rows = problem.rows
    columns = take_bounded(
        block, rows, problem.uppers, problem.totals, problem.slack, first, stop - 1
    )
    top, room = survey(block, columns)
    wanted, rounding = load(block.totals, 0), rows.shape[1] * np.finfo(rows.dtype).eps
    usual = (top > -math.inf) & (top < math.inf)
    if not fallback:
        usual = usual & (load(block.unusual, 0) == 0.0) & (wanted > 0.0)
        usual = usual & (room > wanted * (_CLEAR + rounding))
    tolerance = _TOLERANCE
    if rows.itemsize == 8:
        tolerance = np.finfo(np.float64).eps * (4.0 + math.sqrt(rows.shape[1]))
    if problem.order == 0.0:
        solve_csoftmax(block, columns, top, usual, tolerance, fallback)
    else:
        solve_csparsemax(block, rows, columns, top, room, usual, tolerance, fallback)
    for k in range(stop - first):
        i, at = first + k, k * stride_of(rows)
        if fallback or block.solved[k] > 0.0:
            pending[i - base] = False
            if problem.order == 0.0:
                write_csoftmax(block, k, at, problem.probs[i], problem.place[i])
            else:
                write_csparsemax(block, k, at, problem.probs[i], problem.place[i])


@inline
def _solve_rows(problem, block, wide_row, pending, start, stop):
    """Solve rows; return how many are faulty."""
    faults, group = 0, pending.shape[0]
    for first in range(start, stop, group):
        last = min(first + group, stop)
        pending[:] = True
        _solve(problem, block, pending, first, first, last, False)
        for i in range(first, last):
            if pending[i - first]:
                settled, fault = _settle(problem, i)
                faults += fault
                if not settled:
                    _solve(problem, wide_row, pending, first, i, i + 1, True)
    return faults


@kernel
def _bounded_rows(
    kind, scores, uppers, bounded, totals, many, order, slack, probs, place, size, start, stop
):
    rows, short = matrix(scores, kind, stop, size), size <= TILED
    problem = Problem(
        rows, matrix(uppers, kind, bounded, size), vector(totals, np.float64(0), many), order,
        rows.dtype.type(slack), matrix(probs, kind, stop, size),
        matrix(place, np.uint8(0), stop, size),
    )  # fmt: skip
    block, wide_row = (
        new_bounded_block(rows, rows, short),
        new_bounded_block(rows, np.empty(0), False),
    )
    pending = np.empty(width_of(rows) if short else 1, np.bool_)
    return _solve_rows(problem, block, wide_row, pending, start, stop)


# Derivatives: ``s (g - m)`` on the free entries, with ``s = p`` (csoftmax) or 1 (csparsemax), ``m``
# the mean of ``g`` weighted by ``s``; ``g - m`` for bounds that are met; ``m`` for totals.


@inline
def _place_of(like, place, start, left):
    """Places as numbers."""
    return load_first_as(like, place, start, left, place.dtype.type(0))


@inline
def _slope(probs, place, start, left, order):
    zero = probs.dtype.type(0)
    share = splat(probs.dtype.type(1)) if order == 1.0 else load_first(probs, start, left, zero)
    return where(_place_of(probs, place, start, left) == _INTERIOR, share, 0.0)


@inline
def _mean(probs, place, grads, order):
    """The mean of ``g`` weighted by ``s``, and whether any entry is free."""
    size, zero, sums, weighted = probs.shape[0], probs.dtype.type(0), 0.0, 0.0
    for start in range(0, size, _CHUNK):
        part = tilt = splat(zero)
        for j in range(start, min(start + _CHUNK, size), width_of(probs)):
            slope = _slope(probs, place, j, size - j, order)
            grad = load_first(grads, j, size - j, zero)
            part += slope
            tilt += slope * where(slope > 0.0, grad, 0.0)
        sums, weighted = sums + total(part), weighted + total(tilt)
    return (weighted / sums if sums > 0.0 else 0.0), sums > 0.0


@inline
def _differentiate(probs, place, grads, order, out, upper_grads, total_grads, start, stop):
    size, zero, width = probs.shape[1], probs.dtype.type(0), width_of(probs)
    for i in range(start, stop):
        mean, moves = _mean(probs[i], place[i], grads[i], order)
        level = probs.dtype.type(mean)
        for j in range(0, size, width):
            slope = _slope(probs[i], place[i], j, size - j, order)
            moved = slope * (load_first(grads[i], j, size - j, zero) - level)
            store_first(out[i], j, size - j, where(slope > 0.0, moved, 0.0))
        if upper_grads.shape[0] > 0:
            full = _AT_UPPER if moves else _NOWHERE
            for j in range(0, size, width):
                moved = load_first(grads[i], j, size - j, zero) - level
                met = _place_of(probs, place[i], j, size - j) == full
                store_first(upper_grads[i], j, size - j, where(met, moved, 0.0))
        if total_grads.shape[0] > 0:
            total_grads[i] = mean


@kernel
def _bounded_backward_rows(
    kind, probs, place, grads, order, out, upper_grads, total_grads, size, start, stop
):
    charged = stop if upper_grads != 0 else 0
    _differentiate(
        matrix(probs, kind, stop, size), matrix(place, np.uint8(0), stop, size),
        matrix(grads, kind, stop, size), order, matrix(out, kind, stop, size),
        matrix(upper_grads, kind, charged, size), vector(total_grads, kind, stop), start, stop,
    )  # fmt: skip
    return 0


def bounded_forward(
    scores: Tensor, upper: Tensor, order: float, slack: float, totals: Tensor = _ONE
) -> tuple[Tensor, Tensor, Tensor]:
    """Csoftmax or csparsemax along the last axis, by order; places; the number of faulty rows.

    Bounds are one row for all or one for each, totals one number for all or one for each row.
    """
    scores, upper = scores.contiguous(), upper.contiguous()
    probs, place = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.uint8)
    faults = run(
        _bounded_rows, scores, _COST, scores, upper, upper.numel() // scores.size(-1), totals,
        totals.numel(), order, slack, probs, place,
    )  # fmt: skip
    return probs, place, torch.tensor(faults)


def budget_forward(scores: Tensor, total: float) -> tuple[Tensor, Tensor, Tensor]:
    """Budget along the last axis; places; the number of faulty rows."""
    totals = torch.tensor([total], dtype=torch.float64)
    return bounded_forward(scores, scores.new_ones(scores.size(-1)), 1.0, 0.0, totals)


def budget_forward_rows(scores: Tensor, totals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Budget with a total for each row, or one for all."""
    ones = scores.new_ones(scores.size(-1))
    return bounded_forward(scores, ones, 1.0, 0.0, totals.detach().double().contiguous())


def bounded_backward(
    probs: Tensor, place: Tensor, grad: Tensor, order: float, to_upper: bool, to_total: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the scores; those of the bounds and of the totals are empty unless wanted."""
    probs, place, grad = probs.contiguous(), place.contiguous(), grad.contiguous()
    out, count = torch.empty_like(probs), probs.numel() // probs.size(-1)
    upper_grads = torch.empty_like(probs) if to_upper else probs.new_empty(0)
    total_grads = probs.new_empty(count if to_total else 0)
    run(
        _bounded_backward_rows, probs, 1, probs, place, grad, order, out,
        upper_grads if to_upper else None, total_grads if to_total else None,
    )  # fmt: skip
    return out, upper_grads, total_grads
