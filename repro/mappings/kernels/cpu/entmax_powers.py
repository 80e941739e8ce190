"""α-entmax for ``r`` that need powers, for short and long rows in both precisions.

The equation is that of ``entmax_solver.py``, ``N(c) = ‖[w + c]_+‖_{1/r} = 1`` with ``r = α - 1``.
Powers are of heights ``h = (w + c) / c``, and the unknown is ``1 / c - 1``, which keeps its digits
as ``r -> 0`` (softmax). There are two cases:

``r <= 1``
    Above ``r = ½`` steps start at the root of 1.5-entmax, which is an upper bound and needs no
    powers; below, at ``c = 1``. Steps are taken with powers of five digits until the excess
    ``log Σ p`` is below ``8e-3`` (rough powers first: 18 to 24 % less time at 50 columns, 3 to 18 %
    at 400), then with exact powers until it is below ``sqrt(eps) / 2``. The last step is the
    second-r series of the power instead of new powers (13 to 18 %), applied to the shares of
    the last pass, which are kept (half the time at α = 1.75 and 400 columns).
``r > 1``
    The norm is not convex across its kinks, where an entry gets mass with infinite slope. Newton's
    steps start at the root of sparsemax, an upper bound, and are taken while they stay in a bracket
    and halve the excess; else the bracket is halved geometrically. Computed in double precision.
    Heights of entries tied at the threshold have no digits relative to ``c``: then the logarithm of
    the height of the lowest entry with mass is found by bisection (:func:`_solve_tied`).

Excesses are computed by logarithms in double precision, of which there are few. The rounding error
of a sum of shares enters the excess and the factor of the results; without it, errors of rows with
thousands of tied entries are 2.5e-7 instead of 1.7e-7.
"""

import math

import numpy as np
from numba import types

from repro.mappings.kernels.cpu import blocks, simd
from repro.mappings.kernels.cpu.compile import chosen_by_type, inline
from repro.mappings.kernels.cpu.elementary import (
    exponential,
    logarithm,
    power,
    reciprocal,
    rough_power,
)
from repro.mappings.kernels.cpu.entmax_solver import (
    COARSE,
    LOWEST_R,
    PASSES,
    UNSCREENED,
    descend,
    is_narrow,
    r_of,
    write_rows,
)

_UNSCREENED_ORDER = 0.2
"""Above this ``r`` short rows are screened, too: for α = 1.75 and 50 columns this saves 41 %."""
_SMALLEST_R = 1e-20
"""Replaces ``r = 0`` (softmax): ``log(1 + r x) / r`` is then ``x`` to the last bit."""
_LARGEST_R = 1e9
"""Replaces larger ``r``: all mass is on entries that tie with the largest."""
_ROUGH_EXCESS, _ROUGH_STEP = 8e-3, 1.6e-2
"""Excess before the last rough step, for ``r > ½``, and ``r`` times it for ``r <= ½``.

Newton's step leaves about ``0.6 r²`` times the square of the excess for N(0, 1) scores. This is
below the excess at which the last step is taken, so that one exact pass is enough.
"""
_LARGEST_CUT = 1.0 - 1e-6
"""Largest relative decrease of ``c`` in a step.

Powers are computed to five digits, so a Newton step may overshoot and make ``c`` zero.
"""
_EXCESS_ABOVE_2 = 1e-12
"""Excess at which steps end for ``r > 1``; normalization removes it."""
_HALVED = 0.5
"""For ``r > 1`` a Newton step is taken only if the last step left less than this of the excess."""
_RATIONAL_START = 0.3
"""Above this ``r`` steps on lane maxima start at the root of 1.5-entmax or sparsemax."""
_BOUND_ROUNDING = 1e-4
"""Relative amount by which bounds from rough powers are loosened."""
_KINK, _SHARP_KINK, _WIDE_KINK = 2e-7, 6e-8, 1.4e-14
"""Errors of ``log Σ p`` that rounding does not explain: ``r <= ½``, ``r > ½``, double precision."""
_ENDINGS = 16
"""Maximum number of last steps in double precision; more than one if a kink was met."""
_TIED_BELOW, _TIED_ABOVE = -1e-12, 1e-4
"""For ``r > 1``, a height ``1 + w / c`` between these may be mostly rounding error of ``w / c``."""
_KINKED = 1e-12
"""Excess above which, for ``r > 1``, the rounding of ``c`` decides whether an entry has mass.

Rows with more are solved by logarithms; with 1e-8 here, float64 values are up to 1e-8 off.
"""
_DEEPEST, _SHALLOWEST = -700.0, math.log(1e-2)
"""Bounds of the logarithm of the lowest height of tied rows, the upper one relative to ``c``."""
_HALVINGS = 64  # they shrink an interval of 700 to 4e-17


