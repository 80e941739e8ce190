"""The kernels of csoftmax, csparsemax and budget: all rows, their checks, their derivatives.

Forward, a row is read from memory once, with its bounds, and its entries and their places are
written: 13 bytes for each entry in single precision. Backward, csparsemax needs the places but not
the entries.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.box import (
    bound_of,
    clipped,
    finite,
    height_of,
    lowered,
    mass_at,
    near_root,
    threshold,
)
from repro.mappings.kernels.cpu.capped import ratio_of
from repro.mappings.kernels.cpu.extremes import largest, largest_open
from repro.mappings.kernels.cpu.scratch import borrowed, give_back
from repro.mappings.kernels.cpu.search import is_nan
from repro.mappings.kernels.cpu.support import reaching, word_count

EMPTY, FREE, FULL = 0, 1, 2
"""Places of an entry: at zero, strictly inside its bounds, at its upper bound."""
_SEVERAL = 128
"""Shorter rows are solved as a whole."""
_NEAR = -1.0
"""Entries above this, relative to the top, are tried alone."""
_CHUNK = 256
"""Entries that are added up in the precision of the row before the sum is widened."""


_CLEAR = 1.01
"""Bounds whose rough sum exceeds the total by this factor need no exact sum."""


@inner
def _is_plain(scores, uppers, total, slack):
    """Whether nothing is wrong with a row, and its bounds clearly sum to more than the total."""
    zero, lowest = scores.dtype.type(0), scores.dtype.type(-math.inf)
    room, odd = zero, False
    for j in range(scores.shape[0]):
        upper = uppers[j] if scores[j] != lowest else zero
        kept = upper if upper > zero else zero
        room += kept
        odd |= (upper < -slack) | is_nan(upper) | is_nan(scores[j])
    rounding = scores.shape[0] * np.finfo(scores.dtype).eps
    return not odd and total > 0.0 and room > total * (_CLEAR + rounding)


@inner
def _room(scores, uppers, slack):
    """The sum of the bounds, and whether one is wrong."""
    zero, lowest = scores.dtype.type(0), scores.dtype.type(-math.inf)
    room, wrong = 0.0, False
    for j in range(scores.shape[0]):
        upper = uppers[j] if scores[j] != lowest else zero
        room += np.float64(upper if upper > zero else zero)
        wrong |= is_nan(upper) | (upper < -slack)
    return room, wrong


@inner
def _write_bad(probs, place):
    """NaN in all entries."""
    for j in range(probs.shape[0]):
        probs[j], place[j] = math.nan, EMPTY


@inner
def _write_bounds(scores, uppers, probs, place):
    """All bounds are used up."""
    zero = probs.dtype.type(0)
    for j in range(scores.shape[0]):
        allowed = scores[j] > -math.inf
        share = uppers[j] if uppers[j] > zero else zero
        probs[j] = share if allowed else zero
        place[j] = FULL if allowed & (uppers[j] >= zero) else EMPTY


@small
def _write_capped(scores, uppers, grown, ratio, probs, place):
    """``min(ρ e, u)``."""
    zero, ratio = probs.dtype.type(0), probs.dtype.type(ratio)
    for j in range(scores.shape[0]):
        share = ratio * grown[j]
        met = (share >= uppers[j]) & (uppers[j] >= zero) & (scores[j] > -math.inf)
        share = uppers[j] if met else share
        probs[j] = share
        place[j] = FULL if met else (FREE if share > zero else EMPTY)


@small
def _excess(scores, uppers, total, base, largest, tau):
    """By how much the sum exceeds the total, for each entry inside."""
    mass, free = 0.0, 0
    for j in range(scores.shape[0]):
        bound = bound_of(scores[j], uppers[j], total)
        kept = clipped(lowered(height_of(scores[j], largest, base), tau), bound)
        mass += kept
        free += (kept > 0.0) & (kept < bound)
    return (mass - total) / free if free > 0 else 0.0


@small
def _write_box(scores, uppers, total, base, largest, tau, surplus, probs, place):
    """``clip(x - τ, 0, u)``, where ``τ`` is raised by a little."""
    for j in range(scores.shape[0]):
        upper = np.float64(uppers[j])
        above = lowered(height_of(scores[j], largest, base), tau)
        bound = bound_of(scores[j], upper, total)
        inside = (above > 0.0) & (above < bound)
        above = above - surplus if inside else above
        kept = clipped(above, bound)
        probs[j] = kept
        met = (above > 0.0) & (kept >= upper) & (upper >= 0.0) & (scores[j] > -math.inf)
        place[j] = FULL if met else (FREE if kept > 0.0 else EMPTY)


@small
def _write_listed(uppers, places, heights, bounds, count, tau, surplus, probs, place):
    """The same where all entries that are not listed are at zero."""
    for j in range(probs.shape[0]):
        probs[j] = 0.0
    for j in range(probs.shape[0]):
        place[j] = EMPTY
    for k in range(count):
        upper, above = np.float64(uppers[places[k]]), lowered(heights[k], tau)
        inside = (above > 0.0) & (above < bounds[k])
        above = above - surplus if inside else above
        kept = clipped(above, bounds[k])
        met = (above > 0.0) & (kept >= upper) & (upper >= 0.0)
        probs[places[k]] = kept
        place[places[k]] = FULL if met else (FREE if kept > 0.0 else EMPTY)


@small
def _near_row(scores, uppers, total, top, largest, lists, probs, place):
    """Csparsemax or budget of a row if ``τ`` is at most one below the top; whether it is."""
    heights, bounds, words, places = lists
    count = reaching(scores, top, largest, _NEAR, heights, words, places)
    for k in range(count):
        bounds[k] = bound_of(scores[places[k]], uppers[places[k]], total)
    double = scores.itemsize == 8
    tolerance = (1e-15 if double else 1e-9) * max(total, 1.0)
    tau, surplus = near_root(heights, bounds, count, total, _NEAR, tolerance), 0.0
    if is_nan(tau):
        return False
    if double:
        mass, free = mass_at(heights, bounds, count, tau)
        surplus = (mass - total) / max(free, 1)
    _write_listed(uppers, places, heights, bounds, count, tau, surplus, probs, place)
    return True


@inner
def _box_row(scores, uppers, total, top, largest, heights, bounds, probs, place):
    """Csparsemax or budget of a row."""
    double = scores.itemsize == 8
    tolerance = (1e-15 if double else 1e-9) * max(total, 1.0)
    reach = 2.0 if double else 64.0
    base, tau = threshold(scores, uppers, total, top, largest, heights, bounds, tolerance, reach)
    surplus = _excess(scores, uppers, total, base, largest, tau) if double else 0.0
    _write_box(scores, uppers, total, base, largest, tau, surplus, probs, place)


@inner
def _is_settled(scores, uppers, total, slack, probs, place):
    """Fill a row that needs no solver; whether it is one, and whether it cannot be solved."""
    slack = scores.dtype.type(slack)
    top, bad = largest(scores)
    room, wrong = _room(scores, uppers, slack)
    present, tight = bad or top > -math.inf, room <= total * (1.0 + np.finfo(scores.dtype).eps)
    fault = wrong or not total > 0.0 or (room < total - slack and present)
    if fault or bad:
        _write_bad(probs, place)
    elif tight:
        _write_bounds(scores, uppers, probs, place)
    return fault or bad or tight, fault


@inner
def bounded_rows(scores, uppers, totals, order, slack, limit, probs, place, start, stop):
    """Distributions of rows ``start`` to ``stop``; returns how many cannot be solved.

    Bounds, and totals, are one row or one for each row; ``limit`` is the largest number.
    """
    size, faults = scores.shape[1], 0
    by_row, stride = int(uppers.shape[0] > 1), int(totals.shape[0] > 1)
    reals, likes = np.empty((2, size + 8)), np.empty((1, size), scores.dtype)
    integers = np.empty((1, size + 1), np.int32)
    word_memory = np.empty((1, word_count(size)), np.uint64)
    heights, bounds, grown = borrowed(reals, 0), borrowed(reals, 1), borrowed(likes, 0)
    lists = heights, bounds, borrowed(word_memory, 0), borrowed(integers, 0)
    for i in range(start, stop):
        row, upper, total = scores[i], uppers[i * by_row], totals[i * stride]
        if not _is_plain(row, upper, total, scores.dtype.type(slack)):
            settled, fault = _is_settled(row, upper, total, slack, probs[i], place[i])
            faults += fault
            if settled:
                continue
        top = finite(largest_open(row, upper), limit)
        if order == 0.0:
            ratio = ratio_of(row, upper, top, limit, grown)
            _write_capped(row, upper, grown, ratio, probs[i], place[i])
        elif size < _SEVERAL or not _near_row(
            row, upper, total, top, limit, lists, probs[i], place[i]
        ):
            _box_row(row, upper, total, top, limit, heights, bounds, probs[i], place[i])
    give_back(reals)
    give_back(likes)
    give_back(integers)
    give_back(word_memory)
    return faults


@small
def _weigh(probs, place, grads, order):
    """``Σ s`` and ``Σ s g`` of a part of a row; where ``s`` is zero, ``g`` does not count."""
    zero, one = probs.dtype.type(0), probs.dtype.type(1)
    total = weighted = zero
    for j in range(probs.shape[0]):
        slope = one if order == 1.0 else probs[j]
        slope = slope if place[j] == FREE else zero
        total += slope
        weighted += slope * (grads[j] if place[j] == FREE else zero)
    return total, weighted


@inner
def _mean(probs, place, grads, order):
    """The mean of ``g`` weighted by ``s``, and whether any entry is free."""
    total = weighted = 0.0
    for start in range(0, probs.shape[0], _CHUNK):
        span = slice(start, start + _CHUNK)
        part, tilt = _weigh(probs[span], place[span], grads[span], order)
        total, weighted = total + part, weighted + tilt
    return (weighted / total if total > 0.0 else 0.0), total > 0.0


@small
def _centre(probs, place, grads, order, mean, out):
    """Write ``s (g - m)``."""
    zero, mean = probs.dtype.type(0), probs.dtype.type(mean)
    for j in range(probs.shape[0]):
        moved = grads[j] - mean
        moved = moved if order == 1.0 else moved * probs[j]
        out[j] = moved if place[j] == FREE else zero


@small
def _charge(place, grads, mean, moves, out):
    """Write ``g - m`` for bounds that are met, zero at a corner."""
    zero, mean = out.dtype.type(0), out.dtype.type(mean)
    for j in range(place.shape[0]):
        out[j] = grads[j] - mean if (place[j] == FULL) & moves else zero


@inner
def bounded_backward_rows(probs, place, grads, order, out, upper_grads, total_grads, start, stop):
    """Gradients of rows ``start`` to ``stop``; of bounds and totals where there is room."""
    for i in range(start, stop):
        mean, moves = _mean(probs[i], place[i], grads[i], order)
        _centre(probs[i], place[i], grads[i], order, mean, out[i])
        if upper_grads.shape[0] > 0:
            _charge(place[i], grads[i], mean, moves, upper_grads[i])
        if total_grads.shape[0] > 0:
            total_grads[i] = mean
