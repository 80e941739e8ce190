"""α-entmax of eight rows at a time for ``1 < α <= 2``, in single precision.

Tiles and candidates ``w`` are those of ``tiles.py``, the equation is that of ``level.py``: with
``T = Σ t^{1/r}`` and ``S = Σ t^{1/r - 1}`` of the heights ``t = (w + c) / c``, Newton's method for
the norm of ``w + c`` takes the share ``T (1 - T^{-r} / c) / S`` from ``c``.

All steps but the last are taken with powers of five digits. Up to ``r = ½`` they are Halley's and
begin at ``c = 1``. Above, they would meet kinks, and Newton's would be many; there the norm lies
between those of sparsemax and 1.5-entmax, and Lyapunov's inequality bounds it without powers:
``‖x‖_{1/r} <= ‖x‖_1^{1-θ} ‖x‖_2^θ`` with ``θ = 2 (1 - r)``. Where the bound is one, steps begin.
"""

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small, wide
from repro.mappings.kernels.cpu.elementary import power, reciprocal, rough_power
from repro.mappings.kernels.cpu.tiles import LANES, LINE, STRIDE, fold, kept_of, one_if

LOWEST_ORDER = 0.04
"""Below, single precision loses digits: what is left of ``c`` has the power ``1 / r``."""
_HALLEY = 0.5
"""Up to this order Newton's steps are made longer."""
_PASSES = 64
_LEFT = 1e-3
"""How far from one sums may be before Halley's last step; it and the series leave cubes."""
_LEFT_NEWTON = 1e-4
"""The same for Newton's, which leaves squares."""
_ROUGH, _ROUGH_NEWTON = 0.15, 4e-3
"""The same before the last rough step."""
_LEFT_BOUND = 0.03
"""How far from one the bound of the norm may be where it is left."""


@small
def new_lanes():
    """Room for orders, shares to take from ``c``, sums wanted and sums found, each twice."""
    return np.ones((4, LINE))


@wide
def height_below(w, growth, one):
    """``t - 1``, at least minus one."""
    below = w * growth
    return below if below > -one else -one


@wide
def level_sums(tile, shares, growths, slownesses, totals, slopes, bends):
    """``T``, ``S`` and ``Σ t^{1/r - 2}`` of every lane, the last two to digits.

    Keeps ``t^{1/r}``.
    """
    zero, one = tile.dtype.type(0), tile.dtype.type(1)
    totals[:], slopes[:], bends[:] = zero, zero, zero
    for start in range(0, tile.shape[0], LINE):
        part, kept = tile[start : start + LINE], shares[start : start + LINE]
        for k in range(np.uint64(LINE)):
            below = height_below(part[k], growths[k], one)
            height = below + one
            share = power(below, height, slownesses[k])
            inverse = reciprocal(height if height > zero else one)
            kept[k] = share
            totals[k] += share
            share *= inverse
            slopes[k] += share
            bends[k] += share * inverse
    fold(totals)
    fold(slopes)
    fold(bends)


@wide
def rough_sums(tile, growths, slownesses, totals, slopes, bends):
    """The same to five digits; keeps nothing."""
    zero, one = tile.dtype.type(0), tile.dtype.type(1)
    totals[:], slopes[:], bends[:] = zero, zero, zero
    for start in range(0, tile.shape[0], LINE):
        part = tile[start : start + LINE]
        for k in range(np.uint64(LINE)):
            height = part[k] * growths[k] + one
            counted = height > zero
            height = height if counted else one
            share = rough_power(height, slownesses[k])
            share = share if counted else zero
            inverse = reciprocal(height)
            totals[k] += share
            share *= inverse
            slopes[k] += share
            bends[k] += share * inverse
    fold(totals)
    fold(slopes)
    fold(bends)


@wide
def lowered(w, share, growth, cut, slowness, one):
    """A share less what the last step takes from it: two terms of the power's series."""
    zero, half = one - one, one / (one + one)
    height = height_below(w, growth, one) + one
    relative = cut * reciprocal(height if height > zero else one)
    less = slowness * relative * (one - half * (slowness - one) * relative)
    share = share - share * less
    return share if (height > cut) & (share > zero) else zero


@wide
def lower(tile, shares, growths, slownesses, cuts, totals):
    """Take the last, small share from ``c``, with no power again."""
    one, line = tile.dtype.type(1), np.uint64(LINE)
    second, third, fourth = np.uint64(LINE), np.uint64(2 * LINE), np.uint64(3 * LINE)
    totals[:] = 0.0
    for start in range(0, tile.shape[0], STRIDE):
        part, kept = tile[start : start + STRIDE], shares[start : start + STRIDE]
        for k in range(line):
            growth, cut, slow = growths[k], cuts[k], slownesses[k]
            a = lowered(part[k], kept[k], growth, cut, slow, one)
            b = lowered(part[k + second], kept[k + second], growth, cut, slow, one)
            c = lowered(part[k + third], kept[k + third], growth, cut, slow, one)
            d = lowered(part[k + fourth], kept[k + fourth], growth, cut, slow, one)
            kept[k], kept[k + second], kept[k + third], kept[k + fourth] = a, b, c, d
            totals[k] += np.float64((a + b) + (c + d))
    fold(totals)


@wide
def longer(cut, order, total, slope, bend):
    """Halley's step for a Newton step."""
    curvature = (1.0 / order - 1.0) * (bend / slope - slope / total)
    turn = 0.5 * cut * curvature
    reached = cut / (1.0 - (turn if turn < 0.5 else 0.5))
    highest = 0.5 * (1.0 + cut)
    reached = reached if reached < highest else highest
    return reached if order <= _HALLEY else cut


