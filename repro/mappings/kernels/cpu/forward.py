"""Sparsemax, 1.5-entmax and their losses: one read and one write of every row."""

import math

import numpy as np

from repro.mappings.kernels.cpu import closed, tiles
from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.extremes import largest
from repro.mappings.kernels.cpu.scratch import borrowed, give_back
from repro.mappings.kernels.cpu.search import (
    BLOCK,
    OUT,
    PAD,
    block_maxima,
    clamped,
    gather_blocks,
    gather_maxima,
    load,
    scaled_score,
)

TILED = 512
"""Rows up to this length are solved without a search, eight at a time."""


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


@small
def moment_of(row, top, order, probs):
    """``Σ p w``."""
    zero, lowest = row.dtype.type(0), row.dtype.type(OUT)
    scale, moment = row.dtype.type(order), zero
    for j in range(np.uint64(row.shape[0])):
        moment += probs[j] * tiles.candidate(row[j], top, scale, lowest, zero)
    return moment


@inner
def again(row, top, order, out):
    """Solve a row whose tile met a kink in its last step, or is too tied for single precision."""
    lists, tolerance = new_lists(1, row.shape[0], row.dtype), closed.tolerance_for(row)
    load(row, row.shape[0], top, order, lists[0])
    c = closed.descend_roughly(lists, 0, row.shape[0], 1.0, order, closed.last_excess(lists))
    return closed.solve(lists, 0, row.shape[0], lists.shape[1], c, order, tolerance, out)


@small
def find_tops(scores, first, last, tops, bads):
    """The largest entries of the rows of a tile."""
    highest = np.finfo(scores.dtype).max
    for k in range(tiles.LANES):
        top, bads[k] = largest(scores[min(first + k, last)])
        tops[k] = top if top < highest else highest


@small
def finish(row, top, bad, order, c, step, tolerance, out):
    """Write a row of a tile; return what :func:`judge` wants but for ``Σ p w``."""
    if fill_bad(top, bad, out):
        return 1.0, math.nan
    total = tiles.write_row(row, top, order, c, step, out)
    if abs(total - 1.0) <= tolerance:
        return np.float64(total), (1.0 - (np.float64(c) - step)) / order
    total, _, lead = again(row, top, order, out)
    return total, lead


@inner
def tiled_rows(scores, order, targets, ignored, probs, losses, start, stop):
    """Solve rows that fit in tiles; return how many targets are no class."""
    last, wrong, tolerance = stop - 1, 0, 4.0 * np.finfo(scores.dtype).eps
    memory, sums = tiles.new_tile(scores.shape[1], scores.dtype), tiles.new_sums(scores.dtype)
    bads, tile, tops = np.empty(tiles.LANES, np.bool_), borrowed(memory, 0), borrowed(sums, 0)
    cs, steps, scales = borrowed(sums, 1), borrowed(sums, 2), borrowed(sums, 5)
    scales[:] = order
    for first in range(start, stop, tiles.LANES):
        find_tops(scores, first, last, tops, bads)
        tiles.load_tile(scores, first, last, tops, scales, tile)
        tiles.descend_tile(tile, cs, steps, order, borrowed(sums, 3), borrowed(sums, 4))
        for k in range(min(tiles.LANES, stop - first)):
            i = first + k
            total, lead = finish(
                scores[i], tops[k], bads[k], order, cs[k], steps[k], tolerance, probs[i]
            )
            if losses.shape[0] > 0:
                solution = total, moment_of(scores[i], tops[k], order, probs[i]), lead
                losses[i], none = judge(scores[i], tops[k], order, solution, targets[i], ignored)
                wrong += none
    give_back(memory)
    give_back(sums)
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
    if scores.shape[1] <= TILED:
        return tiled_rows(scores, order, targets, ignored, probs, losses, start, stop)
    return long_closed_rows(scores, order, targets, ignored, probs, losses, start, stop)