@inline
def _excess(total, rise, r):
    """Return ``r log(Σ p)`` of double vectors, from sums relative to ``c`` and ``1 / c - 1``."""
    share, c = 1.0 / total, 1.0 / (1.0 + rise)
    return logarithm(-1.0 * rise * c, c) - r * logarithm(share - 1.0, share)


@chosen_by_type
def _precise_excess(total, rise, r):
    """Return ``r log(Σ p)`` of vectors of either precision, computed in double; see `_excess`."""
    if total.real == types.float64:
        return lambda total, rise, r: _excess(total, rise, r)

    def in_halves(total, rise, r):
        low = _excess(simd.lower_half(total), simd.lower_half(rise), simd.lower_half(r))
        high = _excess(simd.upper_half(total), simd.upper_half(rise), simd.upper_half(r))
        return simd.join(low, high)

    return in_halves


@inline
def _compensated(block, mass, lost):
    """Return a compensated sum along each row, and its remaining rounding error."""
    if block.in_lanes:
        total = mass + lost
        return total, (mass - total) + lost
    exact, real = simd.wide_total(mass) + simd.wide_total(lost), block.w.dtype.type
    return simd.splat(real(exact)), simd.splat(real(exact - np.float64(real(exact))))


@inline
def _sums(block, columns, rise, inverse_r):
    """Return ``Σ h^{1/r}``, its rounding error, rough ``Σ h^{1/r - 1}``; store ``h^{1/r}``."""
    width = blocks.width_of(block.w)
    mass = lost = slope = simd.zeros_like(rise)
    for k in range(0, columns * width, width):
        w = simd.load(block.w, k)
        below = simd.maximum(w * rise + w, -1.0)  # rounded once where there are fused operations
        height = below + 1.0
        share = power(below, height, inverse_r)
        simd.store(block.shares, k, share)
        mass, lost = blocks.compensated_add(mass, lost, share)
        slope += share * reciprocal(simd.where(height > 0.0, height, 1.0))
    total, rest = _compensated(block, mass, lost)
    return simd.maximum(total, 1.0), rest, simd.maximum(blocks.along_row(block, slope), 1.0)


@inline
def _newton_cut(total, slope, excess):
    """Return the relative decrease of ``c`` by Newton's step for the norm, given its logarithm."""
    # 1 - exp(-x) loses digits for small x, where the Padé approximant is exact.
    near = excess / (1.0 + excess * (0.5 + excess * (1.0 / 12.0)))
    far = 1.0 - exponential(simd.maximum(simd.minimum(-1.0 * excess, 60.0), -60.0))
    cut = total / slope * simd.where(simd.magnitude(excess) < 0.1, near, far)
    return simd.minimum(cut, _LARGEST_CUT)


@inline
def _rough_step(block, columns, rise, r, inverse_r):
    """Return the relative decrease of ``c`` by a step, and the excess, by powers of five digits."""
    width, growth = blocks.width_of(block.w), rise + 1.0
    total = slope = simd.zeros_like(rise)
    for k in range(0, columns * width, width):
        height = simd.load(block.w, k) * growth + 1.0
        positive = height > 0.0
        height = simd.where(positive, height, 1.0)
        share = simd.where(positive, rough_power(height, inverse_r), 0.0)
        total += share
        slope += share * reciprocal(height)
    total = simd.maximum(blocks.along_row(block, total), 1.0)
    slope = simd.maximum(blocks.along_row(block, slope), 1.0)
    if is_narrow(block):
        # Five digits are enough for r <= 1, and one power is quicker than logarithms.
        excess = 1.0 - rough_power(1.0 / total, r) * growth
        return simd.minimum(total * excess / slope, _LARGEST_CUT), excess
    excess = _excess(total, rise, r)
    return _newton_cut(total, slope, excess), excess


