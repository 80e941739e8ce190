"""Sparsemax and 1.5-entmax of eight rows at a time, each in a lane of the vector registers.

A tile holds the candidates of eight rows column by column: Newton's sums are then plain sums of
vectors. A pair of columns makes a line, and an accumulator of sums is as wide as a line.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import small

LANES = 8
LINE = 2 * LANES
STRIDE = 4 * LINE
"""Entries of a tile that are added up before the sums are touched."""
_PASSES = 64
_OUT = -2.0
"""A candidate that gets nothing, and finite."""


@small
def candidate(score, top, scale, lowest, zero):
    """``w = r (z - max z)``, between the lowest and zero."""
    w = (score - top) * scale
    w = w if w > lowest else lowest
    return w if w < zero else zero


@small
def new_tile(size, dtype):
    """Room for rows of a size, filled up with candidates that get nothing."""
    columns = (size * LANES + STRIDE - 1) // STRIDE * STRIDE
    return np.full((1, columns), _OUT, dtype)


@small
def new_sums(dtype):
    """Room for six numbers of each lane, twice."""
    return np.zeros((6, LINE), dtype)


@small
def load_tile(scores, first, last, tops, orders, tile):
    """Take eight rows into a tile; past the last row it is taken once more.

    Written out, as only stores of neighbours are turned into vector instructions.
    """
    zero, lowest = scores.dtype.type(0), scores.dtype.type(_OUT)
    lanes = np.uint64(LANES)
    row0, row1 = scores[first], scores[min(first + 1, last)]
    row2, row3 = scores[min(first + 2, last)], scores[min(first + 3, last)]
    row4, row5 = scores[min(first + 4, last)], scores[min(first + 5, last)]
    row6, row7 = scores[min(first + 6, last)], scores[min(first + 7, last)]
    top0, top1, top2, top3 = tops[0], tops[1], tops[2], tops[3]
    top4, top5, top6, top7 = tops[4], tops[5], tops[6], tops[7]
    order0, order1, order2, order3 = (
        scores.dtype.type(orders[0]),
        scores.dtype.type(orders[1]),
        scores.dtype.type(orders[2]),
        scores.dtype.type(orders[3]),
    )
    order4, order5, order6, order7 = (
        scores.dtype.type(orders[4]),
        scores.dtype.type(orders[5]),
        scores.dtype.type(orders[6]),
        scores.dtype.type(orders[7]),
    )
    for j in range(np.uint64(scores.shape[1])):
        k = j * lanes
        tile[k] = candidate(row0[j], top0, order0, lowest, zero)
        tile[k + np.uint64(1)] = candidate(row1[j], top1, order1, lowest, zero)
        tile[k + np.uint64(2)] = candidate(row2[j], top2, order2, lowest, zero)
        tile[k + np.uint64(3)] = candidate(row3[j], top3, order3, lowest, zero)
        tile[k + np.uint64(4)] = candidate(row4[j], top4, order4, lowest, zero)
        tile[k + np.uint64(5)] = candidate(row5[j], top5, order5, lowest, zero)
        tile[k + np.uint64(6)] = candidate(row6[j], top6, order6, lowest, zero)
        tile[k + np.uint64(7)] = candidate(row7[j], top7, order7, lowest, zero)


@small
def kept_of(w, c, zero):
    """``[w + c]_+``."""
    kept = w + c
    return kept if kept > zero else zero


@small
def one_if(positive, zero, one):
    """One where a number is positive."""
    return one if positive > zero else zero


@small
def linear_sums(tile, cs, totals, sizes):
    """``Σ [w + c]_+`` and how many are positive."""
    zero, one, line = tile.dtype.type(0), tile.dtype.type(1), np.uint64(LINE)
    totals[:], sizes[:] = zero, zero
    for start in range(0, tile.shape[0], STRIDE):
        part = tile[start : start + STRIDE]
        for k in range(line):
            a, b = kept_of(part[k], cs[k], zero), kept_of(part[k + line], cs[k], zero)
            c = kept_of(part[k + np.uint64(2 * LINE)], cs[k], zero)
            d = kept_of(part[k + np.uint64(3 * LINE)], cs[k], zero)
            totals[k] += (a + b) + (c + d)
            sizes[k] += (one_if(a, zero, one) + one_if(b, zero, one)) + (
                one_if(c, zero, one) + one_if(d, zero, one)
            )


@small
def square_sums(tile, cs, totals, seconds):
    """``Σ [w + c]_+`` and the sum of the squares."""
    zero, line = tile.dtype.type(0), np.uint64(LINE)
    totals[:], seconds[:] = zero, zero
    for start in range(0, tile.shape[0], STRIDE):
        part = tile[start : start + STRIDE]
        for k in range(line):
            a, b = kept_of(part[k], cs[k], zero), kept_of(part[k + line], cs[k], zero)
            c = kept_of(part[k + np.uint64(2 * LINE)], cs[k], zero)
            d = kept_of(part[k + np.uint64(3 * LINE)], cs[k], zero)
            totals[k] += (a + b) + (c + d)
            seconds[k] += (a * a + b * b) + (c * c + d * d)


@small
def fold(sums):
    """Add up the two halves of a line, and have the result in both."""
    for k in range(LANES):
        both = sums[k] + sums[k + LANES]
        sums[k] = sums[k + LANES] = both


@small
def linear_move(cs, steps, totals, sizes, enough):
    """Newton's step of ``Σ [w + c]_+ = 1``; how many lanes took it."""
    one, moving = cs.dtype.type(1), 0
    for k in range(np.uint64(LINE)):
        residual = totals[k] - one
        step = residual / sizes[k]
        lower = cs[k] - step
        moves = (abs(residual) > enough) & (lower != cs[k])
        cs[k], steps[k] = lower if moves else cs[k], step
        moving += moves
    return moving


