"""Csparsemax and budget of the rows of a tile; see ``box_lanes.py`` for the steps."""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import lean
from repro.mappings.kernels.cpu.box_lanes import LOOSE
from repro.mappings.kernels.cpu.elementary import exponential
from repro.mappings.kernels.cpu.exchanges import compress
from repro.mappings.kernels.cpu.lanes import load, store, store_bytes, store_first
from repro.mappings.kernels.cpu.tiles import LINE, stride_of_lists, turn, width_of
from repro.mappings.kernels.cpu.vectors import (
    both,
    count,
    either,
    excluding,
    magnitude,
    maximum,
    splat,
    sqrt,
    where,
    wide_total,
)

_DENSE, _PASSES = 3, 100
"""Steps on whole rows, and after them on what is undecided."""
_MARGIN = 16.0
"""Roundings by which an entry must be away from what would decide it."""
_ENDINGS = 6
_STRICT = 0.1
_TOLERANCE = 1e-7
_SLOW = 0.5
"""Newton's step is taken only after one that left less of the residual."""
_LEAST = 0.1
"""Of the residual at the other end, what the method of Anderson and Björck keeps."""
_REACH, _FARTHER = 2.0, 3.0
"""How much farther than it seems to be the root is looked for, and than the last time."""
_NORMAL = 1.0 / math.sqrt(2.0 * math.pi)
"""The largest density of the standard normal distribution."""
_DEEPEST = -80.0
_FARTHEST = 1e15
"""Keeps the squares of heights finite."""


@lean
def excess_at(tile, columns, base, tau, fixed, wanted):
    """``Σ clip(z - base - τ, 0, u)`` less what is wanted; how many are inside.

    What sums lose to rounding is added up as well.

    What is fixed is given: the sum of bounds that are met, in two parts.
    """
    scores, bounds = tile
    width, (total, lost) = width_of(scores), fixed
    free = zero = base - base
    for k in range(0, columns * width, 2 * width):
        above, u = (load(scores, k) - base) - tau, load(bounds, k)
        kept = maximum(above, 0.0)
        pair = where(kept < u, kept, u)
        free += where(both(above > 0.0, above < u), zero + 1.0, zero)
        above, u = (load(scores, k + width) - base) - tau, load(bounds, k + width)
        kept = maximum(above, 0.0)
        pair += where(kept < u, kept, u)
        free += where(both(above > 0.0, above < u), zero + 1.0, zero)
        following = total + pair
        lost += (total - following) + pair
        total = following
    return (total - wanted) + lost, free


@lean
def moments(tile, columns, base, total):
    """Mean and variance of the heights, weighted by their bounds."""
    scores, bounds = tile
    width = width_of(scores)
    first = second = weight = base - base
    for k in range(0, columns * width, width):
        height, bound = maximum(load(scores, k) - base, -_FARTHEST), load(bounds, k)
        bound = where(bound < total, bound, total)
        weight += bound
        first += bound * height
        second += bound * height * height
    mean = first / weight
    return mean, maximum(second / weight - mean * mean, 0.0)


@lean
def normal_quantile(odds):
    """Close to the standard normal's quantile of ``(1 + odds) / 2``."""
    square = odds * odds
    return odds * (1.2533 - 0.537 * square) / (1.0 - 0.6818 * square)


@lean
def begin(tile, columns, size, base, room, total):
    """Guesses of ``τ`` of rows whose bounds sum to more than the total, and how good they are.

    That is, how far ``τ`` may be off for each part of the total that is missing, and in any case.
    Where bounds are loose, Newton's steps begin at what is right if one entry gets everything.
    """
    mean, variance = moments(tile, columns, base, total)
    deviation, tight = sqrt(variance), room <= LOOSE * total
    quantile = normal_quantile(1.0 - 2.0 * total / room)
    guess, least = mean + deviation * quantile, deviation * (1.0 / size)
    guess = where(guess < 0.0, guess, -0.125 * deviation - least)
    density = _NORMAL * exponential(maximum(-0.5 * quantile * quantile, _DEEPEST))
    flatness = _REACH * deviation / (room * density)
    tau = where(total < 1.0, -1.0 * total, -1.0)
    return where(tight, guess, tau), where(tight, flatness, 0.0), where(tight, least, 1.0), tight


@lean
def outward(tau, positive, flat, size, reach):
    """A point on the other side of the root, as far as is known, and how far the next would be."""
    flatness, least = flat
    reach = where(reach > 0.0, _FARTHER * reach, flatness * size + least)
    up = tau + reach
    return where(positive, where(up < 0.5 * tau, up, 0.5 * tau), tau - reach), reach


@lean
def inward(low, high, more, less, newton, fast):
    """A point between bounds: Newton's, if the last was good; on the chord; the middle."""
    chord = low + (high - low) * (more / (more - less))
    chord = where(both(low < chord, chord < high), chord, 0.5 * (low + high))
    return where(both(fast, both(low < newton, newton < high)), newton, chord)


