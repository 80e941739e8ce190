"""Csparsemax and budget of a single row, in double precision: what is not solved in lanes."""

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
from repro.mappings.kernels.cpu.extremes import largest_open
from repro.mappings.kernels.cpu.places import EMPTY, FREE, FULL
from repro.mappings.kernels.cpu.scratch import borrowed, give_back
from repro.mappings.kernels.cpu.search import is_nan
from repro.mappings.kernels.cpu.support import reaching

_NEAR = -1.0
"""Entries above this, relative to the top, are tried alone where bounds are loose."""


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


@inner
def near_row(scores, uppers, total, top, largest, lists, probs, place):
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
def box_row(scores, uppers, total, limit, probs, place):
    """Csparsemax or budget of a row of any kind, in double precision."""
    reals = np.empty((2, scores.shape[0] + 8))
    heights, bounds = borrowed(reals, 0), borrowed(reals, 1)
    double, top = scores.itemsize == 8, finite(largest_open(scores, uppers), limit)
    tolerance = (1e-15 if double else 1e-9) * max(total, 1.0)
    reach = 2.0 if double else 64.0
    base, tau = threshold(scores, uppers, total, top, limit, heights, bounds, tolerance, reach)
    surplus = _excess(scores, uppers, total, base, limit, tau) if double else 0.0
    _write_box(scores, uppers, total, base, limit, tau, surplus, probs, place)
    give_back(reals)
