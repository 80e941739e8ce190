"""α-entmax of a list of candidates for any ``r = α - 1 > 0``; the unknown is a logarithm.

With ``level = -log(c) / r`` nothing is lost as ``r -> 0``. Candidates ``w`` and the equation are
those of ``closed.py``; the precision is that of the list. Sums are of powers of the heights
``h = (w + c) / c``; ``growth`` is ``1 / c``, and a ``cut`` is the share of ``c`` to take away.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.box import lowered
from repro.mappings.kernels.cpu.elementary import power, reciprocal

_COARSE = 1e-2
_PASSES = 64
_STEEP = 1e-10
"""Tolerance above ``r = 1``, where a step across a kink is no better than the one before it."""
_NEWTON = 12
"""Passes above ``r = 1`` before nothing but halving is tried."""
_CHUNK = 256
"""Entries that are added up in the precision of the list before the sum is widened."""
_SHARP = 0.5
"""Above this ``r`` the level has no more digits than ``1 / c``."""
_HIGHEST = 700.0
"""Keeps ``1 / c`` finite where ``r`` is large."""
TIED = 1e-8
"""Above ``r = 1`` entries so close to the threshold, relative to ``c``, have few digits."""
LARGEST_CUT = 0.1 * TIED
"""Above ``r = 1`` the last step corrects the rounding of ``c``, and takes no entry all its mass."""
BELOW = -1e-12
"""Lower end of that range, relative to ``c``: entries may fall below by the rounding of ``c``."""
_DEEPEST, _SHALLOWEST = -700.0, math.log(1e-6)
"""Between these, relative to ``c``, the logarithm of the smallest height is looked for."""


@small
def growth_at(order, level):
    """``1 / c``, kept finite."""
    return math.exp(min(order * level, _HIGHEST))


@small
def settled_level(order, level, dtype):
    """The level at which ``1 / c`` is a number of the precision of the list, and that number.

    Otherwise steps would correct an error of sums that rounding ``1 / c`` brings about. As
    ``r -> 0`` the level has digits that ``1 / c`` has not, and shares do not depend on them.
    """
    growth = np.float64(dtype.type(growth_at(order, level)))
    return (math.log(growth) / order if order > _SHARP else level), growth


@small
def _sums(scaled, growth, slowness):
    zero, one = scaled.dtype.type(0), scaled.dtype.type(1)
    total = slope = bend = zero
    for j in range(scaled.shape[0]):
        below = scaled[j] * growth
        below = below if below > -one else -one
        height = below + one
        share = power(below, height, slowness)
        inverse = reciprocal(height if height > zero else one)
        total += share
        slope += share * inverse
        bend += share * inverse * inverse
    return total, slope, bend


@inner
def level_sums(scaled, count, growth, order):
    """``Σ t``, ``Σ t^{1-r}`` and ``Σ t^{1-2r}`` with ``t = p / max p``, the last two to digits."""
    total = slope = bend = 0.0
    growth, slowness = scaled.dtype.type(growth), scaled.dtype.type(1.0 / order)
    for start in range(0, count, _CHUNK):
        part = _sums(scaled[start : min(start + _CHUNK, count)], growth, slowness)
        total, slope, bend = total + part[0], slope + part[1], bend + part[2]
    return total, slope, bend


@small
def newton_cut(order, level, total, slope):
    """The share of ``c`` that Newton's method for the norm of ``w + c`` takes away."""
    return -math.expm1(order * (level - math.log(total))) * total / slope


@small
def longer(cut, total, slope, bend, order):
    """Halley's step for a Newton step that is far from the root.

    It may end below the root, from where Newton's next step leads above it again.
    """
    if order > 0.5 or cut <= 0.0:
        return cut
    curvature = (1.0 / order - 1.0) * (bend / slope - slope / total)
    return min(cut / (1.0 - min(0.5 * cut * curvature, 0.5)), 0.5 * (1.0 + cut))


@inner
def descend(scaled, count, order, level, tolerance):
    """Level for ``r <= 1``, ``1 / c`` there, and the cut of ``c`` that is left to take."""
    cut, highest = 0.0, math.log(count)
    level, growth = settled_level(order, level, scaled.dtype)
    for _ in range(_PASSES):
        total, slope, bend = level_sums(scaled, count, growth, order)
        cut = newton_cut(order, level, total, slope)
        if abs(level - math.log(total)) <= tolerance:
            break
        following = level - math.log1p(-longer(cut, total, slope, bend, order)) / order
        following = min(following, highest)
        following, growth_there = settled_level(order, following, scaled.dtype)
        if following == level:
            break
        level, growth, cut = following, growth_there, 0.0
    return level, growth, cut


@inner
def enclose(scaled, count, order, level):
    """Level for ``r > 1``, where the norm is neither convex nor concave across its kinks.

    Newton's steps are taken as long as they stay between bounds of the root; else, and after some
    of them, the interval is halved. Where it cannot be anymore, the result is the lower bound:
    what is tied at the threshold then has mass.
    """
    low, high = 0.0, math.log(count)
    for k in range(_PASSES + _NEWTON):
        total, slope, _ = level_sums(scaled, count, growth_at(order, level), order)
        gap, cut = level - math.log(total), newton_cut(order, level, total, slope)
        low, high = (level, high) if gap < 0.0 else (low, level)
        following = level - math.log1p(-cut) / order if cut < 1.0 else high
        inside = low < following and following < high
        if abs(gap) <= _STEEP:
            return following if inside else level
        if not inside or k >= _NEWTON:
            following = 0.5 * (low + high)
        if following in (low, high):
            break
        level = following
    return low


