"""Launchers and kernels of distributions under upper bounds.

The KKT status of an entry is 0 at zero, 1 strictly inside the bounds, 2 at the upper bound.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from repro.mappings.kernels.cuda import policy
from repro.mappings.kernels.cuda.bounded_threshold import (
    BoundedRows,
    bracket_of,
    capped,
    capped_shares,
    line_threshold,
    read_bounded,
    softmax_threshold,
    survey_bounded,
)
from repro.mappings.kernels.cuda.launch import bits, parameter_of, run_tiles
from repro.mappings.kernels.cuda.rows import (
    as_double,
    read,
    read_where,
    row_numbers,
    row_parameters,
    rows_of,
    write,
)

Bounded = tuple[Tensor, Tensor, Tensor]
"""Distributions, KKT status of their entries, and an uninitialized number of infeasible rows."""


def bounded_forward(scores: Tensor, upper: Tensor, r: float, slack: float) -> Bounded:
    """Compute constrained softmax (r 0) or sparsemax (r 1) along the last axis."""
    return _forward(scores, upper.contiguous(), 1.0, slack, "csparsemax" if r else "csoftmax")


def budget_forward(scores: Tensor, total: float | Tensor) -> Bounded:
    """Compute budget along the last axis; a tensor holds the total of each row, or one for all."""
    return _forward(scores, None, total, 0.0, "budget")


budget_forward_rows = budget_forward


def _forward(
    scores: Tensor, upper: Tensor | None, total: float | Tensor, slack: float, mapping: str
) -> Bounded:
    rows = scores.contiguous()
    probs, kkt_status = torch.empty_like(rows), torch.empty_like(rows, dtype=torch.uint8)
    arrays = 1 if upper is None else 2
    run_tiles(
        bounded_kernel, policy.POWERS, arrays * rows.element_size(), rows,
        rows if upper is None else upper, probs, kkt_status, *parameter_of(total), bits(slack),
        MAPPING=mapping,
    )  # fmt: skip
    return probs, kkt_status, scores.new_empty((), dtype=torch.int64)


def bounded_backward(
    probs: Tensor, kkt_status: Tensor, grad: Tensor, r: float, to_upper: bool, to_total: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return gradients of scores, bounds and totals; the last two are empty unless requested."""
    rows = probs.contiguous()
    out = torch.empty_like(rows)
    uppers = torch.empty_like(rows) if to_upper else rows.new_empty(0)
    totals = rows.new_empty(rows.numel() // rows.size(-1) if to_total else 0)
    run_tiles(
        bounded_backward_kernel, policy.POWERS, 2 * rows.element_size(), rows,
        kkt_status.contiguous(), grad.contiguous(), out, uppers if to_upper else None,
        totals if to_total else None, SOFTMAX=r == 0.0,
    )  # fmt: skip
    return out, uppers, totals


@triton.jit
def _shares(upper, score, bound, anchor, offset, MAPPING: tl.constexpr):
    """Return the shares of a tile at the threshold, and which entries are at their bounds."""
    if MAPPING == "csoftmax":
        share, full = capped_shares(score, bound, anchor, offset)
        share = tl.where(full, bound, share)
        full = full | (upper == 0.0)
    else:
        distance = (score - anchor[:, None]) - offset[:, None]
        share = tl.minimum(tl.maximum(distance, 0.0), bound)
        full = (distance > 0.0) & (upper >= 0.0) & (share >= upper)
    return share, full


@triton.jit
def _masses(upper, score, bound, anchor, offset):
    """Return the mass of constrained softmax at and below the bounds of a tile."""
    share, full = _shares(upper, score, bound, anchor, offset, "csoftmax")
    return tl.sum(tl.where(full, share, 0.0), 1), tl.sum(tl.where(full, 0.0, share), 1)


@triton.jit
def _free_factor(rows, anchor, offset, N: tl.constexpr, HELD: tl.constexpr):
    """Return the factor of interior shares of constrained softmax that makes rows sum to the limit.

    It removes the rounding of the threshold.
    """
    score, bound = capped(rows, rows.score, rows.upper, "csoftmax")
    spent, free_mass = _masses(rows.upper, score, bound, anchor, offset)
    if not HELD:
        for start in range(N, rows.scores.n, N):
            chunk, upper = read_bounded(rows.scores, rows.uppers, start, "csoftmax", N)
            score, bound = capped(rows, chunk, upper, "csoftmax")
            full, free = _masses(upper, score, bound, anchor, offset)
            spent, free_mass = spent + full, free_mass + free
    left = tl.maximum(rows.limit - spent, 0.0)
    some = free_mass > 0.0
    return tl.where(some, left / tl.where(some, free_mass, 1.0), 1.0)


@triton.jit(do_not_specialize=["parameter", "stride", "slack", "count"])
def bounded_kernel(
    scores, uppers, probs, kkt_statuses, parameter, stride, slack, count, n,
    MAPPING: tl.constexpr, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Write distributions under bounds, and the KKT status of their entries.

    Arguments other than those described in ``rows.py``:

        uppers: bounds; not read for a budget.
        kkt_statuses: output, one byte per entry.
        parameter: the sum of a row.
        slack: the bits of the tolerance for bounds, a double.
        MAPPING: see ``bounded_threshold.py``.
    """
    NARROW: tl.constexpr = scores.dtype.element_ty
    scores, uppers = rows_of(scores, count, n, M), rows_of(uppers, count, n, M)
    probs, kkt_statuses = rows_of(probs, count, n, M), rows_of(kkt_statuses, count, n, M)
    total = row_parameters(parameter, stride, count, M)
    tolerance = as_double(slack)
    score, upper = read_bounded(scores, uppers, 0, MAPPING, N)
    slack, mass = tolerance.to(NARROW), total.to(NARROW)
    survey = survey_bounded(score, upper, scores, uppers, slack, mass, MAPPING, N, HELD)
    available = survey.available
    short = (available < total - tolerance) & (survey.allowed > 0)
    bad = (survey.faults > 0) | short | ((total >= 0.0) == 0)
    tight = available <= total
    limit = tl.where(bad | tight, 0.0, total).to(NARROW)
    low, high, peak = bracket_of(survey.low, survey.high, limit, MAPPING)
    rows = BoundedRows(score, upper, scores, uppers, limit, peak)
    if MAPPING == "csoftmax":
        anchor, offset = softmax_threshold(rows, N, HELD)
        factor = _free_factor(rows, anchor, offset, N, HELD)
    else:
        # No entry gets more than the limit, whatever its bound.
        room = tl.minimum(available, survey.allowed * total).to(NARROW)
        anchor, offset = line_threshold(rows, room, low, high, MAPPING, N, HELD)
    for start in range(0, n, N):
        if not HELD:
            score, upper = read_bounded(scores, uppers, start, MAPPING, N)
        allowed = score != -float("inf")
        finite, bound = capped(rows, score, upper, MAPPING)
        share, full = _shares(upper, finite, bound, anchor, offset, MAPPING)
        if MAPPING == "csoftmax":
            share = tl.where(full, share, tl.minimum(share * factor[:, None], bound))
            full = full | (share >= bound)
        share = tl.where(tight[:, None], tl.maximum(upper, 0.0), share)
        full = allowed & (upper >= 0.0) & (full | tight[:, None])
        free = allowed & (full == 0) & (share > 0.0)
        share = tl.where(bad[:, None], float("nan"), tl.where(allowed, share, 0.0))
        kkt_status = tl.where(bad[:, None], 0, tl.where(full, 2, tl.where(free, 1, 0)))
        write(probs, start, N, share)
        write(kkt_statuses, start, N, kkt_status)


@triton.jit
def _load(probs, kkt_statuses, grads, start, SOFTMAX: tl.constexpr, N: tl.constexpr):
    """Read ``s`` and the KKT status of a chunk, and ``g`` where the status is not zero."""
    kkt_status = read(kkt_statuses, start, N, 0)
    free = kkt_status == 1
    slope = read_where(probs, free, start, N) if SOFTMAX else free.to(probs.base.dtype.element_ty)
    return slope, kkt_status, read_where(grads, kkt_status > 0, start, N)


@triton.jit
def _weighted(slope, grads):
    """Return ``Σ s g`` over the interior; ``g`` may be infinite or NaN elsewhere."""
    return tl.sum(tl.where(slope > 0.0, slope * grads, 0.0), 1)


@triton.jit(do_not_specialize=["count"])
def bounded_backward_kernel(
    probs, kkt_statuses, grads, out, uppers, totals, count, n,
    SOFTMAX: tl.constexpr, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Write ``s (g - m)``; ``g - m`` for bounds that are met, and ``m`` for the total.

    Arguments other than those described in ``rows.py``:

        kkt_statuses: KKT status, one byte per entry.
        uppers: gradients of the bounds, or None.
        totals: gradients of the totals, one per row, or None.
        SOFTMAX: whether ``s = p``; for sparsemax ``s`` is one.
    """
    probs, kkt_statuses = rows_of(probs, count, n, M), rows_of(kkt_statuses, count, n, M)
    grads, out = rows_of(grads, count, n, M), rows_of(out, count, n, M)
    slope, kkt_status, grad = _load(probs, kkt_statuses, grads, 0, SOFTMAX, N)
    total, weighted = tl.sum(slope, 1), _weighted(slope, grad)
    if not HELD:
        for start in range(N, n, N):
            slope, kkt_status, grad = _load(probs, kkt_statuses, grads, start, SOFTMAX, N)
            total, weighted = total + tl.sum(slope, 1), weighted + _weighted(slope, grad)
    spends = total > 0.0
    mean = tl.where(spends, weighted / tl.where(spends, total, 1.0), 0.0)
    for start in range(0, n, N):
        if not HELD:
            slope, kkt_status, grad = _load(probs, kkt_statuses, grads, start, SOFTMAX, N)
        moved = grad - mean[:, None]
        write(out, start, N, tl.where(slope > 0.0, slope * moved, 0.0))
        if uppers is not None:
            full = (kkt_status == 2) & spends[:, None]
            write(rows_of(uppers, count, n, M), start, N, tl.where(full, moved, 0.0))
    if totals is not None:
        numbers, inside = row_numbers(count, M)
        tl.store(totals + numbers, mean, mask=inside)
