"""α-entmax at any order and its losses: one read and one write of every row."""

import math

import numpy as np

from repro.mappings.kernels.cpu import closed_tiles, level, level_tiles, steep_tiles, tiles
from repro.mappings.kernels.cpu._compile import inner, lean
from repro.mappings.kernels.cpu.forward import TILED, fill_bad, judge, new_lists, scatter
from repro.mappings.kernels.cpu.lanes import load, load_wide, store
from repro.mappings.kernels.cpu.scratch import borrowed, give_back
from repro.mappings.kernels.cpu.search import (
    BLOCK,
    block_maxima,
    clamped,
    gather,
    gather_maxima,
    pad,
)
from repro.mappings.kernels.cpu.vectors import where

SHORT = 128
"""Rows up to this length are solved one by one without a search."""
_KINK, _SHARP_KINK = 4e-7, 1.8e-7
"""Excess mass of a row that is solved again, as its last step has met a kink; above ``r = ½``."""
_SETTLED, _SHARP_SETTLED = 2e-7, 1e-7
"""Logarithm of the total mass of a long row above which it is solved again; above ``r = ½``."""
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
    total, moment, lead, gap = level.solve(lists[0], pad(lists, 0, count), start, order, shares)
    scatter(shares, total, places, count, out)
    return (total, moment, lead), gap


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
                solution, _ = level_row(row, order, zero, maxima, wide, shares, places, probs[i])
            else:
                solution, gap = level_row(
                    row, order, zero, maxima, narrow, shares, places, probs[i]
                )
                # Not where the last step has met a kink.
                if not gap <= (_SHARP_SETTLED if order > _SHARP else _SETTLED):
                    solution, _ = level_row(
                        row, order, zero, maxima, wide, shares, places, probs[i]
                    )
        if losses.shape[0] > 0:
            losses[i], none = judge(row, top, order, solution, targets[i], ignored)
            wrong += none
    return wrong


@lean
def take_orders(orders, order, first, last, taken, rounded, slownesses):
    """The orders of the rows of a tile, and how it is solved."""
    gentle, steep = True, True
    for k in range(taken.shape[0]):
        taken[k] = orders[min(first + k, last)] if orders.shape[0] > 0 else order
        rounded[k] = rounded.dtype.type(taken[k])
        slownesses[k] = rounded.dtype.type(1.0 / taken[k])
        gentle &= (taken[k] >= level_tiles.LOWEST_ORDER) & (taken[k] <= 1.0)
        steep &= (taken[k] > 1.0) & (taken[k] < math.inf)
    return _GENTLE if gentle else (_STEEP if steep else _NEITHER)


@lean
def find_candidates(scores, first, last, kind, desk):
    """Have the candidates of the rows of a tile in a tile; return their columns and ``1 / c``."""
    peaks, tops, orders, limits, _, slownesses, bads, lists, tile, _, ends = desk
    order, peak = load(orders, 0), tiles.take_heads(scores, first, last, lists, tile, bads)
    top, columns = tiles.clamped(peak, np.finfo(scores.dtype).max), tiles.head_columns(tile)
    store(peaks, 0, peak)
    store(tops, 0, top)
    tiles.centre(tile, columns, top, order)
    if kind == _GENTLE:
        growth = level_tiles.bound(tile, order, load(slownesses, 0))
    else:
        one = order - order + 1.0
        growth = one / closed_tiles.descend(tile, columns, one, 1.0, closed_tiles.COARSE)[0]
    store(limits, 0, tiles.limits_of(1.0 / growth))
    columns = tiles.take_candidates(scores, first, last, tops, orders, limits, lists, ends, tile)
    return columns, growth


@lean
def gentle_tile(columns, size, growth, taken, wanted, room, left, desk):
    """Solve the rows of a tile of orders up to one; note which have to be solved again."""
    _, tops, orders, _, found, slownesses, _, _, tile, shares, _ = desk
    order = load(orders, 0)
    tiles.centre(tile, columns, load(tops, 0), order)
    total = level_tiles.solve(
        tile, columns, size, shares, taken, growth, order, load(slownesses, 0), wanted, room
    )
    store(found, 0, total)
    for k in range(level_tiles.LANES):
        enough = _KINK if taken[k] <= _SHARP else _SHARP_KINK
        left[k] = not abs(found[k] * wanted[k] - 1.0) <= enough
        found[k] = found.dtype.type(1) / found[k]


