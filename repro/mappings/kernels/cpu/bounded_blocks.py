"""Blocks of rows with an upper bound for each entry.

As in ``blocks.py``, a block is a tile, with one row per lane, or a row block, with lanes along one
row; its precision is that of the rows or double.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from repro.mappings.kernels.cpu import blocks, simd
from repro.mappings.kernels.cpu.compile import allocating, inline


class BoundedBlock(NamedTuple):
    """Workspace for rows under bounds that are solved together."""

    w: Any  # scores, column by column
    u: Any  # bounds of ``w``
    scores: Any  # scores, row by row
    bounds: Any  # bounds of ``scores``
    few_w: Any  # undecided scores, column by column; in a tile they replace ``w``
    few_u: Any  # bounds of ``few_w``
    few_scores: Any  # undecided scores, row by row
    few_bounds: Any  # bounds of ``few_scores``
    ends: Any  # end of each row's list in ``few_scores``
    unusual: Any  # number of entries of each row that need checks
    totals: Any  # required sum of each row
    near: Any  # leading part of each threshold; for csoftmax the base of the exponentials
    rest: Any  # the threshold less its leading part; for csoftmax the ratio ``ρ``
    low: Any  # lower bounds of thresholds
    high: Any  # upper bounds of thresholds
    met: Any  # sum of the bounds that are known to be met
    more: Any  # rounding error of ``met``
    solved: Any  # positive for rows with a solution
    in_lanes: bool  # whether this is a tile


@allocating
def new_bounded_block(rows, like, in_lanes):
    """Allocate a block in the precision of ``like``."""
    width = blocks.width_of(like)
    lists = np.empty((4, blocks.stride_of(rows) * (width if in_lanes else 1)), like.dtype)
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
def take_bounded(block, rows, uppers, totals, slack, first, last):
    """Fill a block with rows and their bounds.

    Lanes past row ``last`` repeat it. Totals and bounds are given for each row or once for all
    rows. In the block, bounds are nonnegative, forbidden entries have the score ``-inf``, and
    scores of ``inf`` become the largest number. ``unusual`` counts entries that need checks.

    Returns:
        The number of columns, the largest score with a positive bound, and the sum of the bounds.
    """
    width, stride, size = blocks.width_of(block.w), blocks.stride_of(rows), rows.shape[1]
    largest = np.finfo(rows.dtype).max
    line = max(width, blocks.LINE) if block.in_lanes else blocks.LINE * width
    end = (size + line - 1) // line * line
    for k in range(width if block.in_lanes else 1):
        i = min(first + k, last)
        row, upper, unusual = rows[i], uppers[i if uppers.shape[0] > 1 else 0], 0
        for j in range(0, end, width):
            score = simd.load_first_as(block.w, row, j, size - j, -math.inf)
            bound = simd.load_first_as(block.w, upper, j, size - j, 0.0)
            usual = ((bound >= -slack) & (score < math.inf)) | (score == -math.inf)
            unusual += width - simd.count(usual)
            allowed = (bound >= 0.0) & (score > -math.inf)
            score = simd.where(allowed, simd.minimum(score, largest), -math.inf)
            simd.store(block.scores, k * stride + j, score)
            simd.store(block.bounds, k * stride + j, simd.where(allowed, bound, 0.0))
        block.unusual[k], block.totals[k] = unusual, totals[i if totals.shape[0] > 1 else 0]
    if not block.in_lanes:
        block.unusual[:], block.totals[:] = block.unusual[0], block.totals[0]
        columns = end // width
    else:
        columns = (size + blocks.LINE - 1) // blocks.LINE * blocks.LINE
        for j in range(0, end, width):
            simd.transpose(block.scores, j, stride, block.w, j * width, width)
            simd.transpose(block.bounds, j, stride, block.u, j * width, width)
    top, room = simd.splat(block.w.dtype.type(-math.inf)), simd.splat(block.w.dtype.type(0))
    for k in range(0, columns * width, width):
        bound = simd.load(block.u, k)
        top = simd.maximum(simd.where(bound > 0.0, simd.load(block.w, k), -math.inf), top)
        room += bound
    return columns, blocks.max_along_row(block, top), blocks.along_row(block, room)


@inline
def write_bounded(block, k, start, share_of, probs, kkt_status):
    """Write shares and KKT status of the ``k``-th row of a block, whose list begins at ``start``.

    The status is 0 at zero, 1 strictly inside the bounds, 2 at the upper bound.
    """
    size, width = probs.shape[0], blocks.width_of(block.w)
    near, rest = simd.splat(block.near[k]), simd.splat(block.rest[k])
    for j in range(0, size, width):
        score, bound = simd.load(block.scores, start + j), simd.load(block.bounds, start + j)
        share, reaches = share_of(score, bound, near, rest)
        full = reaches & (share >= bound)
        simd.store_first(probs, j, size - j, simd.where(share < bound, share, bound))
        simd.store_first(
            kkt_status, j, size - j, simd.where(full, 2.0, simd.where(share > 0.0, 1.0, 0.0))
        )