@inner
def bound(scaled, count, order):
    """A lower bound of the level from some of a row's candidates, the largest among them."""
    level, _, cut = descend(scaled, count, order, 0.0, _COARSE)
    # A long step may have gone too far; the Newton step that is left corrects it.
    return max(level - math.log1p(-cut) / order, 0.0)


@inner
def shares(scaled, count, growth, cut, order, probs):
    """Write the unnormalised distribution; return its sum and the sum of ``p w``."""
    zero, one = scaled.dtype.type(0), scaled.dtype.type(1)
    growth, cut = scaled.dtype.type(growth), scaled.dtype.type(cut)
    slowness = scaled.dtype.type(1.0 / order)
    total = moment = 0.0
    for j in range(count):
        below = scaled[j] * growth
        # A step back revives what is tied at the threshold; those further below have no mass.
        height = lowered(below + one, cut)
        height = height if height > zero else zero
        share = power(below - cut, height, slowness)
        probs[j] = share
        total += share
        moment += share * scaled[j]
    return total, moment


@inner
def close(scaled, count, order, level):
    """Take the last step to the root; the results are those of :func:`descend`."""
    if order > 1.0:
        level = enclose(scaled, count, order, level)
        growth = growth_at(order, level)
        total, slope, _ = level_sums(scaled, count, growth, order)
        return level, growth, min(newton_cut(order, level, total, slope), LARGEST_CUT)
    return descend(scaled, count, order, level, math.sqrt(np.finfo(scaled.dtype).eps) / 8.0)


@small
def is_tied(w, c):
    """Return whether a height ``w + c`` has few digits."""
    return (w + c > BELOW * c) & (w + c < TIED * c)


@inner
def lowest_kept(scaled, count, c):
    """The lowest entry that is not clearly below the threshold."""
    lowest = 0.0
    for j in range(count):
        w = np.float64(scaled[j])
        lowest = w if (w + c > BELOW * c) & (w < lowest) else lowest
    return lowest


@inner
def raised(scaled, count, rise, slowness, probs):
    """Write ``(w + rise)^{1/r}``; return the sum and that of ``p w``."""
    zero, total, moment = 0.0, 0.0, 0.0
    for j in range(count):
        height = np.float64(scaled[j]) + rise
        share = power(height - 1.0, height if height > zero else zero, slowness)
        probs[j] = share
        total += share
        moment += share * scaled[j]
    return total, moment


@inner
def move_down(scaled, count, distance):
    """Take entries relative to one that is so much above zero; return the lowest one above it."""
    lowest = math.inf
    for j in range(count):
        scaled[j] -= distance
        lowest = scaled[j] if (scaled[j] > 0.0) & (scaled[j] < lowest) else lowest
    return lowest


@inner
def solve_tied(scaled, count, order, anchor, probs):
    """Solve a row whose entries next to ``anchor`` have few digits beside ``c``, as :func:`solve`.

    Entries are taken relative to the lowest with mass, the anchor or one just above it, and the
    logarithm of its height is halved.
    """
    slowness, low, high = 1.0 / order, _DEEPEST, _SHALLOWEST + math.log(-anchor)
    above = move_down(scaled, count, anchor)
    while raised(scaled, count, math.exp(low), slowness, probs)[0] > 1.0 and above < math.inf:
        anchor += above
        above = move_down(scaled, count, above)
    for _ in range(_PASSES):
        middle = 0.5 * (low + high)
        total, _ = raised(scaled, count, math.exp(middle), slowness, probs)
        low, high = (low, middle) if total > 1.0 else (middle, high)
    total, moment = raised(scaled, count, math.exp(high), slowness, probs)
    return total, moment + anchor * total, (1.0 - (math.exp(high) - anchor)) / order


@inner
def solve(scaled, count, level, order, probs):
    """Write the unnormalised distribution, starting at a lower bound of the level.

    The shares are those after the last step. Where that step met a kink their sum says so, and
    Newton goes on as long as that helps; above ``r = 1`` it would not.

    Returns:
        Its sum, the sum of ``p w``, ``(1 - c) / r``, and the logarithm of the sum it should have
        relative to that.
    """
    gap, eps, previous = 0.0, np.finfo(scaled.dtype).eps, math.inf
    level, growth, cut = close(scaled, count, order, level)
    if order > 1.0:
        anchor = lowest_kept(scaled, count, 1.0 / growth)
        if is_tied(anchor, 1.0 / growth):
            total, moment, lead = solve_tied(scaled, count, order, anchor, probs)
            return total, moment, lead, 0.0
    for _ in range(_PASSES):
        total, moment = shares(scaled, count, growth, cut, order, probs)
        gap = abs(level - math.log(total))
        level -= math.log1p(-cut) / order
        if order > 1.0 or gap <= 2.0 * eps or gap > 0.5 * previous:
            break
        previous = gap
        level, growth = settled_level(order, level, scaled.dtype)
        whole, slope, _ = level_sums(scaled, count, growth, order)
        cut = newton_cut(order, level, whole, slope)
    return total, moment, -math.expm1(-order * level) / order, gap
