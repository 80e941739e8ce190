"""Csparsemax and budget of several rows in turn, in the precision of the rows.

A step on one row waits for the sums of the last; steps on other rows fill that time. The sum of
``clip(x - τ, 0, u)`` is piecewise linear in ``τ``. Where bounds are small it looks like a smooth
curve from afar: the first guess takes the scores, weighted by their bounds, for normal, and steps
follow the chord of a bracket by the method of Anderson and Björck. On the last piece Newton's step
is exact. In the end ``τ`` is split into a number next to it, from which scores differ by amounts
that are rounded once, and a small rest, and the sum is taken in double precision.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import exact, small
from repro.mappings.kernels.cpu.scratch import borrowed

LANES = 8
"""Rows that are solved in turn."""
LOOSE = 20.0
"""Where bounds sum to more than so many times the total, few are met."""
_PASSES = 100
_ENDINGS = 6
_STRICT = 0.1
_ROUNDING = 1e-15
_SLOW = 0.5
"""Newton's step is taken only after one that left less of the residual."""
_LEAST = 0.1
"""Of the residual at the other end, what the method of Anderson and Björck keeps."""
_FARTHEST = 1e15
"""Keeps the squares of heights finite."""
FIELDS = 14
_LOW, _HIGH, _MORE, _LESS, _SIDE, _LAST, _REACH, MOVES, OPEN, TAU, BASE, TOTAL, ROOM, TOP = range(
    FIELDS
)


@small
def new_lanes(count):
    """Room for what is known of so many rows.

    A bracket, the residuals at its ends, which end was moved last, the residual there, how far to
    look for an end; whether the row moves, or is to be solved at all; ``τ`` relative to a base; the
    total, the sum of the bounds and the largest score.
    """
    return np.zeros((FIELDS, count))


@exact
def above_of(score, base, tau):
    """``(z - base) - τ``; base and ``τ`` must not be added."""
    return (score - base) - tau


@exact
def split_threshold(scores, base, tau):
    """``base + τ`` in the precision of the scores, and the rest."""
    near = np.float64(scores.dtype.type(base + tau))
    part = near - base
    return near, (base - (near - part)) + (tau - part)


@small
def mass_at(scores, bounds, base, tau, zero):
    """``Σ clip(z - base - τ, 0, u)`` in the precision of ``zero``; how many are inside."""
    none, one = scores.dtype.type(0), scores.dtype.type(1)
    total, free = zero, none
    base, tau = scores.dtype.type(base), scores.dtype.type(tau)
    for j in range(np.uint64(scores.shape[0])):
        above = above_of(scores[j], base, tau)
        inside = (above > none) & (above < bounds[j])
        kept = above if above > none else none
        total += kept if kept < bounds[j] else bounds[j]
        free += one if inside else none
    return np.float64(total), np.float64(free)


@small
def _moments(scores, bounds, base, total):
    """Mean and variance of the heights, weighted by their bounds."""
    lowest, most = scores.dtype.type(-_FARTHEST), scores.dtype.type(total)
    first = second = weight = scores.dtype.type(0)
    base = scores.dtype.type(base)
    for j in range(np.uint64(scores.shape[0])):
        height, bound = scores[j] - base, bounds[j]
        height = height if height > lowest else lowest
        bound = bound if bound < most else most
        weight += bound
        first += bound * height
        second += bound * height * height
    mean = np.float64(first) / np.float64(weight)
    return mean, np.float64(second) / np.float64(weight) - mean * mean


@small
def _normal_quantile(odds):
    """Close to the standard normal's quantile of ``(1 + odds) / 2``."""
    square = odds * odds
    return odds * (1.2533 - 0.537 * square) / (1.0 - 0.6818 * square)


@small
def start(scores, bounds, lanes, k):
    """Guess ``τ`` of a row whose bounds sum to more than the total."""
    total, base = lanes[TOTAL, k], lanes[TOP, k]
    tau, reach = -min(1.0, total), 1.0
    if lanes[ROOM, k] <= LOOSE * total:
        mean, variance = _moments(scores, bounds, base, total)
        deviation = math.sqrt(max(variance, 0.0))
        guess = mean + deviation * _normal_quantile(1.0 - 2.0 * total / lanes[ROOM, k])
        reach = 0.25 * deviation + total / scores.shape[0]
        tau = guess if guess < 0.0 else -0.5 * reach
    lanes[_LOW, k], lanes[_HIGH, k], lanes[_MORE, k], lanes[_LESS, k] = -math.inf, 0.0, 1.0, -total
    lanes[_SIDE, k], lanes[_LAST, k], lanes[_REACH, k], lanes[MOVES, k] = 0.0, math.inf, reach, 1.0
    lanes[TAU, k], lanes[BASE, k] = scores.dtype.type(tau), base