@small
def square_move(cs, steps, totals, seconds, enough):
    """Newton's step of ``‖[w + c]_+‖ = 1``; how many lanes took it."""
    one, moving = cs.dtype.type(1), 0
    for k in range(np.uint64(LINE)):
        norm = np.sqrt(seconds[k])
        residual = norm - one
        step = residual * norm / totals[k]
        lower = cs[k] - step
        moves = (abs(residual) > enough) & (lower != cs[k])
        cs[k], steps[k] = lower if moves else cs[k], step
        moving += moves
    return moving


@small
def descend_tile(tile, cs, steps, order, totals, seconds):
    """``c`` of every lane up to little excess mass, and the steps that are left to take."""
    enough = tile.dtype.type(math.sqrt(np.finfo(tile.dtype).eps) / 10.0)
    cs[:] = tile.dtype.type(1)
    for _ in range(_PASSES):
        if order == 1.0:
            linear_sums(tile, cs, totals, seconds)
            fold(totals)
            fold(seconds)
            moving = linear_move(cs, steps, totals, seconds, enough)
        else:
            square_sums(tile, cs, totals, seconds)
            fold(totals)
            fold(seconds)
            moving = square_move(cs, steps, totals, seconds, enough)
        if moving == 0:
            break


@small
def write_row(row, top, order, c, step, out):
    """Write the distribution of a row; return its sum before it was normalised.

    The last step acts on the small differences ``w + c``, whose digits are finer than those of
    ``c``: they matter where many entries are tied close to the threshold.
    """
    zero, lowest, scale = row.dtype.type(0), row.dtype.type(_OUT), row.dtype.type(order)
    total, linear = zero, order == 1.0
    for j in range(np.uint64(out.shape[0])):
        kept = candidate(row[j], top, scale, lowest, zero) + c
        lowered = kept - step
        share = lowered if lowered > zero else zero
        share = share if kept > zero else zero
        share = share if linear else share * share
        out[j] = share
        total += share
    if total > zero:
        rescale = row.dtype.type(1) / total
        for j in range(np.uint64(out.shape[0])):
            out[j] *= rescale
    return total
