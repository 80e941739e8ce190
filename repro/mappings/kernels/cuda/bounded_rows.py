"""Kernels of distributions under upper bounds.

Floor of the forward pass: two reads (one for a budget), one write, and a byte for the place of
every entry, 13 bytes in single precision; of the backward pass two reads, a byte and a write.
"""

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.backward import read_where
from repro.mappings.kernels.cuda.boxes import capped, line_threshold, load_bounds, survey_boxes
from repro.mappings.kernels.cuda.capped import capped_shares, softmax_threshold
from repro.mappings.kernels.cuda.rows import as_double, read, row_numbers, row_parameters, write

_FREE = tl.constexpr(1)
_FULL = tl.constexpr(2)


@triton.jit
def _untied(upper, limit, score, bound, anchor, offset, MODE: tl.constexpr):
    """Shares of a tile that is not tight, and which entries are full."""
    if MODE == 0:
        share, full = capped_shares(score, bound, anchor, offset)
        share = tl.where(full, bound, share)
        full = full | (upper == 0.0)
    else:
        distance = (score - anchor[:, None]) - offset[:, None]
        share = tl.minimum(tl.maximum(distance, 0.0), bound)
        full = (distance > 0.0) & (upper >= 0.0) & (share >= upper)
    return share, full


@triton.jit
def _masses(upper, limit, score, bound, anchor, offset, MODE: tl.constexpr):
    """Full and free mass of a tile."""
    share, full = _untied(upper, limit, score, bound, anchor, offset, MODE)
    return tl.sum(tl.where(full, share, 0.0), 1), tl.sum(tl.where(full, 0.0, share), 1)


