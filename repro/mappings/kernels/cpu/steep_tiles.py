"""α-entmax of eight rows at a time above ``α = 2``, in double precision.

Each lane holds the few candidates ``w`` of a row that can have mass; the unknown is ``c`` in
``(0, 1]`` with ``T = Σ [w + c]_+^{1/r} = 1``. Between its kinks, where an entry gets mass with
infinite slope, ``T^r`` is concave. Newton's steps for it are taken while they stay between bounds
of the root and leave less than half of what was left; else the interval is halved. They begin at
the ``c`` of sparsemax of ``w``, which is too high, and all but the last are taken with powers of
five digits.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small, wide
from repro.mappings.kernels.cpu.elementary import power, reciprocal, rough_power
from repro.mappings.kernels.cpu.level import is_tied
from repro.mappings.kernels.cpu.scratch import borrowed
from repro.mappings.kernels.cpu.support import reaching
from repro.mappings.kernels.cpu.tiles import LANES, STRIDE, descend_tile

_COLUMNS = 4
LINE = _COLUMNS * LANES
"""Columns are taken four at a time: a loop of a known, shorter length would be written out."""
FIELDS = 9
_ORDER, _SLOWNESS, _LOW, _HIGH, _LAST, _MOVES, _TOTAL, _SLOPE, _C = (
    np.uint64(LINE * field) for field in range(FIELDS)
)
"""Where the numbers of the lanes are: in one piece of memory, so that loops over it are vectors."""
_OUT = -2.0
_PASSES = 90
_ROUGH = 1e-3
"""How far from one norms may be before the last rough step."""
_NEAR = 1e-7
"""The same before the last step of all, which leaves squares."""
_SLOW = 0.5
"""Newton's step is taken only after one that left less of what was left."""
_DEEPEST = -80.0
"""Keeps ``c`` a normal number where ``r`` is large."""


@small
def new_lists(size):
    """Room for a tile, its distributions, and a list, of rows of a size."""
    return np.empty((3, size * LANES + STRIDE))


@small
def new_state():
    """Room for the numbers of the lanes."""
    return np.ones((1, FIELDS * LINE))


@small
def gather_lane(row, top, limit, order, lane, heights, words, places, tile):
    """Take the candidates of a row into a lane; return how many."""
    count = reaching(row, top, limit, -1.0 / order, heights, words, places)
    for k in range(count):
        w = order * heights[k]
        tile[k * LANES + lane] = w if w > _OUT else _OUT
    return count


@small
def whole(columns):
    """So many columns, and what makes them whole lines; what sparsemax wants, too."""
    stride = STRIDE // LANES
    lines = (columns + _COLUMNS - 1) // _COLUMNS * _COLUMNS
    return lines, (columns + stride - 1) // stride * stride


@small
def fill_lane(tile, lane, count, columns):
    """Fill a lane up with entries that get nothing."""
    for k in range(count, whole(columns)[1]):
        tile[k * LANES + lane] = _OUT


def _adding(share_of: Callable[..., Any]) -> Callable[..., Any]:
    @wide
    def sums(tile, columns, state, shares):
        zero = tile.dtype.type(0)
        for k in range(np.uint64(LINE)):
            state[_TOTAL + k], state[_SLOPE + k] = zero, zero
        for start in range(0, columns * LANES, LINE):
            part, kept = tile[start : start + LINE], shares[start : start + LINE]
            for k in range(np.uint64(LINE)):
                height = part[k] + state[_C + k]
                positive = height > zero
                height = height if positive else 1.0
                share = share_of(height, state[_SLOWNESS + k])
                share = share if positive else zero
                kept[k] = share
                state[_TOTAL + k] += share
                state[_SLOPE + k] += share * reciprocal(height)
        for k in range(np.uint64(LANES)):
            for column in range(1, _COLUMNS):
                other = k + np.uint64(column * LANES)
                state[_TOTAL + k] += state[_TOTAL + other]
                state[_SLOPE + k] += state[_SLOPE + other]

    return sums