@lean
def move(tau, residual, free, state, flat, tight, enough):
    """The step of every lane that moves, and the state after it."""
    low, high, more, less, side, last, reach, moves = state
    size, positive = magnitude(residual), residual > 0.0
    newton = tau + residual / free
    # An end that stays for the second time counts less.
    share = 1.0 - residual / where(positive, more, less)
    share = where(share > _LEAST, share, 0.5)
    turn = where(positive, size - size + 1.0, -1.0)
    share = where(side == turn, share, 1.0)
    more, less = where(positive, residual, more * share), where(positive, less * share, residual)
    low, high = where(positive, tau, low), where(positive, high, tau)
    outer, reach = outward(tau, positive, flat, size, reach)
    inner = inward(low, high, more, less, newton, size <= _SLOW * last)
    found = both(low > -math.inf, either(high < 0.0, excluding(moves, tight)))
    following = where(found, inner, outer)
    settled = size <= enough
    goes = both(both(moves, size > enough), both(low < following, following < high))
    end = where(both(free > 0.0, settled), newton, tau)
    tau = where(moves, where(goes, following, end), tau)
    return tau, (low, high, more, less, turn, size, reach, goes)


@lean
def descend(tile, columns, base, tau, total, state, flat, tight, fixed, passes):
    """``τ`` relative to the base after some steps, or with little excess mass; and the state."""
    enough = 0.25 * math.sqrt(np.finfo(tile[0].dtype).eps) * maximum(total, 1.0)
    for _ in range(passes):
        residual, free = excess_at(tile, columns, base, tau, fixed, total)
        tau, state = move(tau, residual, free, state, flat, tight, enough)
        if count(state[7]) == 0:
            break
    return tau, state


@lean
def gather(scores, bounds, at, size, base, low, high, margin, listed, held):
    """List entries of a row that ``τ`` between two numbers may have inside their bounds, or not.

    Returns where the lists end, and the sum of the bounds of the others that are met.
    """
    width, end, met = width_of(scores), at, splat(scores.dtype.type(0))
    for j in range(at, at + size, width):
        height, u = load(scores, j) - base, load(bounds, j)
        full = height - high >= u + margin
        kept = excluding(height - low > -margin, full)
        store(listed, end, compress(load(scores, j), kept))
        store(held, end, compress(u, kept))
        end += count(kept)
        met += where(full, u, 0.0)
    return end, wide_total(met)


@lean
def compact(lists, size, base, state, numbers, ends, tile):
    """Leave only undecided entries in the tile; return its columns and what is fixed."""
    scores, bounds, listed, held = lists
    tops, lows, highs, met, more = numbers
    width, stride, columns, real = width_of(scores), stride_of_lists(scores), 0, scores.dtype.type
    store(tops, 0, base)
    store(lows, 0, state[0])
    store(highs, 0, state[1])
    for k in range(width):
        margin = real(_MARGIN * np.finfo(scores.dtype).eps * (1.0 - lows[k]))
        margin = margin if lows[k] > -math.inf else real(0)
        ends[k], total = gather(
            scores, bounds, k * stride, size, tops[k], lows[k], highs[k], margin, listed, held
        )
        met[k] = real(total)
        more[k] = real(total - np.float64(met[k]))
        columns = max(columns, ends[k] - k * stride)
    columns = (columns + LINE - 1) // LINE * LINE
    turn(listed, ends, columns, real(-math.inf), tile[0])
    turn(held, ends, columns, real(0), tile[1])
    return columns, (load(met, 0), load(more, 0))


@lean
def solve(lists, tile, columns, size, top, room, total, usual, numbers, ends):
    """``τ`` of the usual rows, as a number of theirs and a small rest; which are solved.

    Scores less that number are rounded once.
    """
    tau, flatness, least, tight = begin(tile, columns, size, top, room, total)
    flat, zero = (flatness, least), total - total
    state = (zero - math.inf, zero, zero + 1.0, -1.0 * total, zero, zero + math.inf, zero, usual)
    tau, state = descend(tile, columns, top, tau, total, state, flat, tight, (zero, zero), _DENSE)
    columns, fixed = compact(lists, size, top, state, numbers, ends, tile)
    tau, _ = descend(tile, columns, top, tau, total, state, flat, tight, fixed, _PASSES)
    near = top + tau
    part = near - top
    rest = (top - (near - part)) + (tau - part)
    solved, strict = usual, _STRICT
    for _ in range(_ENDINGS):
        residual, free = excess_at(tile, columns, near, rest, fixed, total)
        # What the rounding of the entries themselves may leave is accepted from a second look on.
        ends_ = magnitude(residual) <= _TOLERANCE * strict * (1.0 + 0.25 * sqrt(free))
        solved, strict = both(usual, ends_), 1.0
        if count(solved) == count(usual):
            break
        rest = where(ends_, rest, rest + residual / maximum(free, 1.0))
    return near, rest, solved


@lean
def write(lists, at, near, rest, probs, place):
    """Write ``clip(z - τ, 0, u)`` and where entries lie."""
    scores, bounds, _, _ = lists
    size, near, rest = probs.shape[0], splat(near), splat(rest)
    for j in range(0, size, width_of(probs)):
        above, u = (load(scores, at + j) - near) - rest, load(bounds, at + j)
        kept = maximum(above, 0.0)
        store_first(probs, j, size - j, where(kept < u, kept, u))
        store_bytes(place, j, size - j, both(above > 0.0, above >= u), above > 0.0)
