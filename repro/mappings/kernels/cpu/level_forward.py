"""α-entmax at any order and its losses: one read and one write of every row."""

import math

import numpy as np

from repro.mappings.kernels.cpu import level, level_tiles, steep_tiles, tiles
from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.extremes import largest
from repro.mappings.kernels.cpu.forward import (
    TILED,
    fill_bad,
    find_tops,
    judge,
    new_lists,
    scatter,
)
from repro.mappings.kernels.cpu.scratch import borrowed, borrowed_rows, give_back
from repro.mappings.kernels.cpu.search import (
    BLOCK,
    block_maxima,
    clamped,
    gather,
    gather_maxima,
    pad,
)
from repro.mappings.kernels.cpu.support import word_count

SHORT = 128
"""Rows up to this length are solved one by one without a search."""
_KINK, _SHARP_KINK = 1e-6, 3e-7
"""Excess mass of a row that is solved again, as its last step has met a kink; above ``r = ½``."""
_SHARP = 0.5
_SMALLEST_ORDER = 1e-20
"""Stands for softmax: small enough that ``log1p(r x) / r`` is ``x`` to the last bit."""
_NEITHER, _GENTLE, _STEEP = range(3)
"""Tiles are solved in single precision, in double, or not at all."""


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


@inner
def plain_level_rows(scores, order, orders, targets, ignored, double, probs, losses, start, stop):
    """Solve rows one by one, perhaps in double precision; return how many targets are no class."""
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
            if double or order > 1.0:
                solution = level_row(row, order, zero, maxima, wide, shares, places, probs[i])
            else:
                solution = level_row(row, order, zero, maxima, narrow, shares, places, probs[i])
        if losses.shape[0] > 0:
            losses[i], none = judge(row, top, order, solution, targets[i], ignored)
            wrong += none
    return wrong


@small
def take_orders(orders, order, first, last, taken):
    """The orders of the rows of a tile, and how it is solved."""
    gentle, steep = True, True
    for k in range(tiles.LANES):
        taken[k] = orders[min(first + k, last)] if orders.shape[0] > 0 else order
        taken[k + tiles.LANES] = taken[k]
        gentle &= (taken[k] >= level_tiles.LOWEST_ORDER) & (taken[k] <= 1.0)
        steep &= (taken[k] > 1.0) & (taken[k] < math.inf)
    return _GENTLE if gentle else (_STEEP if steep else _NEITHER)


@inner
def gentle_tile(scores, first, last, lanes, sums, desk, probs):
    """Solve eight rows of orders up to one; write which of them have to be solved again."""
    tile, shares, bads, left = desk
    taken, cuts, wanted = borrowed(lanes, 0), borrowed(lanes, 1), borrowed(lanes, 2)
    tops, totals = borrowed(sums, 0), borrowed(lanes, 3)
    find_tops(scores, first, last, tops, bads)
    tiles.load_tile(scores, first, last, tops, taken, tile)
    level_tiles.solve_tile(
        tile, shares, taken, cuts, wanted, totals, borrowed(sums, 1), borrowed(sums, 2),
        borrowed(sums, 3), borrowed(sums, 4), borrowed(sums, 5),
    )  # fmt: skip
    for k in range(min(tiles.LANES, last + 1 - first)):
        left[k] = False
        if not fill_bad(tops[k], bads[k], probs[first + k]):
            enough = _KINK if taken[k] <= _SHARP else _SHARP_KINK
            left[k] = not abs(totals[k] * wanted[k] - 1.0) <= enough
            level_tiles.write_row(shares, k, totals[k], probs[first + k])


@inner
def steep_tile(scores, first, last, orders, desk, left, probs):
    """Solve eight rows of orders above one; write which of them have to be solved again."""
    lists, found, words, counts, sums, state = desk
    tile, shares, heights = borrowed(lists, 0), borrowed(lists, 1), borrowed(lists, 2)
    columns, highest = 0, np.finfo(scores.dtype).max
    for k in range(tiles.LANES):
        row, counts[k] = scores[min(first + k, last)], 0
        top, bad = largest(row)
        if not bad and top > -math.inf:
            counts[k] = steep_tiles.gather_lane(
                row, clamped(top, highest), highest, orders[k], k, heights, words,
                borrowed(found, k), tile,
            )  # fmt: skip
        columns = max(columns, counts[k])
    for k in range(tiles.LANES):
        steep_tiles.fill_lane(tile, k, counts[k], columns)
    steep_tiles.solve_steep(tile, columns, orders, sums, state, shares)
    for k in range(min(tiles.LANES, last + 1 - first)):
        top, bad = largest(scores[first + k]) if counts[k] == 0 else (scores.dtype.type(0), False)
        if not fill_bad(top, bad, probs[first + k]):
            left[k] = steep_tiles.has_ties(tile, k, state, counts[k])
            steep_tiles.write_lane(
                shares, k, state, borrowed(found, k), counts[k], probs[first + k]
            )


@inner
def tiled_level_rows(scores, order, orders, targets, ignored, probs, losses, start, stop):
    """Solve rows that fit in tiles; returns zero, as there are no targets."""
    last, size, dtype, width = stop - 1, scores.shape[1], scores.dtype, tiles.LANES
    memory, results = tiles.new_tile(size, dtype), tiles.new_tile(size, dtype)
    sums, lanes = tiles.new_sums(dtype), level_tiles.new_lanes()
    wide_sums = tiles.new_sums(np.float64)
    lists, found = steep_tiles.new_lists(size), np.empty((width, size + 1), np.int32)
    flags, words = np.zeros((2, width), np.bool_), np.empty((1, word_count(size)), np.uint64)
    state, counts = steep_tiles.new_state(), np.zeros((1, width), np.int64)
    taken, left = borrowed(lanes, 0), borrowed(flags, 1)
    gentle_desk = borrowed(memory, 0), borrowed(results, 0), borrowed(flags, 0), left
    steep_desk = (
        borrowed_rows(lists, 0, 3), borrowed_rows(found, 0, width), borrowed(words, 0),
        borrowed(counts, 0), borrowed_rows(wide_sums, 0, 4), borrowed(state, 0),
    )  # fmt: skip
    for first in range(start, stop, width):
        kind = take_orders(orders, order, first, last, taken)
        left[:] = kind == _NEITHER
        if kind == _GENTLE:
            gentle_tile(scores, first, last, lanes, sums, gentle_desk, probs)
        elif kind == _STEEP:
            steep_tile(scores, first, last, taken, steep_desk, left, probs)
        for i in range(first, min(first + width, stop)):
            if left[i - first]:
                plain_level_rows(
                    scores, order, orders, targets, ignored, True, probs, losses, i, i + 1
                )
    for room in (memory, results, sums):
        give_back(room)
    give_back(lanes), give_back(lists), give_back(found), give_back(flags)
    give_back(words), give_back(counts), give_back(wide_sums), give_back(state)
    return 0


@inner
def level_rows(scores, order, orders, targets, ignored, probs, losses, start, stop):
    """α-entmax at any order, or at one order for each row where there are some, and losses.

    Returns:
        How many targets are no class.
    """
    tiled = scores.itemsize == 4 and scores.shape[1] <= TILED and losses.shape[0] == 0
    if tiled:
        return tiled_level_rows(scores, order, orders, targets, ignored, probs, losses, start, stop)
    return plain_level_rows(
        scores, order, orders, targets, ignored, False, probs, losses, start, stop
    )