@wide
def _share(height, slowness):
    return power(height - 1.0, height, slowness)


_sums, _rough_sums = _adding(_share), _adding(rough_power)
"""``T`` and ``Σ t^{1/r - 1}`` of the heights ``t`` of every lane, the second to digits."""


@small
def _spread(state, field):
    """Have the numbers of a field once for each column."""
    for k in range(np.uint64(LANES), np.uint64(LINE)):
        state[field + k] = state[field + k - np.uint64(LANES)]


@wide
def _move(state, enough):
    """The step of every lane that moves; how many still do."""
    moving = 0.0
    for k in range(np.uint64(LANES)):
        c, total, order = state[_C + k], state[_TOTAL + k], state[_ORDER + k]
        ratio = 1.0 / total if total > 1.0 else total
        norm = power(ratio - 1.0, ratio, order)
        gap = 1.0 - (norm if total > 1.0 else 1.0 / norm)
        low = state[_LOW + k] if gap > 0.0 else c
        high = c if gap > 0.0 else state[_HIGH + k]
        following = c - total * gap / state[_SLOPE + k]
        inside = (low < following) & (following < high)
        fast = inside & (abs(gap) < _SLOW * state[_LAST + k])
        tried = following if fast else np.sqrt(low * high)
        settled = abs(gap) <= enough * order
        stuck = (tried <= low) | (tried >= high)
        last = (following if inside else c) if settled else low
        moves = state[_MOVES + k] > 0.0
        state[_C + k] = (last if settled | stuck else tried) if moves else c
        state[_LOW + k], state[_HIGH + k], state[_LAST + k] = low, high, abs(gap)
        still = 1.0 if moves & (not settled) & (not stuck) & (gap == gap) else 0.0
        state[_MOVES + k] = still
        moving += still
    _spread(state, _C)
    return moving


@small
def _bracket(state, columns):
    """Set bounds of the roots that hold for so many entries, and have all lanes move."""
    for k in range(np.uint64(LANES)):
        lowest = -state[_ORDER + k] * math.log(max(columns, 1))
        state[_LOW + k], state[_HIGH + k] = 0.5 * math.exp(max(lowest, _DEEPEST)), 1.0
        state[_LAST + k], state[_MOVES + k] = math.inf, 1.0


@inner
def solve_steep(tile, columns, orders, sums, state, shares):
    """Fill ``shares`` with unnormalised distributions; their sums stay in the state."""
    lines, strides = whole(columns)
    cs = borrowed(sums, 0)
    descend_tile(
        tile[: strides * LANES], cs, borrowed(sums, 1), 1.0, borrowed(sums, 2), borrowed(sums, 3)
    )
    for k in range(np.uint64(LANES)):
        state[_ORDER + k], state[_SLOWNESS + k], state[_C + k] = orders[k], 1.0 / orders[k], cs[k]
    _spread(state, _C)
    _spread(state, _SLOWNESS)
    _bracket(state, columns)
    for _ in range(_PASSES):
        _rough_sums(tile, lines, state, shares)
        if _move(state, _ROUGH) == 0.0:
            break
    _bracket(state, columns)
    for _ in range(_PASSES):
        _sums(tile, lines, state, shares)
        if _move(state, _NEAR) == 0.0:
            break
    _sums(tile, lines, state, shares)


@small
def has_ties(tile, lane, state, count):
    """Whether an entry of a lane is so close to the threshold that it has no digits."""
    tied, c = False, state[_C + np.uint64(lane)]
    for k in range(count):
        tied |= is_tied(tile[k * LANES + lane], c)
    return tied


@small
def write_lane(shares, lane, state, places, count, out):
    """Write the distribution of a lane."""
    out[:] = 0.0
    scale = 1.0 / state[_TOTAL + np.uint64(lane)]
    for k in range(count):
        out[places[k]] = shares[k * LANES + lane] * scale
