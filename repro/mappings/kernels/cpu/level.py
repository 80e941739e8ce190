"""α-entmax of a list of candidates for any ``r = α - 1 > 0``; the unknown is a logarithm.

With ``level = -log(c) / r`` nothing is lost as ``r -> 0``. Candidates ``w`` and the equation are
those of ``closed.py``; the precision is that of the list.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.elementary import power

_COARSE = 1e-3
_PASSES = 64
_BISECTIONS = 60
_CHUNK = 256
"""Entries that are added up in the precision of the list before the sum is widened."""


@small
def growth_at(order, level):
    """``1 / c``, kept finite."""
    return math.exp(min(order * level, 80.0))


@small
def _sums(scaled, start, stop, growth, slowness):
    zero, one = scaled.dtype.type(0), scaled.dtype.type(1)
    total = slope = zero
    for j in range(start, stop):
        below = scaled[j] * growth
        below = below if below > -one else -one
        height = below + one
        share = power(below, height, slowness)
        total += share
        slope += share / (height if height > zero else one)
    return total, slope


@inner
def level_sums(scaled, count, order, level):
    """``Σ t`` and ``Σ t^{1-r}`` with ``t = p / max p`` at a level."""
    total = slope = 0.0
    growth = scaled.dtype.type(growth_at(order, level))
    slowness = scaled.dtype.type(1.0 / order)
    for start in range(0, count, _CHUNK):
        part, tilt = _sums(scaled, start, min(start + _CHUNK, count), growth, slowness)
        total += part
        slope += tilt
    return total, slope


@inner
def descend(scaled, count, order, level, tolerance):
    """Level for ``r <= 1`` up to a tolerance, and the cut of ``c`` that is left to take."""
    cut = 0.0
    for _ in range(_PASSES):
        following = level - math.log1p(-cut) / order
        settled = following == level and cut != 0.0
        level = following
        total, slope = level_sums(scaled, count, order, level)
        gap = level - math.log(total)
        cut = -math.expm1(order * gap) * total / slope
        if abs(gap) <= tolerance or settled:
            break
    return level, cut


@inner
def bisect(scaled, count, order):
    """Level for ``r > 1``, where the function is not convex."""
    low, high = 0.0, math.log(count)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if middle < math.log(level_sums(scaled, count, order, middle)[0]):
            low = middle
        else:
            high = middle
    return low


@inner
def bound(scaled, count, order):
    """A lower bound of the level from some of a row's candidates, the largest among them."""
    return descend(scaled, count, order, 0.0, _COARSE)[0]


@inner
def shares(scaled, count, order, level, cut, probs):
    """Write the unnormalised distribution; return its sum and the sum of ``p w``."""
    zero, one = scaled.dtype.type(0), scaled.dtype.type(1)
    growth = scaled.dtype.type(growth_at(order, level))
    slowness, cut = scaled.dtype.type(1.0 / order), scaled.dtype.type(cut)
    total = moment = 0.0
    for j in range(count):
        below = scaled[j] * growth
        below = below if below > -one else -one
        height = below + one
        lowered = height - cut
        height = lowered if height > zero else zero
        share = power(below - cut, height, slowness)
        probs[j] = share
        total += share
        moment += share * scaled[j]
    return total, moment


@inner
def solve(scaled, count, level, order, probs):
    """Write the unnormalised distribution, starting at a lower bound of the level.

    Returns:
        Its sum, the sum of ``p w``, and ``(1 - c) / r``.
    """
    cut = 0.0
    if order > 1.0:
        level = bisect(scaled, count, order)
    else:
        tolerance = 4.0 * np.finfo(scaled.dtype).eps
        level, cut = descend(scaled, count, order, level, tolerance)
    total, moment = shares(scaled, count, order, level, cut, probs)
    return total, moment, -math.expm1(-order * level) / order
