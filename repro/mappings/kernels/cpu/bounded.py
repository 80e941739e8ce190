"""Kernels and launchers of csoftmax, csparsemax and budget, and their derivatives.

Rows are checked and solved one by one in double precision if they are special (NaN, infinite
scores, bounds below zero), if their bounds hardly exceed the total, or if single precision does not
reach the total. Results include the KKT status of each entry; see :func:`_write`.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from repro.mappings.kernels.cpu import blocks, simd
from repro.mappings.kernels.cpu.compile import allocating, inline, kernel, matrix, vector
from repro.mappings.kernels.cpu.csoftmax import csoftmax_share, solve_csoftmax
from repro.mappings.kernels.cpu.csparsemax import csparsemax_share, solve_csparsemax
from repro.mappings.kernels.cpu.parallel import run

_INTERIOR, _AT_UPPER, _NOWHERE = 1, 2, 3
_CLEAR = 1.01
"""If the approximate sum of the bounds exceeds the total by this factor, no exact sum is needed."""
_TOLERANCE = 1e-7
"""Excess mass at which a row in single precision is solved."""
_CHUNK = 256
"""Entries that are added up in the precision of the row before the sum is widened."""
_COST = 4
"""Cost of an entry, relative to one that is only read and written."""
_ONE = torch.ones(1, dtype=torch.float64)
"""The total of a distribution."""


class Problem(NamedTuple):
    """Arguments of the forward kernel."""

    rows: Any  # scores, shape (rows, n)
    uppers: Any  # bounds, one row for all or one for each
    totals: Any  # required sums of rows, one for all or one for each
    slack: Any  # tolerance for negative bounds, and for bounds that sum to less than the total
    probs: Any  # output, shape (rows, n)
    kkt_status: Any  # output for the KKT status of the entries, shape (rows, n)


class Block(NamedTuple):
    """Workspace for rows under bounds that are solved together, as in ``blocks.py``."""

    w: Any  # scores, column by column
    u: Any  # bounds of ``w``
    scores: Any  # scores, row by row
    bounds: Any  # bounds of ``scores``
    few_w: Any  # undecided scores, column by column; in a tile they replace ``w``
    few_u: Any  # bounds of ``few_w``
    few_scores: Any  # undecided scores, row by row
    few_bounds: Any  # bounds of ``few_scores``
    ends: Any  # end of each row's list in ``few_scores``
    unusual: Any  # number of entries of each row that need checks
    totals: Any  # required sum of each row
    near: Any  # leading part of each threshold; for csoftmax the base of the exponentials
    rest: Any  # the threshold less its leading part; for csoftmax the ratio ``ρ``
    low: Any  # lower bounds of thresholds
    high: Any  # upper bounds of thresholds
    met: Any  # sum of the bounds that are known to be met
    more: Any  # rounding error of ``met``
    solved: Any  # positive for rows with a solution
    in_lanes: bool  # whether this is a tile


@allocating
def _new_block(rows, like, in_lanes):
    """Allocate a block for ``rows`` in the precision of ``like``; a tile if ``in_lanes``."""
    width = blocks.width_of(like)
    lists = np.empty((4, blocks.stride_of(rows) * (width if in_lanes else 1)), like.dtype)
    columns = np.empty((2, lists.shape[1] if in_lanes else 1), like.dtype)
    numbers = np.zeros((9, width), like.dtype)
    w, u, few_w, few_u = lists[0], lists[1], lists[2], lists[3]
    if in_lanes:
        w, u, few_w, few_u = columns[0], columns[1], columns[0], columns[1]
    return Block(
        w=w, u=u, scores=lists[0], bounds=lists[1], few_w=few_w, few_u=few_u,
        few_scores=lists[2], few_bounds=lists[3], ends=np.zeros(width, np.int64),
        unusual=numbers[0], totals=numbers[1], near=numbers[2], rest=numbers[3], low=numbers[4],
        high=numbers[5], met=numbers[6], more=numbers[7], solved=numbers[8], in_lanes=in_lanes,
    )  # fmt: skip


@inline
def _take(block, rows, uppers, totals, slack, first, last):
    """Fill a block with rows and their bounds.

    Lanes past row ``last`` repeat it. Totals and bounds are given for each row or once for all
    rows. In the block, bounds are nonnegative, forbidden entries have the score ``-inf``, and
    scores of ``inf`` become the largest number. ``unusual`` counts entries that need checks.

    Returns:
        The number of columns, the largest score with a positive bound, and the sum of the bounds.
    """
    width, stride, size = blocks.width_of(block.w), blocks.stride_of(rows), rows.shape[1]
    largest = np.finfo(rows.dtype).max
    line = max(width, blocks.LINE) if block.in_lanes else blocks.LINE * width
    end = (size + line - 1) // line * line
    for k in range(width if block.in_lanes else 1):
        i = min(first + k, last)
        row, upper, unusual = rows[i], uppers[i if uppers.shape[0] > 1 else 0], 0
        for j in range(0, end, width):
            score = simd.load_first_as(block.w, row, j, size - j, -math.inf)
            bound = simd.load_first_as(block.w, upper, j, size - j, 0.0)
            usual = ((bound >= -slack) & (score < math.inf)) | (score == -math.inf)
            unusual += width - simd.count(usual)
            allowed = (bound >= 0.0) & (score > -math.inf)
            score = simd.where(allowed, simd.minimum(score, largest), -math.inf)
            simd.store(block.scores, k * stride + j, score)
            simd.store(block.bounds, k * stride + j, simd.where(allowed, bound, 0.0))
        block.unusual[k], block.totals[k] = unusual, totals[i if totals.shape[0] > 1 else 0]
    if not block.in_lanes:
        simd.store(block.unusual, 0, simd.splat(block.unusual[0]))
        simd.store(block.totals, 0, simd.splat(block.totals[0]))
        columns = end // width
    else:
        columns = (size + blocks.LINE - 1) // blocks.LINE * blocks.LINE
        for j in range(0, end, width):
            simd.transpose(block.scores, j, stride, block.w, j * width, width)
            simd.transpose(block.bounds, j, stride, block.u, j * width, width)
    top, room = simd.splat(block.w.dtype.type(-math.inf)), simd.splat(block.w.dtype.type(0))
    for k in range(0, columns * width, width):
        bound = simd.load(block.u, k)
        top = simd.maximum(simd.where(bound > 0.0, simd.load(block.w, k), -math.inf), top)
        room += bound
    return columns, blocks.max_along_row(block, top), blocks.along_row(block, room)


@inline
def _write(block, k, start, share_of, probs, kkt_status):
    """Write shares and KKT status of the ``k``-th row of a block, whose list begins at ``start``.

    The status is 0 at zero, 1 strictly inside the bounds, 2 at the upper bound.
    """
    size, width = probs.shape[0], blocks.width_of(block.w)
    near, rest = simd.splat(block.near[k]), simd.splat(block.rest[k])
    for j in range(0, size, width):
        score, bound = simd.load(block.scores, start + j), simd.load(block.bounds, start + j)
        share, reaches = share_of(score, bound, near, rest)
        full = reaches & (share >= bound)
        simd.store_first(probs, j, size - j, simd.where(share < bound, share, bound))
        simd.store_first(
            kkt_status, j, size - j, simd.where(full, 2.0, simd.where(share > 0.0, 1.0, 0.0))
        )


@inline
def _settle(problem, i):
    """Fill a row if it needs no solver; return whether it is filled, and whether infeasible."""
    row, probs, kkt_status = problem.rows[i], problem.probs[i], problem.kkt_status[i]
    uppers = problem.uppers[i if problem.uppers.shape[0] > 1 else 0]
    wanted = problem.totals[i if problem.totals.shape[0] > 1 else 0]
    room, wrong, bad, present, zero = 0.0, False, False, False, row.dtype.type(0)
    for j in range(row.shape[0]):
        upper = uppers[j] if row[j] != -math.inf else zero
        room += np.float64(max(upper, zero))
        wrong |= math.isnan(upper) or upper < -problem.slack
        bad |= math.isnan(row[j])
        present |= row[j] > -math.inf
    tight = room <= wanted * (1.0 + np.finfo(row.dtype).eps)
    fault = wrong or not wanted >= 0.0 or (room < wanted - problem.slack and (bad or present))
    if fault or bad:
        blocks.fill(probs, math.nan)
        kkt_status[:] = 0
    elif tight:
        for j in range(row.shape[0]):
            allowed = row[j] > -math.inf
            probs[j] = max(uppers[j], zero) if allowed else 0.0
            kkt_status[j] = _AT_UPPER if allowed and uppers[j] >= 0.0 else 0
    elif wanted == 0.0:
        blocks.fill(probs, 0.0)
        kkt_status[:] = 0
    return fault or bad or tight or wanted == 0.0, fault


@inline
def _solve(solve, share_of, problem, block, first, stop, fallback):
    """Solve the rows of a block and mark those solved; in the fallback, accept any result."""
    rows = problem.rows
    columns, top, room = _take(
        block, rows, problem.uppers, problem.totals, problem.slack, first, stop - 1
    )
    wanted, rounding = simd.load(block.totals, 0), rows.shape[1] * np.finfo(rows.dtype).eps
    usual = (top > -math.inf) & (top < math.inf)
    if not fallback:
        usual &= (simd.load(block.unusual, 0) == 0.0) & (wanted > 0.0)
        usual &= room > wanted * (_CLEAR + rounding)
    tolerance = _TOLERANCE
    if rows.itemsize == 8:
        tolerance = np.finfo(np.float64).eps * (4.0 + math.sqrt(rows.shape[1]))
    solve(block, rows, columns, top, room, usual, tolerance, fallback)
    for i in range(first, stop):
        k, at = i - first, (i - first) * blocks.stride_of(rows)
        probs, kkt_status = problem.probs[i], problem.kkt_status[i]
        if fallback or block.solved[k] > 0.0:
            _write(block, k, at, share_of, probs, kkt_status)


@inline
def _solve_rows(solve, share_of, problem, block, wide_row, group, start, stop):
    """Solve rows in groups of ``group``; return the number of infeasible rows."""
    faults = 0
    for first in range(start, stop, group):
        last = min(first + group, stop)
        _solve(solve, share_of, problem, block, first, last, False)
        for i in range(first, last):
            if not block.solved[i - first] > 0.0:
                settled, fault = _settle(problem, i)
                faults += fault
                if not settled:
                    _solve(solve, share_of, problem, wide_row, i, i + 1, True)
    return faults


@allocating
def _compute(
    solve, share_of, kind, scores, uppers, bounded, totals, many, slack, probs, kkt_status, size,
    start, stop,
):  # fmt: skip
    rows, short = matrix(scores, kind, stop, size), size <= blocks.TILED
    problem = Problem(
        rows, matrix(uppers, kind, bounded, size), vector(totals, np.float64(0), many),
        rows.dtype.type(slack), matrix(probs, kind, stop, size),
        matrix(kkt_status, np.uint8(0), stop, size),
    )  # fmt: skip
    block = _new_block(rows, rows, short)
    # The constant False would have a type of its own, for which all would be compiled again.
    wide_row = _new_block(rows, np.empty(0), np.bool_(False))
    group = blocks.width_of(rows) if short else 1
    return _solve_rows(solve, share_of, problem, block, wide_row, group, start, stop)


@kernel
def _csoftmax_rows(
    kind, scores, uppers, bounded, totals, many, slack, probs, kkt_status, size, start, stop
):
    return _compute(
        solve_csoftmax, csoftmax_share, kind, scores, uppers, bounded, totals, many, slack, probs,
        kkt_status, size, start, stop,
    )  # fmt: skip


@kernel
def _csparsemax_rows(
    kind, scores, uppers, bounded, totals, many, slack, probs, kkt_status, size, start, stop
):
    return _compute(
        solve_csparsemax, csparsemax_share, kind, scores, uppers, bounded, totals, many, slack,
        probs, kkt_status, size, start, stop,
    )  # fmt: skip


# Gradients are s (g - m) for interior entries, with s = p (csoftmax) or 1 (csparsemax) and m the
# mean of g weighted by s; g - m for bounds that are met; m for totals.


@inline
def _statuses(like, kkt_status, start, left):
    """Load the KKT status of entries as real numbers."""
    return simd.load_first_as(like, kkt_status, start, left, 0)


@inline
def _slope(probs, kkt_status, start, left, r):
    share = (
        simd.load_first(probs, start, left, 0.0) if r == 0.0 else simd.splat(probs.dtype.type(1))
    )
    return simd.where(_statuses(probs, kkt_status, start, left) == _INTERIOR, share, 0.0)


@inline
def _mean(probs, kkt_status, grads, r):
    """Return the mean of ``g`` weighted by ``s``, and whether any entry is in the interior."""
    size, sums, weighted = probs.shape[0], 0.0, 0.0
    for start in range(0, size, _CHUNK):
        part = tilt = simd.splat(probs.dtype.type(0))
        for j in range(start, min(start + _CHUNK, size), blocks.width_of(probs)):
            slope = _slope(probs, kkt_status, j, size - j, r)
            part += slope
            tilt += slope * simd.where(slope > 0.0, simd.load_first(grads, j, size - j, 0.0), 0.0)
        sums, weighted = sums + simd.total(part), weighted + simd.total(tilt)
    return (weighted / sums if sums > 0.0 else 0.0), sums > 0.0


@inline
def _differentiate(probs, kkt_status, grads, r, out, upper_grads, total_grads, start, stop):
    size, width = probs.shape[1], blocks.width_of(probs)
    for i in range(start, stop):
        mean, moves = _mean(probs[i], kkt_status[i], grads[i], r)
        level, wanted = probs.dtype.type(mean), _AT_UPPER if moves else _NOWHERE
        for j in range(0, size, width):
            slope = _slope(probs[i], kkt_status[i], j, size - j, r)
            moved = slope * (simd.load_first(grads[i], j, size - j, 0.0) - level)
            simd.store_first(out[i], j, size - j, simd.where(slope > 0.0, moved, 0.0))
        if upper_grads.shape[0] > 0:
            for j in range(0, size, width):
                moved = simd.load_first(grads[i], j, size - j, 0.0) - level
                met = _statuses(probs, kkt_status[i], j, size - j) == wanted
                simd.store_first(upper_grads[i], j, size - j, simd.where(met, moved, 0.0))
        if total_grads.shape[0] > 0:
            total_grads[i] = mean


@kernel
def _bounded_backward_rows(
    kind, probs, kkt_status, grads, r, out, upper_grads, total_grads, size, start, stop
):
    charged = stop if upper_grads != 0 else 0
    _differentiate(
        matrix(probs, kind, stop, size), matrix(kkt_status, np.uint8(0), stop, size),
        matrix(grads, kind, stop, size), r, matrix(out, kind, stop, size),
        matrix(upper_grads, kind, charged, size), vector(total_grads, kind, stop), start, stop,
    )  # fmt: skip
    return 0


def bounded_forward(
    scores: Tensor, upper: Tensor, r: float, slack: float, totals: Tensor = _ONE
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute csoftmax or csparsemax, the KKT status of entries, and the number of infeasible rows.

    ``r`` is 0 for csoftmax and 1 for csparsemax, along the last axis. Bounds are one row for
    all or one for each, totals one number for all or one for each row.
    """
    scores, upper = scores.contiguous(), upper.contiguous()
    probs, kkt_status = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.uint8)
    faults = run(
        _csparsemax_rows if r else _csoftmax_rows, scores, _COST, scores, upper,
        upper.numel() // scores.size(-1), totals, totals.numel(), slack, probs, kkt_status,
    )  # fmt: skip
    return probs, kkt_status, torch.tensor(faults)


