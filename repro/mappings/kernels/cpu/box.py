"""``clip(x - τ, 0, u)`` that sums to a total: a bracketed Newton method on a list of candidates.

The sum is piecewise linear and decreasing in ``τ``. Newton's step is exact on the last piece;
where it leaves the bracket or gains little, a point on the chord or the middle is tried. All is in
double precision, for rows on which ``box_lanes.py`` gives up.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import exact, inner, small
from repro.mappings.kernels.cpu.extremes import key_of, value_of

_PASSES = 300
_LANES = 8
"""Lists are filled up to multiples of this."""


@small
def finite(score, largest):
    """A score in double precision; infinities become the largest number."""
    return min(max(np.float64(score), -largest), largest)


@exact
def height_of(score, largest, base):
    """A score relative to a base."""
    return finite(score, largest) - base


@exact
def lowered(height, tau):
    """A height less a threshold; apart, as base and threshold must not be added."""
    return height - tau


@small
def bound_of(score, upper, limit):
    """The bound of an entry as it counts: nothing where forbidden, at most the limit."""
    bound = np.float64(upper)
    bound = bound if bound < limit else limit
    return bound if (score > -math.inf) & (bound > 0.0) else 0.0


@small
def clipped(above, bound):
    """``clip(above, 0, bound)``."""
    kept = above if above > 0.0 else 0.0
    return kept if kept < bound else bound


@small
def mass_at(heights, bounds, count, tau):
    """``Σ clip(x - τ, 0, u)``, and how many entries are strictly inside."""
    total, free, heights, bounds = 0.0, 0, heights[:count], bounds[:count]
    for j in range(heights.shape[0]):
        kept = clipped(lowered(heights[j], tau), bounds[j])
        total += kept
        free += (kept > 0.0) & (kept < bounds[j])
    return total, free


@small
def _filled(heights, bounds, count):
    """Fill lists up with entries that get nothing; return their length."""
    padded = (count + _LANES - 1) // _LANES * _LANES
    for j in range(count, padded):
        heights[j], bounds[j] = -math.inf, 0.0
    return padded


@small
def load(scores, uppers, limit, base, largest, heights, bounds):
    """List the entries of a row, relative to a base; return how many, filled up."""
    count = scores.shape[0]
    for k in range(count):
        heights[k] = height_of(scores[k], largest, base)
        bounds[k] = bound_of(scores[k], uppers[k], limit)
    return _filled(heights, bounds, count)


@small
def _between(low, high, more, less, total, halve):
    """A point inside a bracket: on the chord of the two masses, or the middle."""
    middle = 0.5 * (low + high)
    chord = low + (high - low) * ((more - total) / (more - less))
    return chord if (low < chord) & (chord < high) & (not halve) else middle


@small
def root(heights, bounds, count, total, low, high, tau, tolerance):
    """``τ`` of a list, from a bracket that may be open below and a point in it."""
    more, less, reach, residual = math.inf, -math.inf, 1.0, math.inf
    for _ in range(_PASSES):
        mass, free = mass_at(heights, bounds, count, tau)
        slow, residual = abs(mass - total) > 0.5 * residual, abs(mass - total)
        if residual <= tolerance:
            break
        if mass > total:
            low, more = tau, mass
        else:
            high, less = tau, mass
        newton = tau + (mass - total) / free if free > 0 else math.nan
        if low == -math.inf:
            reach *= 2.0
            tau = min(newton, high - reach) if free > 0 else high - reach
        elif (low < newton) & (newton < high) & (not slow):
            tau = newton
        else:
            tau = _between(low, high, more, less, total, slow)
        if not (low < tau) & (tau < high):
            break
    return tau


@small
def near_root(heights, bounds, count, total, low, tolerance):
    """``τ`` of a list whose highest is zero, if it is above ``low``; else NaN."""
    padded = _filled(heights, bounds, count)
    mass, free = mass_at(heights, bounds, padded, low)
    if not mass > total:
        return math.nan
    start = low + (mass - total) / max(free, 1)
    start = start if start < 0.0 else 0.5 * low
    return root(heights, bounds, padded, total, low, 0.0, start, tolerance)


@inner
def _row_mass(scores, uppers, limit, largest, tau):
    """``Σ clip(x - τ, 0, u)`` of a whole row, as it stands."""
    mass = 0.0
    for j in range(scores.shape[0]):
        bound = bound_of(scores[j], uppers[j], limit)
        mass += clipped(height_of(scores[j], largest, tau), bound)
    return mass


@inner
def _nearest(scores, uppers, total, largest):
    """The lowest number that is not below ``τ``; all numbers that there are get halved."""
    low, high = key_of(-largest), key_of(largest)
    middle = (low & high) + ((low ^ high) >> 1)
    while middle > low:
        if _row_mass(scores, uppers, total, largest, value_of(middle)) > total:
            low = middle
        else:
            high = middle
        middle = (low & high) + ((low ^ high) >> 1)
    return value_of(high)


@inner
def _anchor(scores, uppers, limit, largest, tau):
    """The lowest score that is not below a number and has a bound."""
    best = largest
    for j in range(scores.shape[0]):
        score = finite(scores[j], largest)
        if (bound_of(scores[j], uppers[j], limit) > 0.0) & (score >= tau):
            best = min(best, score)
    return best


@inner
def _far_threshold(scores, uppers, total, top, largest, heights, bounds, tolerance):
    """The same from a base next to ``τ``, where differences have the most digits."""
    tau = _nearest(scores, uppers, total, largest)
    base = _anchor(scores, uppers, total, largest, tau)
    count = load(scores, uppers, total, base, largest, heights, bounds)
    high = min(top - base, 1.0)
    return base, root(heights, bounds, count, total, -math.inf, high, -0.5, tolerance)


@small
def threshold(scores, uppers, total, top, largest, heights, bounds, tolerance, reach):
    """A base and ``τ`` relative to it, for a row whose bounds sum to more than the total.

    Args:
        scores: one row.
        uppers: its bounds, not cleaned.
        total: mass to spend.
        top: the largest score with a positive bound, finite.
        largest: the largest number in the precision of the scores.
        heights: room for a list.
        bounds: room for another.
        tolerance: excess mass at which to stop.
        reach: the base is moved to a score next to ``τ`` if that lies farther below the top.
    """
    count = load(scores, uppers, total, top, largest, heights, bounds)
    start = -min(1.0, total)
    tau = root(heights, bounds, count, total, -math.inf, 0.0, start, tolerance)
    if tau >= -reach:
        return top, tau
    return _far_threshold(scores, uppers, total, top, largest, heights, bounds, tolerance)
