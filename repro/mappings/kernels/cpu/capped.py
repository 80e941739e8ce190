"""``min(exp(z) / Z, u)`` that sums to one, of several rows in turn, without sorting.

Entries are full where ``e / u`` is large, with ``e = exp(z)``. Given what is full, the others share
the rest, ``ρ = (1 - Σ u) / Σ e``; that makes more of them full, never fewer, so the full ones are
found from an empty set in a few passes. A step on one row waits for the sums of the last; steps on
other rows fill that time.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.box_lanes import MOVES, TAU
from repro.mappings.kernels.cpu.elementary import exponential
from repro.mappings.kernels.cpu.extremes import key_of, value_of
from repro.mappings.kernels.cpu.scratch import borrowed

_SMALLEST = 1e-20
"""If the free entries' ``e`` sum to less, the base is lowered to the largest of them."""
_FAR = 4.0
"""The same if they are to be multiplied by more: ``e`` has its digits close to the base."""
_HIGHEST = 60.0
"""Entries farther above the base are full."""
_PASSES = 1000
_ENDINGS = 8


@small
def grow(scores, bounds, base, grown):
    """Write ``e = exp(z - base)``, zero where the bound is; return ``Σ e``."""
    zero, lowest = grown.dtype.type(0), grown.dtype.type(math.log(np.finfo(grown.dtype).tiny))
    base, highest, total = grown.dtype.type(base), grown.dtype.type(_HIGHEST), zero
    for j in range(np.uint64(scores.shape[0])):
        height = scores[j] - base
        height = height if height < highest else highest
        share = exponential(height if height > lowest else lowest)
        share = share if (height > lowest) & (bounds[j] > zero) else zero
        grown[j] = share
        total += share
    return np.float64(total)


@small
def _sums(grown, bounds, ratio, zero):
    """``Σ min(ρ e, u)``, and ``Σ e`` over what is free, in the precision of ``zero``."""
    none, ratio = grown.dtype.type(0), grown.dtype.type(ratio)
    total = left = zero
    for j in range(np.uint64(grown.shape[0])):
        share, bound = ratio * grown[j], bounds[j]
        total += share if share < bound else bound
        left += grown[j] if share < bound else none
    return np.float64(total), np.float64(left)


@small
def _raised(grown, bounds, ratio):
    """Newton's step from below, and whether it is one; the sum of the entries is concave."""
    total, left = _sums(grown, bounds, ratio, grown.dtype.type(0))
    following = ratio + (1.0 - total) / left if left > _SMALLEST else ratio
    moves = following > ratio * (1.0 + 4.0 * np.finfo(grown.dtype).eps)
    return (following if moves else ratio), moves


@small
def descend(grown, bounds, lanes, count):
    """Raise the ``ρ`` of rows that move, from values that are positive and too low."""
    for _ in range(_PASSES):
        moving = 0
        for k in range(count):
            if lanes[MOVES, k] > 0.0:
                ratio, moves = _raised(borrowed(grown, k), borrowed(bounds, k), lanes[TAU, k])
                lanes[TAU, k], lanes[MOVES, k] = ratio, moves
                moving += moves
        if moving == 0:
            break


@small
def finish(grown, bounds, ratio, tolerance):
    """Take the last steps in double precision; ``ρ``, and whether its digits are good."""
    for _ in range(_ENDINGS):
        total, left = _sums(grown, bounds, ratio, 0.0)
        if not left > _SMALLEST:
            return ratio, total >= 1.0 - tolerance
        ratio += (1.0 - total) / left
        if abs(total - 1.0) <= tolerance:
            break
    return ratio, ratio <= _FAR


@small
def _highest_free(scores, bounds, grown, ratio):
    """The largest score of what is free."""
    zero, ratio, lowest = grown.dtype.type(0), grown.dtype.type(ratio), scores.dtype.type(-math.inf)
    best = key_of(lowest)
    for j in range(np.uint64(scores.shape[0])):
        free = (ratio * grown[j] < bounds[j]) & (bounds[j] > zero)
        key = key_of(scores[j] if free else lowest)
        best = key if key > best else best
    return np.float64(value_of(best))


@inner
def again(scores, bounds, grown, base, ratio, tolerance):
    """``ρ`` of a row whose free entries are far below the base, from the largest of them."""
    good = False
    while not good:
        lower = _highest_free(scores, bounds, grown, ratio)
        if not lower < base or lower == -math.inf:
            break
        base, moves = lower, True
        ratio = 1.0 / grow(scores, bounds, base, grown)
        while moves:
            ratio, moves = _raised(grown, bounds, ratio)
        ratio, good = finish(grown, bounds, ratio, tolerance)
    return ratio


@small
def write(scores, bounds, grown, ratio, probs, place):
    """Write ``min(ρ e, u)``, perhaps over ``e``, and where entries lie."""
    zero, ratio, lowest = grown.dtype.type(0), grown.dtype.type(ratio), grown.dtype.type(-math.inf)
    for j in range(np.uint64(scores.shape[0])):
        share = ratio * grown[j]
        met = (share >= bounds[j]) & (scores[j] > lowest)
        place[j] = np.uint8(met) + np.uint8(met | (share > zero))
    for j in range(np.uint64(scores.shape[0])):
        share = ratio * grown[j]
        probs[j] = share if share < bounds[j] else bounds[j]
