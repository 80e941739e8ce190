"""Csoftmax, csparsemax and budget of short rows in single precision, each in a lane of a tile.

Rows and bounds are copied, without what makes a row a special one, and turned into tiles. Rows
that are special, or that these steps do not bring to their total, are left to the solvers of
single rows.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu import box_tiles, capped_tiles
from repro.mappings.kernels.cpu._compile import lean, small
from repro.mappings.kernels.cpu.exchanges import transpose
from repro.mappings.kernels.cpu.lanes import load, load_first, store
from repro.mappings.kernels.cpu.tiles import LINE, stride_of, width_of
from repro.mappings.kernels.cpu.vectors import both, count, either, maximum, splat, where

CLEAR = 1.01
"""Bounds whose rough sum exceeds the total by this factor need no exact sum."""


@small
def new_room(rows):
    """Room for four lists of each row, and for two tiles."""
    return np.empty((6, stride_of(rows) * width_of(rows)), rows.dtype)


@lean
def clean(score, bound, slack):
    """Without negative bounds, and ``-inf`` for what cannot have mass; and what is as usual."""
    fine = both(bound >= 0.0, score > -math.inf)
    usual = both(both(bound >= -slack, score > -math.inf), score < math.inf)
    usual = either(usual, score == -math.inf)
    return where(fine, score, -math.inf), where(fine, bound, 0.0), usual


@lean
def take_row(row, upper, slack, scores, bounds, at):
    """Copy a row and its bounds to a place in lists; in how many lanes they are unusual."""
    size, width, lowest = row.shape[0], width_of(row), row.dtype.type(-math.inf)
    whole = size // width * width
    left = size - whole
    score, bound, usual = clean(
        load_first(row, whole, left, lowest), load_first(upper, whole, left, -lowest), slack
    )
    store(scores, at + whole, score)
    store(bounds, at + whole, bound)
    for j in range(0, whole, width):
        score, bound, fine = clean(load(row, j), load(upper, j), slack)
        store(scores, at + j, score)
        store(bounds, at + j, bound)
        usual = both(usual, fine)
    return width - count(usual)


@lean
def take_tile(rows, uppers, slack, first, last, lists, tile, odd):
    """Have rows and their bounds in tiles; return how many columns there are.

    Past the last row it is taken once more.
    """
    width, stride, size = width_of(rows), stride_of(rows), rows.shape[1]
    scores, bounds = lists[:2]
    for k in range(width):
        i = min(first + k, last)
        upper = uppers[i if uppers.shape[0] > 1 else 0]
        odd[k] = rows.dtype.type(take_row(rows[i], upper, slack, scores, bounds, k * stride))
    for j in range(0, size, width):
        transpose(scores, j, stride, tile[0], j * width, width)
        transpose(bounds, j, stride, tile[1], j * width, width)
    return (size + LINE - 1) // LINE * LINE


@lean
def survey(tile, columns):
    """The largest scores that may get mass, and the sums of the bounds."""
    scores, bounds = tile
    width = width_of(scores)
    top = splat(scores.dtype.type(-math.inf))
    room = splat(scores.dtype.type(0))
    for k in range(0, columns * width, width):
        bound = load(bounds, k)
        top = maximum(where(bound > 0.0, load(scores, k), -math.inf), top)
        room += bound
    return top, room


@lean
def solve_tile(rows, uppers, totals, slack, order, first, last, desk):
    """Solve the rows of a tile; note which are left to be solved in another way."""
    lists, tile, totals_, odd, taus, rests, left, numbers, ends = desk
    columns = take_tile(rows, uppers, slack, first, last, lists, tile, odd)
    for k in range(width_of(rows)):
        i = min(first + k, last)
        totals_[k] = rows.dtype.type(totals[i if totals.shape[0] > 1 else 0])
    top, room = survey(tile, columns)
    total, rounding = load(totals_, 0), rows.shape[1] * np.finfo(rows.dtype).eps
    usual = both(load(odd, 0) == 0.0, total > 0.0)
    usual = both(usual, room > total * (CLEAR + rounding))
    usual = both(usual, both(top > -math.inf, top < math.inf))
    if order == 0.0:
        ratio, solved = capped_tiles.solve(tile, columns, top, usual)
        store(taus, 0, ratio)
        store(rests, 0, top)
    else:
        near, rest, solved = box_tiles.solve(
            lists, tile, columns, rows.shape[1], top, room, total, usual, numbers, ends
        )
        store(taus, 0, near)
        store(rests, 0, rest)
    zero, one = splat(rows.dtype.type(0)), splat(rows.dtype.type(1))
    store(left, 0, where(solved, zero, one))
    return width_of(rows) - count(solved)


@lean
def write_tile(order, first, stop, desk, probs, place):
    """Write the rows of a tile that are solved."""
    lists, _, _, _, taus, rests, left, _, _ = desk
    stride = stride_of(probs)
    for k in range(min(width_of(probs), stop - first)):
        if left[k] == 0.0:
            i, at = first + k, k * stride
            if order == 0.0:
                capped_tiles.write(lists, at, rests[k], taus[k], probs[i], place[i])
            else:
                box_tiles.write(lists, at, taus[k], rests[k], probs[i], place[i])