@inline
def _new_bracket(r, size):
    """Return bounds of ``1 / c`` for ``size`` entries, and infinity as the previous excess."""
    zero = simd.zeros_like(r)
    high = exponential(simd.minimum(r * math.log(size), -_DEEPEST))
    return zero + 0.5, 2.0 * high, zero + math.inf


@inline
def _advance(block, rise, cut, excess, r, bracket):
    """Return ``1 / c - 1`` and the bracket after a step, and which rows cannot move.

    Newton's step is ``1 / c <- 1 / (c (1 - cut))``. For ``r > 1``, where it leaves the bracket or
    the excess has not halved, ``c`` becomes the geometric mean of the ends.
    """
    low, high, last = bracket
    newton, above_2 = simd.maximum((rise + cut) / (1.0 - cut), 0.0), r > 1.0
    if is_narrow(block) or simd.count(above_2) == 0:
        return newton, bracket, above_2
    growth, reached = rise + 1.0, newton + 1.0
    low, high = simd.where(excess > 0.0, growth, low), simd.where(excess > 0.0, high, growth)
    size = simd.magnitude(excess)
    taken = (low < reached) & (reached < high) & (size < _HALVED * last)
    middle = simd.sqrt(low) * simd.sqrt(high)
    stuck = above_2 & ((middle <= low) | (middle >= high)) & ~taken
    following = simd.where(taken | ~above_2, newton, middle - 1.0)
    return simd.where(stuck, rise, following), (low, high, size), stuck


@inline
def _bound(block, columns, r, inverse_r):
    """Return a lower bound of ``1 / c - 1`` from the lane maxima of the rows.

    For larger ``r``, it starts at the root of a curve without powers; one Newton step with powers
    follows, as a second one would exclude no more entries.
    """
    rise = simd.zeros_like(r)
    rational, above_2 = r > _RATIONAL_START, r > 1.0
    if simd.count(rational) > 0:
        c, _ = descend(block, columns, rise + 1.0, simd.count(above_2) > 0, COARSE)
        rise = simd.where(rational, 1.0 / c - 1.0, rise)
    cut, _ = _rough_step(block, columns, rise, r, inverse_r)
    rise = simd.where(above_2, rise, simd.maximum((rise + cut) / (1.0 - cut), 0.0))
    return simd.maximum(rise - _BOUND_ROUNDING * (rise + r), 0.0)


@inline
def _descend_roughly(block, columns, rise, r, inverse_r, usual):
    """Return ``1 / c - 1`` after the last rough step."""
    bracket, moves = _new_bracket(r, columns * blocks.width_of(block.w)), usual
    enough = simd.where(r > 0.5, _ROUGH_EXCESS * r, _ROUGH_STEP)
    for _ in range(PASSES):
        cut, excess = _rough_step(block, columns, rise, r, inverse_r)
        following, bracket, stuck = _advance(block, rise, cut, excess, r, bracket)
        rise = simd.where(moves, following, rise)
        moves = moves & (simd.magnitude(excess) > enough) & ~stuck
        if simd.count(moves) == 0:
            break
    return rise


@inline
def _take_last_step(block, columns, rise, cut, inverse_r):
    """Lower all shares by two terms of the power's series.

    A share is NaN where a step back is longer than a height, which the rounding of ``c`` may have
    made zero.

    Returns:
        The sum of the shares, its rounding error, its decrease, and ``Σ p w``.
    """
    width = blocks.width_of(block.w)
    mass = moment = lost = less = simd.zeros_like(rise)
    for k in range(0, columns * width, width):
        w, before = simd.load(block.w, k), simd.load(block.shares, k)
        height = (w * rise + w) + 1.0
        divisor = simd.where(height > 0.0, height, 1.0)
        inverse = reciprocal(divisor)
        if not is_narrow(block):  # its five digits would leave errors of 4e-12 in double precision
            inverse = inverse * (2.0 - divisor * inverse)
        part = cut * inverse
        fall = inverse_r * part * (1.0 - 0.5 * (inverse_r - 1.0) * part)
        share = simd.where(height + cut > 0.0, simd.maximum(before - before * fall, 0.0), math.nan)
        share = simd.where(height > cut, share, 0.0)
        simd.store(block.shares, k, share)
        less += before - share
        mass, lost = blocks.compensated_add(mass, lost, share)
        moment += share * w
    found, rest = _compensated(block, mass, lost)
    return found, rest, blocks.along_row(block, less), blocks.along_row(block, moment)