def budget_forward(scores: Tensor, total: float) -> tuple[Tensor, Tensor, Tensor]:
    """Compute budget, the KKT status of entries, and the number of infeasible rows."""
    totals = torch.tensor([total], dtype=torch.float64)
    return bounded_forward(scores, scores.new_ones(scores.size(-1)), 1.0, 0.0, totals)


def budget_forward_rows(scores: Tensor, totals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute budget like :func:`budget_forward`, with a total for each row, or one for all."""
    ones = scores.new_ones(scores.size(-1))
    return bounded_forward(scores, ones, 1.0, 0.0, totals.detach().double().contiguous())


def bounded_backward(
    probs: Tensor, kkt_status: Tensor, grad: Tensor, r: float, to_upper: bool, to_total: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return gradients of scores, bounds and totals; the last two are empty unless requested."""
    probs, kkt_status, grad = probs.contiguous(), kkt_status.contiguous(), grad.contiguous()
    out, count = torch.empty_like(probs), probs.numel() // probs.size(-1)
    upper_grads = torch.empty_like(probs) if to_upper else probs.new_empty(0)
    total_grads = probs.new_empty(count if to_total else 0)
    run(
        _bounded_backward_rows, probs, 1, probs, kkt_status, grad, r, out,
        upper_grads if to_upper else None, total_grads if to_total else None,
    )  # fmt: skip
    return out, upper_grads, total_grads