@triton.jit
def _ratio(
    held, bounds, base, uppers, inside, n, limit, anchor, offset,
    MODE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Factor of the free shares of softmax that makes them spend exactly the remaining mass."""
    score, bound = capped(held, bounds, limit, MODE)
    spent, mass = _masses(bounds, limit, score, bound, anchor, offset, MODE)
    if not HELD:
        for start in range(N, n, N):
            more = read(base, inside, start, n, N, -float("inf"))
            upper = load_bounds(uppers, more, inside, start, n, MODE, N)
            score, bound = capped(more, upper, limit, MODE)
            a, b = _masses(upper, limit, score, bound, anchor, offset, MODE)
            spent, mass = spent + a, mass + b
    left = tl.maximum(limit - spent, 0.0)
    return tl.where(mass > 0.0, left / tl.where(mass > 0.0, mass, 1.0), 1.0)


@triton.jit
def _solve(
    held, bounds, base, uppers, inside, n, limit, low, high,
    MODE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """The threshold of every row that has a limit, and the ratio of its free shares."""
    if MODE == 0:
        anchor, offset = softmax_threshold(
            held, bounds, base, uppers, inside, n, limit, MODE, N, HELD
        )
        ratio = _ratio(held, bounds, base, uppers, inside, n, limit, anchor, offset, MODE, N, HELD)
    else:
        low = tl.where(limit > 0.0, low, high)
        anchor, offset = line_threshold(
            held, bounds, base, uppers, inside, n, limit, low, high, MODE, N, HELD
        )
        ratio = limit * 0.0 + 1.0
    return anchor, offset, ratio


@triton.jit(do_not_specialize=["pace", "number", "slack", "count"])
def bounded_kernel(
    scores, uppers, probs, places, totals, pace, number, slack, count, n,
    MODE: tl.constexpr, ROWS: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Distributions under bounds, and the places of their entries.

    Beside the arguments that ``rows.py`` describes:

        scores: a matrix.
        uppers: the same shape; not read for a budget.
        probs: the same shape, written.
        places: the same shape, bytes, written.
        slack: the bits of how much bounds may be off.
        MODE: see ``boxes.py``.
    """
    rows = row_numbers(M)
    inside = rows < count
    NARROW: tl.constexpr = scores.dtype.element_ty
    base, upper_base = scores + rows * n, uppers + rows * n
    total = row_parameters(totals, pace, number, rows, inside, ROWS, M)
    slacks = total * 0.0 + as_double(slack)
    score, upper, available, low, high, allowed, faults, nans = survey_boxes(
        base, upper_base, inside, n, slacks.to(NARROW), total.to(NARROW), MODE, N, HELD
    )
    short = (available < total - slacks) & (allowed > 0)
    bad = (faults + nans > 0) | short | ((total > 0.0) == 0)
    tight = available <= total
    limit = tl.where(bad | tight, 0.0, total).to(NARROW)
    anchor, offset, ratio = _solve(
        score, upper, base, upper_base, inside, n, limit, low, high, MODE, N, HELD
    )
    for start in range(0, n, N):
        if not HELD:
            score = read(base, inside, start, n, N, -float("inf"))
            upper = load_bounds(upper_base, score, inside, start, n, MODE, N)
        _finish(
            score, upper, limit, anchor, offset, ratio, tight, bad,
            probs + rows * n, places + rows * n, inside, start, n, MODE, N,
        )  # fmt: skip


@triton.jit
def _finish(
    scores, upper, limit, anchor, offset, ratio, tight, bad, out, places, inside, start, n,
    MODE: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Write the shares and places of a chunk."""
    allowed = scores != -float("inf")
    score, bound = capped(scores, upper, limit, MODE)
    share, full = _untied(upper, limit, score, bound, anchor, offset, MODE)
    if MODE == 0:
        share = tl.where(full, share, tl.minimum(share * ratio[:, None], bound))
        full = full | (share >= bound)
    share = tl.where(tight[:, None], tl.maximum(upper, 0.0), share)
    full = allowed & (upper >= 0.0) & (full | tight[:, None])
    free = allowed & (full == 0) & (share > 0.0)
    share = tl.where(allowed, share, 0.0)
    share = tl.where(bad[:, None], float("nan"), share)
    place = tl.where(full, _FULL, tl.where(free, _FREE, 0))
    write(out, inside, start, n, N, share)
    write(places, inside, start, n, N, tl.where(bad[:, None], 0, place))


@triton.jit
def _load(base, places, grads, inside, start, n, ORDER: tl.constexpr, N: tl.constexpr):
    """``s`` of a chunk, the places, and ``g`` where it counts, which is where ``p`` is no zero."""
    place = read(places, inside, start, n, N, 0)
    free = place == _FREE
    slope = read_where(base, free, start, n, N) if ORDER == 0 else free.to(base.dtype.element_ty)
    return slope, place, read_where(grads, place > 0, start, n, N)


@triton.jit
def _weighted(slope, grads):
    """``Σ s g``, where a ``g`` that does not count may be anything."""
    return tl.sum(tl.where(slope > 0.0, slope * grads, 0.0), 1)


@triton.jit(do_not_specialize=["count"])
def bounded_backward_kernel(
    probs, places, grads, out, uppers, totals, count, n,
    ORDER: tl.constexpr, UPPER: tl.constexpr, TOTAL: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """``s (g - m)``; ``g - m`` for bounds that are met, and ``m`` for the total.

    Beside the arguments that ``rows.py`` describes:

        probs: a matrix.
        places: the same shape, bytes.
        grads: the same shape.
        out: the same shape, gradients of the scores, written.
        uppers: the same shape, gradients of the bounds, written with ``UPPER``.
        totals: gradients of the totals, one per row, written with ``TOTAL``.
        ORDER: 0 for softmax, where ``s = p``; 1 for sparsemax, where ``s`` is one.
        UPPER: write gradients of the bounds.
        TOTAL: write gradients of the totals.
    """
    rows = row_numbers(M)
    inside = rows < count
    base, place_base, grad_base = probs + rows * n, places + rows * n, grads + rows * n
    slope, place, grad = _load(base, place_base, grad_base, inside, 0, n, ORDER, N)
    total, weighted = tl.sum(slope, 1), _weighted(slope, grad)
    if not HELD:
        for start in range(N, n, N):
            slope, place, grad = _load(base, place_base, grad_base, inside, start, n, ORDER, N)
            total, weighted = total + tl.sum(slope, 1), weighted + _weighted(slope, grad)
    spends = total > 0.0
    mean = tl.where(spends, weighted / tl.where(spends, total, 1.0), 0.0)
    for start in range(0, n, N):
        if not HELD:
            slope, place, grad = _load(base, place_base, grad_base, inside, start, n, ORDER, N)
        moved = grad - mean[:, None]
        write(out + rows * n, inside, start, n, N, tl.where(slope > 0.0, slope * moved, 0.0))
        if UPPER:
            full = (place == _FULL) & spends[:, None]
            write(uppers + rows * n, inside, start, n, N, tl.where(full, moved, 0.0))
    if TOTAL:
        tl.store(totals + rows, mean, mask=inside)