@lean
def steep_tile(columns, size, taken, doubles, left, desk):
    """Solve the columns of a tile whose orders are above one."""
    _, tops, _, _, found, _, _, _, tile, shares, _ = desk
    candidates, powers, ties = doubles
    width = tiles.width_of(candidates)
    for half in range(2):
        order, top = load(taken, half * width), load_wide(tops, half * width)
        steep_tiles.take_half(tile, columns, half, top, order, candidates)
        total, tied = steep_tiles.solve(candidates, columns, size, order, powers)
        steep_tiles.give_half(powers, columns, half, total, shares)
        store(ties, half * width, where(tied, 1.0, 0.0 * total))
    for k in range(level_tiles.LANES):
        left[k], found[k] = ties[k] > 0.0, found.dtype.type(1)


@lean
def write_tile(scores, first, stop, left, desk, probs):
    """Write the rows of a tile that are solved; return how many are not."""
    peaks, tops, orders, limits, found, _, bads, lists, _, _, _ = desk
    stride, again = tiles.stride_of(scores), 0
    for k in range(min(tiles.width_of(scores), stop - first)):
        left[k] |= (bads[k] > 0.0) | (peaks[k] == -math.inf)
        again += left[k]
        if not left[k]:
            tiles.scatter(
                scores[first + k], tops[k], orders[k], limits[k], found[k], lists, k * stride,
                probs[first + k],
            )  # fmt: skip
    return again


@lean
def solve_tile(scores, first, stop, kind, taken, wanted, room, doubles, left, desk, probs):
    """Solve the rows of a tile; return how many have to be solved in another way."""
    columns, growth = find_candidates(scores, first, stop - 1, kind, desk)
    if kind == _GENTLE:
        gentle_tile(columns, scores.shape[1], growth, taken, wanted, room, left, desk)
    else:
        steep_tile(columns, scores.shape[1], taken, doubles, left, desk)
    tiles.give_shares(desk[9], columns, tiles.stride_of(scores), desk[7])
    return write_tile(scores, first, stop, left, desk, probs)


@inner
def tiled_level_rows(scores, order, orders, targets, ignored, probs, losses, start, stop):
    """Solve rows that fit in tiles; returns zero, as there are no targets."""
    width, stride = level_tiles.LANES, tiles.stride_of(scores)
    numbers, memory = tiles.new_numbers(scores, 12), tiles.new_tiles(scores)
    results, ends = np.empty((1, stride * width), scores.dtype), np.zeros((1, width), np.int64)
    lanes, lefts = np.ones((3, width)), np.zeros((1, width), np.bool_)
    wide = np.empty((2, stride * width // 2))
    desk = (
        borrowed(numbers, 0), borrowed(numbers, 1), borrowed(numbers, 2), borrowed(numbers, 3),
        borrowed(numbers, 4), borrowed(numbers, 5), borrowed(numbers, 6),
        borrowed(memory, 0), borrowed(memory, 1), borrowed(results, 0), borrowed(ends, 0),
    )  # fmt: skip
    room = (
        borrowed(numbers, 7), borrowed(numbers, 8), borrowed(numbers, 9), borrowed(numbers, 10),
        borrowed(numbers, 11),
    )  # fmt: skip
    doubles = borrowed(wide, 0), borrowed(wide, 1), borrowed(lanes, 2)
    taken, wanted, left = borrowed(lanes, 0), borrowed(lanes, 1), borrowed(lefts, 0)
    for first in range(start, stop, width):
        kind, again = take_orders(orders, order, first, stop - 1, taken, desk[2], desk[5]), width
        if kind == _NEITHER:
            left[:] = True
        else:
            again = solve_tile(
                scores, first, stop, kind, taken, wanted, room, doubles, left, desk, probs
            )
        if again > 0:
            solve_again(scores, order, orders, targets, ignored, left, probs, losses, first, stop)
    give_back(numbers), give_back(memory), give_back(results), give_back(ends)
    give_back(lanes), give_back(lefts), give_back(wide)
    return 0


@inner
def solve_again(scores, order, orders, targets, ignored, left, probs, losses, first, stop):
    """Solve the rows of a tile that are left in double precision, one by one."""
    for i in range(first, min(first + left.shape[0], stop)):
        if left[i - first]:
            plain_level_rows(scores, order, orders, targets, ignored, True, probs, losses, i, i + 1)


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
