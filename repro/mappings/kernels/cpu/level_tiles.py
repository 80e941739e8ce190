"""α-entmax of the rows of a tile for ``1 < α <= 2``, in single precision.

Tiles and candidates ``w`` are those of ``tiles.py``, the equation is that of ``level.py``: with
``T = Σ t^{1/r}`` and ``S = Σ t^{1/r - 1}`` of the heights ``t = (w + c) / c``, Newton's method for
the norm of ``w + c`` takes the share ``T (1 - T^{-r} / c) / S`` from ``c``.

All steps but the last are taken with powers of five digits. Up to ``r = ½`` they are Halley's and
begin at ``c = 1``. Above, they would meet kinks, and Newton's would be many; there the norm lies
between those of sparsemax and 1.5-entmax, and Lyapunov's inequality bounds it without powers:
``‖x‖_{1/r} <= ‖x‖_1^{1-θ} ‖x‖_2^θ`` with ``θ = 2 (1 - r)``. Where the bound is one, steps begin.
"""

import math

from repro.mappings.kernels.cpu._compile import lean
from repro.mappings.kernels.cpu.elementary import power, reciprocal, rough_power
from repro.mappings.kernels.cpu.lanes import load, load_wide, store, store_narrow
from repro.mappings.kernels.cpu.tiles import head_columns, width_of
from repro.mappings.kernels.cpu.vector_types import BITS
from repro.mappings.kernels.cpu.vectors import both, count, either, magnitude, maximum, where

LANES = BITS // 32
"""Of a vector in single precision."""
LOWEST_ORDER = 0.04
"""Below, single precision loses digits: what is left of ``c`` has the power ``1 / r``."""
_HALLEY = 0.5
"""Up to this order Newton's steps are made longer."""
_PASSES = 64
_LEFT = 1e-3
"""How far from one sums may be before Halley's last step; it and the series leave cubes."""
_LEFT_NEWTON = 1e-4
"""The same for Newton's, which leaves squares."""
_ROUGH, _ROUGH_RISE, _ROUGH_NEWTON = 0.15, 1.4, 4e-3
"""The same before the last rough step; Halley's leaves less at lower orders."""
_LEFT_BOUND = 0.03
"""How far from one the bound of the norm may be where it is left."""
_MARGIN = 1.0 - 1e-4
"""By which a bound is loosened: rough powers have five digits."""


@lean
def height_below(w, growth):
    """``t - 1``, at least minus one."""
    return maximum(w * growth, -1.0)


@lean
def level_sums(tile, columns, shares, growth, slowness):
    """``T``, ``S`` and ``Σ t^{1/r - 2}`` of every lane, the last two to digits.

    Keeps ``t^{1/r}``.
    """
    width = width_of(tile)
    total = slope = bend = growth - growth
    for k in range(0, columns * width, width):
        below = height_below(load(tile, k), growth)
        height = below + 1.0
        share = power(below, height, slowness)
        store(shares, k, share)
        inverse = reciprocal(where(height > 0.0, height, 1.0))
        total += share
        share *= inverse
        slope += share
        bend += share * inverse
    return total, slope, bend


@lean
def rough_sums(tile, columns, growth, slowness):
    """The same to five digits, the first two at least one; keeps nothing."""
    width = width_of(tile)
    total = slope = bend = growth - growth
    for k in range(0, columns * width, width):
        height = load(tile, k) * growth + 1.0
        counted = height > 0.0
        height = where(counted, height, 1.0)
        share = where(counted, rough_power(height, slowness), 0.0)
        inverse = reciprocal(height)
        total += share
        share *= inverse
        slope += share
        bend += share * inverse
    return maximum(total, 1.0), maximum(slope, 1.0), bend


@lean
def longer(cut, order, total, slope, bend):
    """Halley's step for a Newton step, at orders where that is better."""
    turn = 0.5 * cut * (1.0 / order - 1.0) * (bend / slope - slope / total)
    reached = cut / (1.0 - where(turn < 0.5, turn, 0.5))
    highest = 0.5 * (1.0 + cut)
    return where(order > _HALLEY, cut, where(reached < highest, reached, highest))


@lean
def rough_step(order, growth, total, slope):
    """The share that Newton takes from ``c``, and how far the norm is from one."""
    gap = 1.0 - rough_power(1.0 / total, order) * growth
    return total * gap / slope, gap


@lean
def descend_roughly(tile, columns, growth, order, slowness, gentle, sharp):
    """``1 / c`` after the last rough step; no lane waits for another."""
    limit, moves = order * where(order > _HALLEY, sharp, order - order + gentle), order > 0.0
    for _ in range(_PASSES):
        total, slope, bend = rough_sums(tile, columns, growth, slowness)
        cut, gap = rough_step(order, growth, total, slope)
        cut = longer(cut, order, total, slope, bend)
        growth = where(moves, maximum(growth / (1.0 - cut), 1.0), growth)
        moves = both(moves, magnitude(gap) > limit)
        if count(moves) == 0:
            break
    return growth


