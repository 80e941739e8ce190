"""The kernel of α-entmax and of its losses: one read and one write of every row."""

import math

import numpy as np

from repro.mappings.kernels.cpu import closed, level
from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.search import (
    BLOCK,
    OUT,
    PAD,
    block_maxima,
    clamped,
    gather,
    gather_maxima,
    load,
    pad,
    part_maximum,
    scaled_score,
)

SHORT = 128
"""Rows up to this length are solved without a search, in groups where steps are cheap."""
GROUP = 8
_SMALLEST_ORDER = 1e-20
"""Stands for softmax: small enough that ``log1p(r x) / r`` is ``x`` to the last bit."""


@small
def new_lists(count, size, dtype):
    """Room for lists of candidates, filled up with entries that get nothing."""
    return np.full((count, (size + PAD - 1) // PAD * PAD), OUT, dtype)


@small
def scatter(shares, total, places, count, out, i):
    """Write row ``i``: zero, but for the candidates."""
    out[i, :] = 0.0
    scale = 1.0 / total
    for k in range(count):
        out[i, places[k]] = shares[k] * scale


@small
def spread(shares, total, out, i):
    """Write row ``i`` from the shares of all its entries."""
    scale = 1.0 / total
    for j in range(out.shape[1]):
        out[i, j] = shares[j] * scale


@small
def fill_bad(top, bad, out, i):
    """Fill a row that has no maximum; True if it has none."""
    if bad:
        out[i, :] = math.nan
    elif top == -math.inf:
        out[i, :] = 0.0
    return bad or top == -math.inf


@inner
def judge(scores, i, top, largest, order, solution, target, ignored):
    """The loss ``max_Ω(z) - z_y`` of row ``i``, and whether the target is no class.

    With ``p^r = w + c`` on the support, ``<p, z> - Ω(p)`` is ``(Σ p w + (1 - c) / r) / (1 + r)``.
    """
    if target == ignored:
        return 0.0, 0
    if target < 0 or target >= scores.shape[1]:
        return math.nan, 1
    if scores[i, target] == -math.inf:
        return math.inf, 0
    total, moment, lead = solution
    best = (moment / total + lead) / (1.0 + order)
    gap = best - scaled_score(scores[i, target], clamped(top, largest), 1.0)
    return (gap if not gap < 0.0 else 0.0), 0


@inner
def closed_row(scores, i, order, zero, tolerance, maxima, lists, shares, places, out):
    """Sparsemax or 1.5-entmax of a long row."""
    c = closed.bound(lists, 0, gather_maxima(maxima, zero, order, lists), order)
    count = gather(scores, i, maxima, zero, order, c, lists, places)
    solution = closed.solve(lists, 0, pad(lists, 0, count), c, order, tolerance, shares)
    scatter(shares, solution[0], places, count, out, i)
    return solution


@inner
def level_row(scores, i, order, zero, maxima, lists, shares, places, out):
    """Any other α-entmax of a row, in the precision of the list."""
    start = 0.0
    if order <= 1.0 and scores.shape[1] > SHORT:
        start = level.bound(lists[0], gather_maxima(maxima, zero, order, lists), order)
    c = 1.0 / level.growth_at(order, start)
    count = gather(scores, i, maxima, zero, order, c, lists, places)
    solution = level.solve(lists[0], pad(lists, 0, count), start, order, shares)
    scatter(shares, solution[0], places, count, out, i)
    return solution


@small
def load_group(scores, first, order, largest, rough, fine, tops, bads):
    """Load a group of short rows in both precisions; past the end the last row once more."""
    for g in range(GROUP):
        i = min(first + g, scores.shape[0] - 1)
        tops[g], bads[g] = part_maximum(scores, i, 0)
        zero = clamped(tops[g], largest)
        load(scores, i, zero, order, rough, g)
        load(scores, i, zero, order, fine, g)
        if bads[g] or tops[g] == -math.inf:
            rough[g, :] = 0.0
            fine[g, :] = 0.0


@inner
def short_rows(scores, orders, largest, targets, ignored, probs, losses, start, stop):
    """Solve short rows at one closed order; return how many targets are no class."""
    size, order, wrong = scores.shape[1], orders[0], 0
    tolerance = closed.tolerance_for(scores)
    rough, fine = new_lists(GROUP, size, np.float32), new_lists(GROUP, size, np.float64)
    tops, bads = np.empty(GROUP, scores.dtype), np.empty(GROUP, np.bool_)
    cs, shares = np.empty(GROUP), np.empty(fine.shape[1])
    for first in range(start, stop, GROUP):
        load_group(scores, first, order, largest, rough, fine, tops, bads)
        cs[:] = 1.0
        closed.descend_group(rough, cs, order)
        for g in range(min(GROUP, stop - first)):
            i = first + g
            solution = closed.solve(fine, g, fine.shape[1], cs[g], order, tolerance, shares)
            spread(shares, solution[0], probs, i)
            if fill_bad(tops[g], bads[g], probs, i):
                solution = (1.0, math.nan, 0.0)
                fine[g, size:] = OUT
                rough[g, size:] = OUT
            if losses.shape[0] > 0:
                losses[i], none = judge(
                    scores, i, tops[g], largest, order, solution, targets[i], ignored
                )
                wrong += none
    return wrong


@inner
def long_rows(scores, orders, largest, targets, ignored, probs, losses, start, stop):
    """Solve rows of any length and order; return how many targets are no class."""
    size, wrong, stride = scores.shape[1], 0, 1 if orders.shape[0] > 1 else 0
    tolerance = closed.tolerance_for(scores)
    maxima = np.empty((size + BLOCK - 1) // BLOCK, scores.dtype)
    wide, narrow = new_lists(1, size, np.float64), new_lists(1, size, scores.dtype)
    shares, places = np.empty(wide.shape[1]), np.empty(wide.shape[1], np.int32)
    for i in range(start, stop):
        order, solution = orders[i * stride], (1.0, math.nan, 0.0)
        top, bad = block_maxima(scores, i, maxima)
        if not fill_bad(top, bad or not order >= 0.0, probs, i):
            order, zero = max(order, _SMALLEST_ORDER), clamped(top, largest)
            if closed.is_closed(order):
                solution = closed_row(
                    scores, i, order, zero, tolerance, maxima, wide, shares, places, probs
                )
            elif order > 1.0:
                # Not Lipschitz: single precision would leave few digits of the smallest entries.
                solution = level_row(scores, i, order, zero, maxima, wide, shares, places, probs)
            else:
                solution = level_row(scores, i, order, zero, maxima, narrow, shares, places, probs)
        if losses.shape[0] > 0:
            losses[i], none = judge(scores, i, top, largest, order, solution, targets[i], ignored)
            wrong += none
    return wrong


@inner
def forward_rows(scores, orders, largest, targets, ignored, probs, losses, start, stop):
    """Distributions of rows ``start`` to ``stop``, and losses where there is room for them.

    Returns:
        How many targets are no class.
    """
    if scores.shape[1] <= SHORT and orders.shape[0] == 1 and closed.is_closed(orders[0]):
        return short_rows(scores, orders, largest, targets, ignored, probs, losses, start, stop)
    return long_rows(scores, orders, largest, targets, ignored, probs, losses, start, stop)
