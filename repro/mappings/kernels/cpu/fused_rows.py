"""The kernel of fusedmax: total variation of the entries that can have mass, and its threshold.

A row is read twice, the second time from the cache, and its entries and groups are written: 12
bytes for each entry in single precision. Long rows take time linear in their length.

Of the levels ``y`` only what lies above the threshold ``τ`` counts, and the set ``{y > t}``
minimises ``Σ_S (t - x_j) + λ |∂S|``. An entry at or below ``t - 2 λ`` is not in it: without it the
sum falls by at least ``2 λ``, and the boundary grows by at most two. As no level is farther than
``2 λ`` from its score, ``τ >= max x - 1 - 2 λ``; so entries below ``max x - 1 - 4 λ`` are outside
all these sets, and what lies between them are problems of their own, in which each neighbour that
is outside lowers an end by ``λ``.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu import closed_tiles, fused_tiles, tiles
from repro.mappings.kernels.cpu._compile import spliced
from repro.mappings.kernels.cpu.fused_candidates import narrowed
from repro.mappings.kernels.cpu.fused_splits import split
from repro.mappings.kernels.cpu.lanes import load, store
from repro.mappings.kernels.cpu.levels import blank, simplex_level
from repro.mappings.kernels.cpu.scratch import borrowed, give_back
from repro.mappings.kernels.cpu.support import reaching, word_count
from repro.mappings.kernels.cpu.total_variation import gaps_between, pieces
from repro.mappings.kernels.cpu.vectors import (
    both,
    count,
    either,
    excluding,
    magnitude,
    splat,
    where,
)

TILED = 512
"""Rows up to this length are solved in tiles."""
LEAST, MOST = 1e-5, 0.5
"""For such ``λ``: below, single precision does not tell ties; above, it takes digits of shares."""


@spliced
def fused_row(row, lam, limit, desk, probs, groups):
    """Fusedmax of a row; a group has the number of its first entry."""
    rooms, heights, gaps, levels, sizes, ones, words, jumps, places, segments = desk
    top, settled = blank(row, limit, probs, groups)
    if settled:
        return
    found = reaching(row, top, limit, max(-(1.0 + 4.0 * lam), -limit), heights, words, places)
    found = narrowed(heights, places, found, lam)
    gaps_between(row, top, limit, places, found, gaps)
    runs = pieces(heights, gaps, ones, found, lam, rooms, jumps, levels, sizes, segments)
    (tau, mass), first = simplex_level(levels, sizes, runs), 0
    for k in range(found):
        first = k if segments[k] != segments[first] else first
        share = (levels[segments[k]] - tau) / mass
        if share > 0.0:
            probs[places[k]], groups[places[k]] = share, places[first]


@spliced
def _bound(scores, first, last, lam, lowest, desk):
    """A bound of ``T`` in every lane; also which lanes have no finite maximum."""
    tops, limits, bads, lists, tile = desk
    one = scores.dtype.type(1)
    top = tiles.take_heads(scores, first, last, lists, tile, bads)
    odd = either(either(top == math.inf, top == -math.inf), load(bads, 0) > 0.0)
    top = tiles.clamped(top, -lowest)
    tiles.centre(tile, tiles.head_columns(tile), top, one)
    c, _ = closed_tiles.descend(
        tile, tiles.head_columns(tile), splat(one), one, closed_tiles.COARSE
    )
    store(tops, 0, top)
    store(limits, 0, tiles.limits_of(c) - 4.0 * lam)
    return -1.0 * c, odd


@spliced
def _solve_tile(scores, first, last, lam, lowest, desk):
    """Have the shares of the rows of a tile in lists, and which rows to solve in another way."""
    tops, limits, bads, odds, lasts, lists, ranks, tile, places, bonuses, insides, bests = (
        desk[:12]
    )  # fmt: skip
    positions, ends = desk[12:]
    level, odd = _bound(scores, first, last, lam, lowest, (tops, limits, bads, lists, tile))
    columns = fused_tiles.take(
        scores, first, last, tops, limits, lowest, (positions, lists, ranks, tile, places), ends,
        lasts,
    )  # fmt: skip
    fused_tiles.link(tile, places, columns, load(lasts, 0), lam, bonuses)
    level, step = fused_tiles.ascend(
        tile, bonuses, columns, level, closed_tiles.last_excess(tile), insides, bests
    )
    linked = fused_tiles.trace_back(tile, bonuses, columns, level, lam, insides, bests)
    levels, undone = tile, odd
    if count(linked) > 0:
        zero = level - level
        undone = either(odd, split(tile, bonuses, columns, lam, zero, insides, bests))
        levels = insides
    excess, size = fused_tiles.share_out(levels, bonuses, places, columns, step)
    fused_tiles.settle(levels, columns, excess / size)
    rounding = np.finfo(scores.dtype).eps
    # A step back means that T is above the root, where what is tied at the threshold is missing.
    near = both(magnitude(excess) <= 2.0 * rounding, step >= -0.25 * rounding)
    solved = excluding(near, undone)
    store(odds, 0, where(solved, splat(scores.dtype.type(0)), 1.0))
    fused_tiles.give(levels, places, columns, tiles.stride_of(scores), lists, ranks)


@spliced
def _tiled_rows(scores, lam, lowest, probs, groups, odd_rows, start, stop):
    """Solve rows in tiles; list those that have to be solved in another way, and return how many.

    Which rows these are does not depend on the others of their tile.
    """
    width, stride, odd = tiles.width_of(scores), tiles.stride_of(scores), 0
    numbers, memory = tiles.new_numbers(scores, 5), np.empty((7, stride * width), scores.dtype)
    counting, ends = np.empty((1, stride), scores.dtype), np.zeros((1, width), np.int64)
    for j in range(stride):
        counting[0, j] = j
    desk = (
        borrowed(numbers, 0), borrowed(numbers, 1), borrowed(numbers, 2), borrowed(numbers, 3),
        borrowed(numbers, 4), borrowed(memory, 0), borrowed(memory, 1), borrowed(memory, 2),
        borrowed(memory, 3), borrowed(memory, 4), borrowed(memory, 5), borrowed(memory, 6),
        borrowed(counting, 0), borrowed(ends, 0),
    )  # fmt: skip
    tops, limits, odds, lists, ranks = desk[0], desk[1], desk[3], desk[5], desk[6]
    for first in range(start, stop, width):
        _solve_tile(scores, first, stop - 1, lam, lowest, desk)
        for k in range(min(width, stop - first)):
            i = first + k
            if odds[k] == 0.0:
                fused_tiles.write(
                    scores[i], tops[k], limits[k], lists, ranks, k * stride, probs[i], groups[i]
                )
            else:
                odd_rows[odd] = i
                odd += 1
    give_back(numbers), give_back(memory), give_back(counting), give_back(ends)
    return odd


@spliced
def _rows_alone(scores, lam, limit, probs, groups, chosen, count):
    """Solve listed rows, one after the other."""
    n = scores.shape[1]
    reals, integers = np.empty((10, 2 * n + 1)), np.empty((3, n + 1), np.int32)
    word_memory = np.empty((1, word_count(n)), np.uint64)
    rooms = (
        borrowed(reals, 0), borrowed(reals, 1), borrowed(reals, 2), borrowed(reals, 3),
        borrowed(reals, 4),
    )  # fmt: skip
    desk = (
        rooms, borrowed(reals, 5), borrowed(reals, 6), borrowed(reals, 7), borrowed(reals, 8),
        borrowed(reals, 9), borrowed(word_memory, 0), borrowed(integers, 0),
        borrowed(integers, 1), borrowed(integers, 2),
    )  # fmt: skip
    ones = desk[5]
    for j in range(n):
        ones[j] = 1.0
    for k in range(count):
        i = chosen[k]
        fused_row(scores[i], lam, limit, desk, probs[i], groups[i])
    give_back(reals), give_back(integers), give_back(word_memory)


@spliced
def fused_rows(scores, lam, limit, probs, groups, start, stop):
    """Fusedmax of rows ``start`` to ``stop``, and the segments of their entries."""
    count, chosen = stop - start, np.empty(stop - start, np.int64)
    for k in range(count):
        chosen[k] = start + k
    if scores.shape[1] <= TILED and LEAST <= lam <= MOST:
        lowest = -np.finfo(scores.dtype).max
        count = _tiled_rows(
            scores, scores.dtype.type(lam), lowest, probs, groups, chosen, start, stop
        )
    if count > 0:
        _rows_alone(scores, lam, limit, probs, groups, chosen, count)
