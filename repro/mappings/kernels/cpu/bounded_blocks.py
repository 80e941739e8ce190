"""Blocks of rows with an upper bound for each entry.

As in ``blocks.py`` a block is a tile, with a row in each lane, or a row block, with lanes along one
row; its precision is that of the rows or double.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from repro.mappings.kernels.cpu.blocks import (
    LINE,
    along_row,
    max_along_row,
    stride_of,
    width_of,
)
from repro.mappings.kernels.cpu.compile import allocating, inline
from repro.mappings.kernels.cpu.simd import (
    count,
    load,
    load_first_as,
    maximum,
    minimum,
    splat,
    store,
    store_first,
    transpose,
    where,
)


class BoundedBlock(NamedTuple):
    """Workspace for rows under bounds that are solved together.

    Attributes:
        w: scores, column by column.
        u: their bounds.
        scores: scores, row by row.
        bounds: their bounds.
        few_w: undecided scores, column by column; in a tile they replace ``w``.
        few_u: their bounds.
        few_scores: undecided scores, row by row.
        few_bounds: their bounds.
        ends: where the lists of ``few_scores`` end.
        unusual: entries of each row that need checks.
        totals: sums that the rows are to have.
        near: a number next to the threshold of each row, or another result.
        rest: the threshold less that number, or another result.
        low: lower bounds of thresholds.
        high: upper bounds of thresholds.
        met: sums of bounds that are met, for certain.
        more: what they lose by rounding.
        solved: positive for rows with a solution.
        in_lanes: whether this is a tile.
    """

    w: Any
    u: Any
    scores: Any
    bounds: Any
    few_w: Any
    few_u: Any
    few_scores: Any
    few_bounds: Any
    ends: Any
    unusual: Any
    totals: Any
    near: Any
    rest: Any
    low: Any
    high: Any
    met: Any
    more: Any
    solved: Any
    in_lanes: bool


@allocating
def new_bounded_block(rows, like, in_lanes):
    """Workspace in the precision of an array."""
    width = width_of(like)
    lists = np.empty((4, stride_of(rows) * (width if in_lanes else 1)), like.dtype)
    columns = np.empty((2, lists.shape[1] if in_lanes else 1), like.dtype)
    numbers = np.zeros((9, width), like.dtype)
    w, u, few_w, few_u = lists[0], lists[1], lists[2], lists[3]
    if in_lanes:
        w, u, few_w, few_u = columns[0], columns[1], columns[0], columns[1]
    return BoundedBlock(
        w=w, u=u, scores=lists[0], bounds=lists[1], few_w=few_w, few_u=few_u,
        few_scores=lists[2], few_bounds=lists[3], ends=np.zeros(width, np.int64),
        unusual=numbers[0], totals=numbers[1], near=numbers[2], rest=numbers[3], low=numbers[4],
        high=numbers[5], met=numbers[6], more=numbers[7], solved=numbers[8], in_lanes=in_lanes,
    )  # fmt: skip


@inline
def _take_row(block, row, upper, slack, at, end):
    """Copy a row and its bounds, and fill them up; return the number of entries that need checks.

    Bounds are not negative, forbidden entries are ``-inf``, and infinite ones the largest number.
    """
    size, width, unusual = row.shape[0], width_of(block.w), 0
    lowest, largest = row.dtype.type(-math.inf), np.finfo(row.dtype).max
    for j in range(0, end, width):
        score = load_first_as(block.w, row, j, size - j, lowest)
        bound = load_first_as(block.w, upper, j, size - j, row.dtype.type(0))
        usual = ((bound >= -slack) & (score < math.inf)) | (score == -math.inf)
        unusual += width - count(usual)
        allowed = (bound >= 0.0) & (score > -math.inf)
        store(block.scores, at + j, where(allowed, minimum(score, largest), -math.inf))
        store(block.bounds, at + j, where(allowed, bound, 0.0))
    return unusual


@inline
def take_bounded(block, rows, uppers, totals, slack, first, last):
    """Fill a block with rows and their bounds; return how many columns there are.

    Behind ``last`` it is taken once more. Totals, and bounds, are one for each row or one for all.
    """
    width, stride, size = width_of(block.w), stride_of(rows), rows.shape[1]
    line = max(width, LINE) if block.in_lanes else LINE * width
    end = (size + line - 1) // line * line
    for k in range(width if block.in_lanes else 1):
        i = min(first + k, last)
        upper = uppers[i if uppers.shape[0] > 1 else 0]
        block.unusual[k] = _take_row(block, rows[i], upper, slack, k * stride, end)
        block.totals[k] = totals[i if totals.shape[0] > 1 else 0]
    if not block.in_lanes:
        block.unusual[:], block.totals[:] = block.unusual[0], block.totals[0]
        return end // width
    for j in range(0, end, width):
        transpose(block.scores, j, stride, block.w, j * width, width)
        transpose(block.bounds, j, stride, block.u, j * width, width)
    return (size + LINE - 1) // LINE * LINE


@inline
def survey(block, columns):
    """The largest scores with a positive bound, and the sums of the bounds."""
    width = width_of(block.w)
    top = splat(block.w.dtype.type(-math.inf))
    room = splat(block.w.dtype.type(0))
    for k in range(0, columns * width, width):
        bound = load(block.u, k)
        top = maximum(where(bound > 0.0, load(block.w, k), -math.inf), top)
        room += bound
    return max_along_row(block, top), along_row(block, room)


@inline
def write_bounded(j, size, share, full, inside, probs, place):
    """Write a vector of shares, at most ``size - j`` of them, and where they lie."""
    zero = share - share
    store_first(probs, j, size - j, share)
    places = where(full, zero + 2.0, where(inside, zero + 1.0, zero))
    store_first(place, j, size - j, places)