@inline
def _solve_powers(block, columns, rise, r, inverse_r, usual):
    """Fill ``shares`` with unnormalized distributions, and write their totals, moments, heads.

    Returns:
        The rows that are not settled.
    """
    above_2 = r > 1.0
    enough = simd.where(above_2, _EXCESS_ABOVE_2 * r, 0.5 * math.sqrt(np.finfo(block.w.dtype).eps))
    kink, endings = simd.where(r > 0.5, _SHARP_KINK, _KINK), 1
    if not is_narrow(block):
        kink, endings = simd.zeros_like(r) + _WIDE_KINK, _ENDINGS
    rise = _descend_roughly(block, columns, rise, r, inverse_r, usual)
    unsettled, excess = usual, rise
    for _ in range(endings):
        bracket = _new_bracket(r, columns * blocks.width_of(block.w))
        total = slope = cut = rise
        moves = usual
        for _ in range(PASSES):
            total, rest, slope = _sums(block, columns, rise, inverse_r)
            excess = _precise_excess(total, rise, r) + r * rest / total
            cut = _newton_cut(total, slope, excess)
            moves &= simd.magnitude(excess) > enough
            if simd.count(moves) == 0:
                break
            following, bracket, stuck = _advance(block, rise, cut, excess, r, bracket)
            rise = simd.where(moves, following, rise)
            moves &= ~stuck
        cut = simd.where(above_2, 0.0, cut)
        found, rest, less, moment = _take_last_step(block, columns, rise, cut, inverse_r)
        # The sum of the shares is c^{-1/r} unless the last step has met a kink.
        change = less / total
        left = excess - r * change * (1.0 + 0.5 * change)
        unsettled = usual & ~(simd.magnitude(left) <= kink * r) & ~above_2
        simd.store(block.totals, 0, found)
        simd.store(block.tails, 0, rest)
        simd.store(block.moments, 0, moment)
        simd.store(block.heads, 0, (rise + cut) / (rise + 1.0) / r)
        simd.store(block.scales, 0, 1.0 / (rise + 1.0))
        if simd.count(unsettled) == 0:
            break
        rise = simd.where(unsettled, simd.maximum((rise + cut) / (1.0 - cut), 0.0), rise)
    if is_narrow(block):
        return unsettled
    kinked = usual & (simd.magnitude(excess) > _KINKED * r)
    return unsettled | (above_2 & (kinked | _has_ties(block, columns, rise)))


# Ties


@inline
def _has_ties(block, columns, rise):
    """Return which rows have a height ``1 + w / c`` so small that rounding is most of it."""
    width, found = blocks.width_of(block.w), simd.zeros_like(rise)
    for k in range(0, columns * width, width):
        w = simd.load(block.w, k)
        height = (w * rise + w) + 1.0
        found = simd.where((height > _TIED_BELOW) & (height < _TIED_ABOVE), 1.0, found)
    return blocks.max_along_row(block, found) > 0.0


@inline
def _move_down(block, columns, distance):
    """Subtract ``distance`` from all entries; return the lowest one that is still positive."""
    width, lowest = blocks.width_of(block.w), simd.splat(block.w.dtype.type(np.inf))
    for k in range(0, columns * width, width):
        w = simd.load(block.w, k) - distance
        simd.store(block.w, k, w)
        lowest = simd.where((w > 0.0) & (w < lowest), w, lowest)
    return -simd.highest(-1.0 * lowest)


@inline
def _raised(block, columns, rise, inverse_r):
    """Store ``p = (w + rise)^{1/r}`` in ``shares``; return ``Σ p`` and ``Σ p w``."""
    width, rise = blocks.width_of(block.w), simd.splat(block.w.dtype.type(rise))
    mass = moment = simd.zeros_like(rise)
    for k in range(0, columns * width, width):
        w = simd.load(block.w, k)
        height = w + rise
        share = power(height - 1.0, simd.maximum(height, 0.0), simd.splat(inverse_r))
        simd.store(block.shares, k, share)
        mass += share
        moment += share * w
    return simd.wide_total(mass), simd.wide_total(moment)


