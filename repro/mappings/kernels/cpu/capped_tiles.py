"""``min(exp(z) / Z, u)`` that sums to one, of the rows of a tile; see ``capped.py``."""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import lean
from repro.mappings.kernels.cpu.elementary import exponential
from repro.mappings.kernels.cpu.lanes import load, store, store_bytes, store_first
from repro.mappings.kernels.cpu.tiles import width_of
from repro.mappings.kernels.cpu.vectors import (
    both,
    count,
    either,
    magnitude,
    maximum,
    splat,
    where,
)

_SMALLEST = 1e-20
"""If the free entries' ``e`` sum to less, their digits are too few."""
_FAR = 4.0
"""The same if they are to be multiplied by more."""
_PASSES = 1000
_ENDINGS = 3
_TOLERANCE = 1.2e-7
"""Excess mass at which a row is solved."""


@lean
def grow(tile, columns, top):
    """Replace scores by ``e = exp(z - top)``, zero where the bound is; return ``Σ e``."""
    scores, bounds = tile
    width, total = width_of(scores), top - top
    lowest = math.log(np.finfo(scores.dtype).tiny)
    for k in range(0, columns * width, width):
        height = load(scores, k) - top
        counted = both(height > lowest, load(bounds, k) > 0.0)
        grown = where(counted, exponential(maximum(height, lowest)), 0.0)
        store(scores, k, grown)
        total += grown
    return total


@lean
def sums(tile, columns, ratio):
    """By how much ``Σ min(ρ e, u)`` is less than one, and ``Σ e`` over what is free."""
    grown, bounds = tile
    width, total, lost, left = width_of(grown), ratio - ratio, ratio - ratio, ratio - ratio
    for k in range(0, columns * width, 2 * width):
        e, u = load(grown, k), load(bounds, k)
        share = ratio * e
        free = share < u
        pair = where(free, share, u)
        left += where(free, e, 0.0)
        e, u = load(grown, k + width), load(bounds, k + width)
        share = ratio * e
        free = share < u
        pair += where(free, share, u)
        left += where(free, e, 0.0)
        following = total + pair
        lost += (total - following) + pair
        total = following
    return (1.0 - total) - lost, left


@lean
def solve(tile, columns, top, usual):
    """``ρ`` of the usual rows, and which are solved.

    Newton's steps come from below, as the sum is concave; the last ones correct rounding.
    """
    ratio, moves, endings, solved = 1.0 / grow(tile, columns, top), usual, 0, usual
    least = 1.0 + 4.0 * np.finfo(tile[0].dtype).eps
    for _ in range(_PASSES):
        missing, left = sums(tile, columns, ratio)
        following = ratio + missing / maximum(left, _SMALLEST)
        moves = both(moves, both(following > ratio * least, left > _SMALLEST))
        if count(moves) > 0:
            ratio = where(moves, following, ratio)
            continue
        solved = both(usual, magnitude(missing) <= _TOLERANCE)
        if count(solved) == count(usual) or endings == _ENDINGS:
            break
        ratio, endings = where(solved, ratio, following), endings + 1
    return ratio, both(solved, ratio <= _FAR)


@lean
def write(lists, at, ratio, probs, place):
    """Write ``min(ρ e, u)`` and where entries lie."""
    scores, bounds, grown, _ = lists
    size, ratio = probs.shape[0], splat(ratio)
    for j in range(0, size, width_of(probs)):
        u, share = load(bounds, at + j), ratio * load(grown, at + j)
        full = both(share >= u, load(scores, at + j) > -math.inf)
        store_first(probs, j, size - j, where(share < u, share, u))
        store_bytes(place, j, size - j, full, either(full, share > 0.0))
