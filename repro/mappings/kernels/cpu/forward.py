"""The kernels of α-entmax and of its losses: one read and one write of every row."""

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
    gather_blocks,
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
def scatter(shares, total, places, count, out):
    """Write a row: zero, but for the candidates."""
    out[:] = 0.0
    scale = 1.0 / total
    for k in range(count):
        out[places[k]] = shares[k] * scale


@small
def spread(shares, count, scale, out):
    """Write shares next to each other."""
    for j in range(count):
        out[j] = shares[j] * scale


@small
def scatter_blocks(shares, total, places, count, out):
    """The same where the candidates are whole blocks."""
    out[:] = 0.0
    scale = 1.0 / total
    for k in range(count):
        block = out[places[k] * BLOCK : (places[k] + 1) * BLOCK]
        part = shares[k * BLOCK : (k + 1) * BLOCK]
        if block.shape[0] == BLOCK:
            spread(part, BLOCK, scale, block)
        else:
            spread(part, block.shape[0], scale, block)


@small
def fill_bad(top, bad, out):
    """Fill a row that has no maximum; True if it has none."""
    if bad:
        out[:] = math.nan
    elif top == -math.inf:
        out[:] = 0.0
    return bad or top == -math.inf


@inner
def judge(row, top, order, solution, target, ignored):
    """The loss ``max_Ω(z) - z_y`` of a row, and whether the target is no class.

    With ``p^r = w + c`` on the support, ``<p, z> - Ω(p)`` is ``(Σ p w + (1 - c) / r) / (1 + r)``.
    """
    if target == ignored:
        return 0.0, 0
    if target < 0 or target >= row.shape[0]:
        return math.nan, 1
    if row[target] == -math.inf:
        return math.inf, 0
    total, moment, lead = solution
    best = (moment / total + lead) / (1.0 + order)
    gap = best - scaled_score(row[target], clamped(top, np.finfo(row.dtype).max), 1.0)
    return (gap if not gap < 0.0 else 0.0), 0


@inner
def closed_row(row, order, zero, tolerance, maxima, lists, shares, places, out):
    """Sparsemax or 1.5-entmax of a long row."""
    count = gather_maxima(maxima, zero, order, lists)
    c = closed.descend_roughly(lists, 0, count, 1.0, order, closed.COARSE)
    blocks = gather_blocks(row, maxima, zero, order, c, lists, places)
    count = blocks * BLOCK
    c = closed.descend_roughly(lists, 0, count, c, order, closed.last_excess(lists))
    solution = closed.solve(lists, 0, count, count, c, order, tolerance, shares)
    scatter_blocks(shares, solution[0], places, blocks, out)
    return solution


@inner
def level_row(row, order, zero, maxima, lists, shares, places, out):
    """Any other α-entmax of a row, in the precision of the list."""
    start = 0.0
    if order <= 1.0 and row.shape[0] > SHORT:
        start = level.bound(lists[0], gather_maxima(maxima, zero, order, lists), order)
    c = 1.0 / level.growth_at(order, start)
    count = gather(row, maxima, zero, order, c, lists, places)
    solution = level.solve(lists[0], pad(lists, 0, count), start, order, shares)
    scatter(shares, solution[0], places, count, out)
    return solution


@small
def load_group(scores, first, order, lists, tops, bads):
    """Load a group of short rows; past the end the last row once more."""
    largest = np.finfo(scores.dtype).max
    for g in range(GROUP):
        row = scores[min(first + g, scores.shape[0] - 1)]
        tops[g], bads[g] = part_maximum(row)
        load(row, row.shape[0], clamped(tops[g], largest), order, lists[g])
        if bads[g] or tops[g] == -math.inf:
            lists[g, :] = 0.0


@inner
def short_rows(scores, order, targets, ignored, probs, losses, start, stop):
    """Solve short rows at one closed order; return how many targets are no class."""
    size, wrong = scores.shape[1], 0
    tolerance = closed.tolerance_for(scores)
    lists = new_lists(GROUP, size, scores.dtype)
    tops, bads, cs = np.empty(GROUP, scores.dtype), np.empty(GROUP, np.bool_), np.empty(GROUP)
    for first in range(start, stop, GROUP):
        load_group(scores, first, order, lists, tops, bads)
        cs[:] = 1.0
        closed.descend_group(lists, cs, order)
        for g in range(min(GROUP, stop - first)):
            i = first + g
            solution = closed.solve(
                lists, g, size, lists.shape[1], cs[g], order, tolerance, probs[i]
            )
            if fill_bad(tops[g], bads[g], probs[i]):
                solution = (1.0, math.nan, 0.0)
                lists[g, size:] = OUT
            if losses.shape[0] > 0:
                losses[i], none = judge(scores[i], tops[g], order, solution, targets[i], ignored)
                wrong += none
    return wrong


@inner
def long_closed_rows(scores, order, targets, ignored, probs, losses, start, stop):
    """Solve long rows at one closed order; return how many targets are no class."""
    size, wrong, largest = scores.shape[1], 0, np.finfo(scores.dtype).max
    tolerance = closed.tolerance_for(scores)
    maxima = np.empty((size + BLOCK - 1) // BLOCK, scores.dtype)
    lists = new_lists(1, size, scores.dtype)
    shares, places = np.empty(lists.shape[1]), np.empty(lists.shape[1], np.int32)
    for i in range(start, stop):
        row, solution = scores[i], (1.0, math.nan, 0.0)
        top, bad = block_maxima(row, maxima)
        if not fill_bad(top, bad, probs[i]):
            zero = clamped(top, largest)
            solution = closed_row(
                row, order, zero, tolerance, maxima, lists, shares, places, probs[i]
            )
        if losses.shape[0] > 0:
            losses[i], none = judge(row, top, order, solution, targets[i], ignored)
            wrong += none
    return wrong


@inner
def closed_rows(scores, order, targets, ignored, probs, losses, start, stop):
    """Sparsemax or 1.5-entmax of rows ``start`` to ``stop``, and losses where there is room.

    Returns:
        How many targets are no class.
    """
    if scores.shape[1] <= SHORT:
        return short_rows(scores, order, targets, ignored, probs, losses, start, stop)
    return long_closed_rows(scores, order, targets, ignored, probs, losses, start, stop)


@inner
def level_rows(scores, order, orders, targets, ignored, probs, losses, start, stop):
    """The same at any order, or at one order for each row where there are some."""
    size, wrong, largest = scores.shape[1], 0, np.finfo(scores.dtype).max
    maxima = np.empty((size + BLOCK - 1) // BLOCK, scores.dtype)
    wide, narrow = new_lists(1, size, np.float64), new_lists(1, size, scores.dtype)
    shares, places = np.empty(wide.shape[1]), np.empty(wide.shape[1], np.int32)
    for i in range(start, stop):
        row, solution = scores[i], (1.0, math.nan, 0.0)
        order = orders[i] if orders.shape[0] > 0 else order
        top, bad = block_maxima(row, maxima)
        if not fill_bad(top, bad or not order >= 0.0, probs[i]):
            order, zero = max(order, _SMALLEST_ORDER), clamped(top, largest)
            # Not Lipschitz above 1: single precision would leave few digits of small entries.
            if order > 1.0:
                solution = level_row(row, order, zero, maxima, wide, shares, places, probs[i])
            else:
                solution = level_row(row, order, zero, maxima, narrow, shares, places, probs[i])
        if losses.shape[0] > 0:
            losses[i], none = judge(row, top, order, solution, targets[i], ignored)
            wrong += none
    return wrong