@small
def _following(low, high, more, less, tau, reach, newton, fast):
    """The next point to try: Newton's, if the last was good; on the chord; the middle."""
    chord = low + (high - low) * (more / (more - less))
    chord = chord if (low < chord) & (chord < high) else 0.5 * (low + high)
    inside = newton if (low < newton) & (newton < high) & fast else chord
    reached = tau - reach
    reached = newton if newton > reached else reached
    return inside if low > -math.inf else reached


@small
def _move(lanes, k, mass, free, tolerance, scores):
    """Move ``τ`` of a row, without branches; one if it moved."""
    tau, total, low, high = lanes[TAU, k], lanes[TOTAL, k], lanes[_LOW, k], lanes[_HIGH, k]
    more, less, last, reach = lanes[_MORE, k], lanes[_LESS, k], lanes[_LAST, k], lanes[_REACH, k]
    residual, side = mass - total, lanes[_SIDE, k]
    size, positive = abs(residual), residual > 0.0
    newton = tau + residual / free
    # An end that stays for the second time counts less.
    share = 1.0 - residual / (more if positive else less)
    share = share if share > _LEAST else 0.5
    share = share if side == (1.0 if positive else -1.0) else 1.0
    more, less = residual if positive else more * share, less * share if positive else residual
    low, high = tau if positive else low, high if positive else tau
    following = _following(low, high, more, less, tau, reach, newton, size <= _SLOW * last)
    following = np.float64(scores.dtype.type(following))
    enough = tolerance * (total if total > 1.0 else 1.0)
    moves = (size > enough) & (low < following) & (following < high)
    newton = newton if (free > 0.0) & (size <= enough) else tau
    lanes[TAU, k], lanes[_LOW, k], lanes[_HIGH, k] = following if moves else newton, low, high
    lanes[_MORE, k], lanes[_LESS, k], lanes[_LAST, k] = more, less, size
    lanes[_SIDE, k], lanes[_REACH, k] = 1.0 if positive else -1.0, 4.0 * reach
    return 1.0 if moves else 0.0


@small
def descend(scores, bounds, lanes, count):
    """Find ``τ`` of rows that have been started, up to little excess mass."""
    tolerance, zero = 0.25 * math.sqrt(np.finfo(scores.dtype).eps), scores.dtype.type(0)
    for _ in range(_PASSES):
        moving = 0.0
        for k in range(count):
            if lanes[MOVES, k] > 0.0:
                row, base, tau = borrowed(scores, k), lanes[BASE, k], lanes[TAU, k]
                mass, free = mass_at(row, borrowed(bounds, k), base, tau, zero)
                lanes[MOVES, k] = _move(lanes, k, mass, free, tolerance, scores)
                moving += lanes[MOVES, k]
        if moving == 0.0:
            break


@small
def _write(scores, bounds, base, tau, probs):
    """Write ``clip(z - base - τ, 0, u)``; return its sum, and how many entries are inside."""
    none, one = scores.dtype.type(0), scores.dtype.type(1)
    total, free = 0.0, none
    base, tau = scores.dtype.type(base), scores.dtype.type(tau)
    for j in range(np.uint64(scores.shape[0])):
        above = above_of(scores[j], base, tau)
        inside = (above > none) & (above < bounds[j])
        kept = above if above > none else none
        kept = kept if kept < bounds[j] else bounds[j]
        probs[j] = kept
        total += np.float64(kept)
        free += one if inside else none
    return total, np.float64(free)


@small
def _locate(scores, bounds, base, tau, place):
    """Write where entries lie."""
    none, base, tau = scores.dtype.type(0), scores.dtype.type(base), scores.dtype.type(tau)
    for j in range(np.uint64(scores.shape[0])):
        above = above_of(scores[j], base, tau)
        place[j] = np.uint8(above > none) + np.uint8((above > none) & (above >= bounds[j]))


@small
def finish(scores, bounds, lanes, k, tolerance, probs, place):
    """Write a row, with the last steps that this takes; whether its sum is right."""
    total = lanes[TOTAL, k]
    rounding = _ROUNDING * total * math.sqrt(scores.shape[0])
    base, tau = split_threshold(scores, lanes[BASE, k], lanes[TAU, k])
    for ending in range(_ENDINGS):
        mass, free = _write(scores, bounds, base, tau, probs)
        # What the rounding of the entries themselves may leave is accepted from a second look on.
        enough = tolerance * (1.0 + 0.25 * math.sqrt(free)) * (1.0 if ending > 0 else _STRICT)
        if abs(mass - total) <= enough + rounding:
            _locate(scores, bounds, base, tau, place)
            return True
        tau += (mass - total) / max(free, 1.0)
    return False
