"""Sparsemax, 1.5-entmax and their losses: one read and one write of every row."""

import math

import numpy as np

from repro.mappings.kernels.cpu import closed, closed_tiles, tiles
from repro.mappings.kernels.cpu._compile import inner, lean, small
from repro.mappings.kernels.cpu.lanes import load as vector_load
from repro.mappings.kernels.cpu.lanes import store
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
from repro.mappings.kernels.cpu.vectors import count, either, splat, where

TILED = 512
"""Rows up to this length are solved in tiles."""


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
def again(row, top, order, out):
    """Solve a row whose tile met a kink in its last step, or is too tied for single precision."""
    lists, tolerance = new_lists(1, row.shape[0], row.dtype), closed.tolerance_for(row)
    load(row, row.shape[0], top, order, lists[0])
    c = closed.descend_roughly(lists, 0, row.shape[0], 1.0, order, closed.last_excess(lists))
    return closed.solve(lists, 0, row.shape[0], lists.shape[1], c, order, tolerance, out)


@lean
def solve_tile(scores, first, last, order, desk):
    """Solve the rows of a tile; how many have to be solved in another way."""
    peaks, tops, orders, cs, steps, totals, moments, scales, bads, lists, tile, ends = desk
    top = tiles.take_heads(scores, first, last, lists, tile, bads)
    store(peaks, 0, top)
    odd = either(either(top == math.inf, top == -math.inf), vector_load(bads, 0) > 0.0)
    top = tiles.clamped(top, np.finfo(scores.dtype).max)
    tiles.centre(tile, tiles.head_columns(tile), top, order)
    c, _ = closed_tiles.descend(
        tile, tiles.head_columns(tile), splat(scores.dtype.type(1)), order, closed_tiles.COARSE
    )
    store(tops, 0, top)
    store(cs, 0, tiles.limits_of(c))
    columns = tiles.take_candidates(scores, first, last, tops, orders, cs, lists, ends, tile)
    tiles.centre(tile, columns, top, order)
    c, step = closed_tiles.descend(tile, columns, c, order, closed_tiles.last_excess(tile))
    total, moment = closed_tiles.total_of(tile, columns, c, step, order)
    tolerance = 2.0 * np.finfo(scores.dtype).eps
    odd = either(odd, either(total > 1.0 + tolerance, total < 1.0 - tolerance))
    store(cs, 0, c)
    store(steps, 0, step)
    store(totals, 0, total)
    store(moments, 0, moment)
    store(scales, 0, where(odd, math.nan, 1.0 / total))
    return count(odd)


@lean
def write_tile(scores, first, stop, order, desk, probs):
    """Write the rows of a tile that are solved."""
    _, tops, _, cs, steps, _, _, scales, _, _, _, _ = desk
    for k in range(min(tiles.width_of(scores), stop - first)):
        if scales[k] > 0.0:
            closed_tiles.write_row(
                scores[first + k], tops[k], order, cs[k], steps[k], scales[k], probs[first + k]
            )


@inner
def finish_tile(scores, first, stop, order, targets, ignored, desk, probs, losses):
    """Write the other rows, and losses; return how many targets are no class."""
    peaks, tops, _, cs, steps, totals, moments, scales, bads, _, _, _ = desk
    wrong = 0
    for k in range(min(tiles.width_of(scores), stop - first)):
        i, solution = first + k, (1.0, math.nan, 0.0)
        if scales[k] > 0.0:
            lead = (1.0 - (np.float64(cs[k]) - steps[k])) / order
            solution = np.float64(totals[k]), np.float64(moments[k]), lead
        elif not fill_bad(peaks[k], bads[k] > 0.0, probs[i]):
            solution = again(scores[i], tops[k], order, probs[i])
        if losses.shape[0] > 0:
            losses[i], none = judge(scores[i], peaks[k], order, solution, targets[i], ignored)
            wrong += none
    return wrong


@inner
def tiled_rows(scores, order, targets, ignored, probs, losses, start, stop):
    """Solve rows that fit in tiles; return how many targets are no class."""
    width, wrong, order = tiles.width_of(scores), 0, scores.dtype.type(order)
    numbers, memory = tiles.new_numbers(scores, 9), tiles.new_tiles(scores)
    ends = np.zeros((1, width), np.int64)
    desk = (
        borrowed(numbers, 0), borrowed(numbers, 1), borrowed(numbers, 2), borrowed(numbers, 3),
        borrowed(numbers, 4), borrowed(numbers, 5), borrowed(numbers, 6), borrowed(numbers, 7),
        borrowed(numbers, 8), borrowed(memory, 0), borrowed(memory, 1), borrowed(ends, 0),
    )  # fmt: skip
    desk[2][:] = order
    for first in range(start, stop, width):
        odd = solve_tile(scores, first, stop - 1, order, desk)
        write_tile(scores, first, stop, order, desk, probs)
        if odd > 0 or losses.shape[0] > 0:
            wrong += finish_tile(scores, first, stop, order, targets, ignored, desk, probs, losses)
    give_back(numbers), give_back(memory), give_back(ends)
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