@lean
def norm_step(tile, columns, c, order):
    """Newton's step for the bound of the norm, and how far from one that is."""
    width = width_of(tile)
    total = second = size = zero = c - c
    for k in range(0, columns * width, width):
        kept = maximum(load(tile, k) + c, 0.0)
        total += kept
        second += kept * kept
        size += where(kept > 0.0, zero + 1.0, zero)
    bound = total * rough_power(second / (total * total), 1.0 - order)
    rise = (2.0 * order - 1.0) * size / total + 2.0 * (1.0 - order) * total / second
    return (1.0 - 1.0 / bound) / rise, bound - 1.0


@lean
def begin(tile, columns, growth, order, lowest):
    """``1 / c`` of every lane, where steps begin; above ``r = ½`` by the bound of the norm."""
    steep = order > _HALLEY
    if count(steep) == 0:
        return growth
    c, moves = 1.0 / growth, steep
    for _ in range(_PASSES):
        step, left = norm_step(tile, columns, c, order)
        c = where(moves, maximum(c - step, lowest), c)
        moves = both(moves, magnitude(left) > _LEFT_BOUND)
        if count(moves) == 0:
            break
    return where(steep, 1.0 / c, growth)


@lean
def bound(heads, order, slowness):
    """``1 / c``, not too high for rows of which these are some candidates, with the largest.

    Newton's step leads above the root from wherever it is taken.
    """
    columns, lowest = head_columns(heads), 0.5 / width_of(heads)
    growth = begin(heads, columns, order - order + 1.0, order, lowest)
    total, slope, _ = rough_sums(heads, columns, growth, slowness)
    cut, _ = rough_step(order, growth, total, slope)
    return maximum(growth / (1.0 - cut) * _MARGIN, 1.0)


@lean
def lowered(w, share, growth, cut, slowness):
    """A share less what the last step takes from it: two terms of the power's series.

    NaN where a step back is longer than a height, which the rounding of ``c`` may have made zero:
    there the series does not hold, and the row is to be solved in double precision.
    """
    height = w * growth + 1.0
    relative = cut * reciprocal(where(height > 0.0, height, 1.0))
    less = slowness * relative * (1.0 - 0.5 * (slowness - 1.0) * relative)
    share = maximum(share - share * less, 0.0)
    share = where(height + cut > 0.0, share, math.nan)
    return where(height > cut, share, 0.0)


@lean
def lower(tile, columns, shares, growth, slowness, cut):
    """Take the last, small share from ``c``, with no power again; return what is left in all.

    What sums lose to rounding is added up as well: of many equal shares all would lose alike.
    """
    width, total, lost = width_of(tile), growth - growth, growth - growth
    for k in range(0, columns * width, 2 * width):
        one = lowered(load(tile, k), load(shares, k), growth, cut, slowness)
        other = lowered(load(tile, k + width), load(shares, k + width), growth, cut, slowness)
        store(shares, k, one)
        store(shares, k + width, other)
        pair = one + other
        following = total + pair
        lost += (total - following) + pair
        total = following
    return total + lost


@lean
def move(orders, growths, totals, slopes, bends, cuts, wanted):
    """The step of every lane that is far from its root, in double precision; how many took it.

    Writes ``c^{1/r}``, whose product with the sum of a lane's shares is to be one, by its series.
    """
    moving = 0
    for k in range(0, LANES, width_of(wanted)):
        order, growth, found = load(orders, k), load_wide(growths, k), load_wide(totals, k)
        total, slope = maximum(found, 1.0), maximum(load_wide(slopes, k), 1.0)
        share = 1.0 / total
        gap = 1.0 - power(share - 1.0, share, order) * growth
        far = longer(total * gap / slope, order, total, slope, load_wide(bends, k))
        store_narrow(cuts, k, maximum(growth / (1.0 - far), 1.0))
        following = load_wide(cuts, k)
        limit = order * where(order > _HALLEY, _LEFT_NEWTON, order - order + _LEFT)
        changes = either(following > growth, following < growth)
        moves = both(magnitude(gap) > limit, changes)
        store_narrow(growths, k, where(moves, following, growth))
        store_narrow(cuts, k, far)
        left = gap / order
        store(wanted, k, (1.0 + left * (1.0 + 0.5 * (1.0 + order) * left)) / found)
        moving += count(moves)
    return moving


@lean
def solve(tile, columns, size, shares, orders, growth, order, slowness, wanted, room):
    """Fill a tile with unnormalised distributions; return their sums and write those wanted.

    The size is that of a row, of which columns are candidates.
    """
    growths, totals, slopes, bends, cuts = room
    growth = begin(tile, columns, growth, order, 0.5 / size)
    rough = _ROUGH + _ROUGH_RISE * (_HALLEY - order)
    growth = descend_roughly(tile, columns, growth, order, slowness, rough, _ROUGH_NEWTON)
    store(growths, 0, growth)
    for _ in range(_PASSES):
        growth = load(growths, 0)
        total, slope, bend = level_sums(tile, columns, shares, growth, slowness)
        store(totals, 0, total)
        store(slopes, 0, slope)
        store(bends, 0, bend)
        if move(orders, growths, totals, slopes, bends, cuts, wanted) == 0:
            break
    return lower(tile, columns, shares, growth, slowness, load(cuts, 0))
