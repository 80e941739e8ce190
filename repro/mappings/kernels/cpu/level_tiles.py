"""α-entmax of eight rows at a time for ``1 < α <= 2``, in single precision.

Tiles and candidates ``w`` are those of ``tiles.py``, the equation is that of ``level.py``: with
``T = Σ t^{1/r}`` and ``S = Σ t^{1/r - 1}`` of the heights ``t = (w + c) / c``, Newton's method for
the norm of ``w + c`` takes the share ``T (1 - T^{-r} / c) / S`` from ``c``.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.elementary import power, reciprocal
from repro.mappings.kernels.cpu.tiles import LANES, LINE, fold

LOWEST_ORDER = 0.04
"""Below, single precision loses digits: what is left of ``c`` has the power ``1 / r``."""
_HALLEY = 0.5
"""Up to this order Newton's steps are made longer."""
_PASSES = 64
_LEFT = 1e-3
"""How far from one sums may be before Halley's last step; it and the series leave cubes."""


@small
def new_lanes():
    """Room for orders, shares to take from ``c``, ``c^{1/r}``, and final sums, each twice."""
    return np.ones((4, LINE))


@small
def height_below(w, growth, one):
    """``t - 1``, at least minus one."""
    below = w * growth
    return below if below > -one else -one


@small
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


@small
def lower(tile, shares, growths, slownesses, cuts, totals):
    """Take the last, small share from ``c``: two terms of the power's series, no power again."""
    zero, one, half = tile.dtype.type(0), tile.dtype.type(1), tile.dtype.type(0.5)
    totals[:] = 0.0
    for start in range(0, tile.shape[0], LINE):
        part, kept = tile[start : start + LINE], shares[start : start + LINE]
        for k in range(np.uint64(LINE)):
            height = height_below(part[k], growths[k], one) + one
            cut, slowness = cuts[k], slownesses[k]
            relative = cut * reciprocal(height if height > zero else one)
            less = slowness * relative * (one - half * (slowness - one) * relative)
            share = kept[k] - kept[k] * less
            share = share if (height > cut) & (share > zero) else zero
            kept[k] = share
            totals[k] += np.float64(share)
    fold(totals)


@small
def longer(cut, order, total, slope, bend):
    """Halley's step for a Newton step."""
    curvature = (1.0 / order - 1.0) * (bend / slope - slope / total)
    turn = 0.5 * cut * curvature
    reached = cut / (1.0 - (turn if turn < 0.5 else 0.5))
    highest = 0.5 * (1.0 + cut)
    reached = reached if reached < highest else highest
    return reached if order <= _HALLEY else cut


@small
def move(orders, cuts, growths, totals, slopes, bends, enough):
    """The step of every lane, Newton's or Halley's; how many lanes took it."""
    moving, one = 0, growths.dtype.type(1)
    for k in range(np.uint64(LINE)):
        total = np.float64(totals[k] if totals[k] > one else one)
        slope = np.float64(slopes[k] if slopes[k] > one else one)
        share = 1.0 / total
        gap = 1.0 - power(share - 1.0, share, orders[k]) * growths[k]
        cut = total * gap / slope
        far = longer(cut, orders[k], total, slope, np.float64(bends[k]))
        growth = growths.dtype.type(growths[k] / (1.0 - far))
        growth = growth if growth > one else one
        limit = _LEFT if orders[k] <= _HALLEY else enough
        moves = (abs(gap) > limit * orders[k]) & (growth != growths[k])
        growths[k], cuts[k] = growth if moves else growths[k], far
        moving += moves
    return moving


@small
def wanted_totals(orders, growths, wanted):
    """``c^{1/r}``: its product with the sum of a lane's shares is to be one."""
    for k in range(np.uint64(LINE)):
        c = 1.0 / np.float64(growths[k])
        wanted[k] = power(c - 1.0, c, 1.0 / orders[k])


@inner
def solve_tile(tile, shares, orders, cuts, found, growths, slownesses, totals, slopes, bends):
    """Fill a tile with unnormalised distributions; write the sums ``found``, and ``1 / c``."""
    enough = math.sqrt(np.finfo(tile.dtype).eps) / 8.0
    growths[:] = tile.dtype.type(1)
    for k in range(LINE):
        slownesses[k] = tile.dtype.type(1.0 / orders[k])
    for _ in range(_PASSES):
        level_sums(tile, shares, growths, slownesses, totals, slopes, bends)
        if move(orders, cuts, growths, totals, slopes, bends, enough) == 0:
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
