"""α-entmax of the rows of a tile above ``α = 2``, in double precision, half of the rows at a time.

The unknown is ``c`` in ``(0, 1]`` with ``T = Σ [w + c]_+^{1/r} = 1``. Between its kinks, where an
entry gets mass with infinite slope, ``T^r`` is concave. Newton's steps for it are taken while they
stay between bounds of the root and leave less than half of what was left; else the interval is
halved. They begin at the ``c`` of sparsemax of ``w``, which is too high, and all but the last are
taken with powers of five digits.
"""

import math

from repro.mappings.kernels.cpu import closed_tiles
from repro.mappings.kernels.cpu._compile import lean
from repro.mappings.kernels.cpu.elementary import exponential, power, reciprocal, rough_power
from repro.mappings.kernels.cpu.lanes import load, load_wide, store, store_narrow
from repro.mappings.kernels.cpu.level import BELOW, TIED
from repro.mappings.kernels.cpu.search import OUT
from repro.mappings.kernels.cpu.tiles import width_of
from repro.mappings.kernels.cpu.vectors import (
    both,
    count,
    either,
    excluding,
    magnitude,
    maximum,
    sqrt,
    where,
)

_PASSES = 90
_ROUGH = 1e-3
"""How far from one norms may be before the last rough step."""
_NEAR = 1e-7
"""The same before the last step of all, which leaves squares."""
_SLOW = 0.5
"""Newton's step is taken only after one that left less of what was left."""
_DEEPEST = -700.0
"""Keeps ``c`` a normal number where ``r`` is large."""


@lean
def take_half(entries, columns, half, top, order, tile):
    """Take every second half of the columns of entries as candidates in double precision."""
    wide, width = width_of(entries), width_of(tile)
    for k in range(columns):
        w = (load_wide(entries, k * wide + half * width) - top) * order
        store(tile, k * width, maximum(where(w < 0.0, w, 0.0), OUT))


@lean
def rough_sums(tile, columns, c, slowness):
    """``T`` and ``Σ t^{1/r - 1}`` of the heights ``t`` of every lane, to five digits."""
    width, total, slope = width_of(tile), c - c, c - c
    for k in range(0, columns * width, width):
        height = load(tile, k) + c
        positive = height > 0.0
        height = where(positive, height, 1.0)
        share = where(positive, rough_power(height, slowness), 0.0)
        total += share
        slope += share * reciprocal(height)
    return total, slope


@lean
def sums(tile, columns, c, slowness, shares):
    """The same, the second to digits; keeps what is added up first."""
    width, total, slope = width_of(tile), c - c, c - c
    for k in range(0, columns * width, width):
        height = load(tile, k) + c
        positive = height > 0.0
        height = where(positive, height, 1.0)
        share = where(positive, power(height - 1.0, height, slowness), 0.0)
        store(shares, k, share)
        total += share
        slope += share * reciprocal(height)
    return total, slope


@lean
def move(order, c, total, slope, state, enough):
    """The step of every lane that moves, and the state after it."""
    low, high, last, moves = state
    ratio = where(total > 1.0, 1.0 / total, total)
    norm = power(ratio - 1.0, ratio, order)
    gap = 1.0 - where(total > 1.0, norm, 1.0 / norm)
    low, high = where(gap > 0.0, low, c), where(gap > 0.0, c, high)
    following = c - total * gap / slope
    inside = both(low < following, following < high)
    fast = both(inside, magnitude(gap) < _SLOW * last)
    tried = where(fast, following, sqrt(low) * sqrt(high))
    settled = magnitude(gap) <= enough * order
    stuck = either(tried <= low, tried >= high)
    end = where(settled, where(inside, following, c), low)
    c = where(moves, where(either(settled, stuck), end, tried), c)
    moves = excluding(both(moves, gap == gap), either(settled, stuck))
    return c, (low, high, magnitude(gap), moves)


@lean
def bracket(order, size):
    """Bounds of the roots that hold for so many entries, and all lanes moving."""
    lowest = order * -math.log(size)
    low = 0.5 * exponential(maximum(lowest, _DEEPEST))
    one = order - order + 1.0
    return low, one, one * math.inf, one > 0.0


@lean
def solve(tile, columns, size, order, shares):
    """Fill ``shares`` with unnormalised distributions; return their sums, and the tied lanes."""
    slowness, width = 1.0 / order, width_of(tile)
    c, _ = closed_tiles.descend(
        tile, columns, order - order + 1.0, 1.0, closed_tiles.last_excess(tile)
    )
    state = bracket(order, size)
    for _ in range(_PASSES):
        total, slope = rough_sums(tile, columns, c, slowness)
        c, state = move(order, c, total, slope, state, _ROUGH)
        if count(state[3]) == 0:
            break
    state = bracket(order, size)
    for _ in range(_PASSES):
        total, slope = sums(tile, columns, c, slowness, shares)
        c, state = move(order, c, total, slope, state, _NEAR)
        if count(state[3]) == 0:
            break
    total, _ = sums(tile, columns, c, slowness, shares)
    tied = total < 0.0
    for k in range(0, columns * width, width):
        height = load(tile, k) + c
        tied = either(tied, both(height > BELOW * c, height < TIED * c))
    return total, tied


@lean
def give_half(shares, columns, half, total, out):
    """Write distributions where the entries of such a half were."""
    wide, width, scale = width_of(out), width_of(shares), 1.0 / total
    for k in range(columns):
        store_narrow(out, k * wide + half * width, load(shares, k * width) * scale)