@inline
def _solve_tied(block, columns, r):
    """Solve a long row with ``r > 1`` whose entries next to the threshold have few digits.

    Entries are taken relative to the lowest with mass, which is close to the threshold, and the
    logarithm of its height is found by bisection.
    """
    width, c = blocks.width_of(block.w), simd.load(block.scales, 0)
    anchors = simd.zeros_like(simd.load(block.w, 0))
    for k in range(0, columns * width, width):
        w = simd.load(block.w, k)
        anchors = simd.where((w + c > _TIED_BELOW * c) & (w < anchors), w, anchors)
    anchor, inverse_r = -simd.highest(-1.0 * anchors), block.w.dtype.type(1.0 / r)
    low, high = _DEEPEST, _SHALLOWEST + math.log(-anchor)
    above, middle, halvings, lifting = _move_down(block, columns, anchor), low, 0, True
    while halvings < _HALVINGS:
        mass, _ = _raised(block, columns, math.exp(middle), inverse_r)
        if lifting and mass > 1.0 and above < math.inf:
            anchor += above
            above = _move_down(block, columns, above)
            continue
        if not lifting:
            low, high = (low, middle) if mass > 1.0 else (middle, high)
        lifting, halvings, middle = False, halvings + 1, 0.5 * (low + high)
    mass, moment = _raised(block, columns, math.exp(high), inverse_r)
    simd.store(block.totals, 0, simd.splat(mass))
    simd.store(block.tails, 0, simd.splat(0.0))
    simd.store(block.moments, 0, simd.splat(moment + anchor * mass))
    simd.store(block.heads, 0, simd.splat((1.0 - (math.exp(high) - anchor)) / r))


@inline
def _write_powers(problem, block, i, k):
    """Write the distribution of row ``i``, the ``k``-th of the block."""
    start = k * blocks.stride_of(problem.rows) if block.in_lanes else 0
    blocks.scatter(problem.rows[i], block.limits[k], block.packed, start, problem.probs[i])


@inline
def solve_powers(problem, block, states, state, first, stop):
    """Compute α-entmax at any ``r``, for the rows of a block that are in a given state."""
    rows, last = problem.rows, stop - 1
    low, high = (LOWEST_R, 1.0) if is_narrow(block) else (_SMALLEST_R, _LARGEST_R)
    for k in range(blocks.width_of(block.w)):
        r = r_of(problem, min(first + k, last))
        # Rows in other states, and NaN, get an ``r`` that is valid in this precision.
        block.r_of_rows[k] = block.w.dtype.type(min(max(r, low), high) if r >= 0.0 else 1.0)
    columns = blocks.take_lane_maxima(block, rows, first, last)
    r = simd.load(block.r_of_rows, 0)
    inverse_r, rise = 1.0 / r, simd.zeros_like(r)
    if rows.shape[1] > UNSCREENED or simd.count(r > _UNSCREENED_ORDER) > 0:
        blocks.center(block, columns)
        rise = _bound(block, columns, r, inverse_r)
    blocks.set_limits(block, 1.0 / (1.0 + rise), inverse_r, np.finfo(rows.dtype).eps)
    columns = blocks.take_candidates(block, rows, first, last)
    usual = (simd.load(block.invalid, 0) == 0.0) & (simd.load(block.peaks, 0) > -np.inf)
    unsettled = _solve_powers(block, columns, rise, r, inverse_r, usual)
    if simd.count(unsettled) > 0 and not block.in_lanes and not is_narrow(block):
        # Nobody solves this row again: for r <= 1 its last step, which met a kink, has to do.
        if block.r_of_rows[0] > 1.0:
            _solve_tied(block, columns, np.float64(block.r_of_rows[0]))
        unsettled &= ~unsettled
    total = simd.load(block.totals, 0)
    scale = 1.0 / total
    simd.store(block.scales, 0, simd.where(unsettled & usual, 0.0, scale))
    simd.store(block.tails, 0, scale * ((1.0 - total * scale) - scale * simd.load(block.tails, 0)))
    blocks.pack(block, columns, blocks.stride_of(rows))
    return write_rows(problem, block, states, state, first, stop, _write_powers)