@wide
def step_of(order, growth, total, slope, bend):
    """The share to take from ``c``, Newton's or Halley's, and how far the norm is from one."""
    total, slope = np.float64(total), np.float64(slope)
    total, slope = total if total > 1.0 else 1.0, slope if slope > 1.0 else 1.0
    share = 1.0 / total
    gap = 1.0 - power(share - 1.0, share, order) * growth
    return longer(total * gap / slope, order, total, slope, np.float64(bend)), gap


@wide
def move(orders, cuts, growths, totals, slopes, bends, wanted):
    """The step of every lane that is far from its root; how many lanes took it.

    Writes ``c^{1/r}``, whose product with the sum of a lane's shares is to be one, by its series.
    """
    moving, one = 0, growths.dtype.type(1)
    for k in range(np.uint64(LINE)):
        far, gap = step_of(orders[k], growths[k], totals[k], slopes[k], bends[k])
        growth = growths.dtype.type(growths[k] / (1.0 - far))
        growth = growth if growth > one else one
        limit = _LEFT if orders[k] <= _HALLEY else _LEFT_NEWTON
        moves = (abs(gap) > limit * orders[k]) & (growth != growths[k])
        growths[k], cuts[k] = growth if moves else growths[k], far
        left = gap / orders[k]
        wanted[k] = (1.0 + left * (1.0 + 0.5 * (1.0 + orders[k]) * left)) / totals[k]
        moving += moves
    return moving


@wide
def rough_move(orders, growths, totals, slopes, bends):
    """The step of every lane; how many were far from their roots."""
    far_off, one = 0, growths.dtype.type(1)
    for k in range(np.uint64(LINE)):
        far, gap = step_of(orders[k], growths[k], totals[k], slopes[k], bends[k])
        growth = growths.dtype.type(growths[k] / (1.0 - far))
        growths[k] = growth if growth > one else one
        limit = _ROUGH if orders[k] <= _HALLEY else _ROUGH_NEWTON
        far_off += abs(gap) > limit * orders[k]
    return far_off


@wide
def norm_sums(tile, cs, totals, seconds, sizes):
    """``Σ [w + c]_+``, the sum of the squares, and how many are positive."""
    zero, one, line = tile.dtype.type(0), tile.dtype.type(1), np.uint64(LINE)
    totals[:], seconds[:], sizes[:] = zero, zero, zero
    for start in range(0, tile.shape[0], STRIDE):
        part = tile[start : start + STRIDE]
        for k in range(line):
            a, b = kept_of(part[k], cs[k], zero), kept_of(part[k + line], cs[k], zero)
            c = kept_of(part[k + np.uint64(2 * LINE)], cs[k], zero)
            d = kept_of(part[k + np.uint64(3 * LINE)], cs[k], zero)
            totals[k] += (a + b) + (c + d)
            seconds[k] += (a * a + b * b) + (c * c + d * d)
            sizes[k] += (one_if(a, zero, one) + one_if(b, zero, one)) + (
                one_if(c, zero, one) + one_if(d, zero, one)
            )
    fold(totals)
    fold(seconds)
    fold(sizes)


@wide
def norm_move(orders, cs, totals, seconds, sizes, lowest):
    """Newton's step for the bound of the norm; how many lanes were far from its root."""
    one, two, far_off = cs.dtype.type(1), cs.dtype.type(2), 0
    for k in range(np.uint64(LINE)):
        order = cs.dtype.type(orders[k])
        ratio = seconds[k] / (totals[k] * totals[k])
        bound = totals[k] * rough_power(ratio, one - order)
        rise = (two * order - one) * sizes[k] / totals[k]
        rise += two * (one - order) * totals[k] / seconds[k]
        c = cs[k] - (one - one / bound) / rise
        cs[k] = c if c > lowest else lowest
        far_off += (abs(bound - one) > _LEFT_BOUND) & (orders[k] > _HALLEY)
    return far_off


@small
def begin(tile, orders, growths, totals, slopes, bends):
    """``1 / c`` of every lane, where steps begin."""
    one, cs, steep = growths.dtype.type(1), growths, 0
    for k in range(LINE):
        steep += orders[k] > _HALLEY
    cs[:] = one
    if steep > 0:
        lowest = tile.dtype.type(0.5 * LANES / tile.shape[0])
        for _ in range(_PASSES):
            norm_sums(tile, cs, totals, slopes, bends)
            if norm_move(orders, cs, totals, slopes, bends, lowest) == 0:
                break
    for k in range(LINE):
        growths[k] = one / cs[k] if orders[k] > _HALLEY else one


@inner
def solve_tile(
    tile, shares, orders, cuts, wanted, found, growths, slownesses, totals, slopes, bends
):
    """Fill a tile with unnormalised distributions; write the sums found and wanted."""
    for k in range(LINE):
        slownesses[k] = tile.dtype.type(1.0 / orders[k])
    begin(tile, orders, growths, totals, slopes, bends)
    for _ in range(_PASSES):
        rough_sums(tile, growths, slownesses, totals, slopes, bends)
        if rough_move(orders, growths, totals, slopes, bends) == 0:
            break
    for _ in range(_PASSES):
        level_sums(tile, shares, growths, slownesses, totals, slopes, bends)
        if move(orders, cuts, growths, totals, slopes, bends, wanted) == 0:
            break
    for k in range(LINE):
        bends[k] = tile.dtype.type(cuts[k])
    lower(tile, shares, growths, slownesses, bends, found)


@small
def write_row(shares, lane, total, out):
    """Write a lane of a tile of distributions."""
    scale, lanes = shares.dtype.type(1.0 / total), np.uint64(LANES)
    for j in range(np.uint64(out.shape[0])):
        out[j] = shares[j * lanes + np.uint64(lane)] * scale
