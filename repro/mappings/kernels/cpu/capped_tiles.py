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
_LOWEST = math.log(np.finfo(np.float32).tiny)
_PASSES = 1000
_ENDINGS = 3
_TOLERANCE = 1.2e-7
"""Excess mass at which a row is solved."""


@lean
def grown(score, bound, top):
    """``e = exp(z - top)``, zero where the bound is."""
    height = score - top
    counted = both(height > _LOWEST, bound > 0.0)
    return where(counted, exponential(maximum(height, _LOWEST)), 0.0)


@lean
def grow(tile, columns, top):
    """Replace scores by ``e``; return ``Σ e``."""
    scores, bounds = tile
    width, total = width_of(scores), top - top
    for k in range(0, columns * width, width):
        e = grown(load(scores, k), load(bounds, k), top)
        store(scores, k, e)
        total += e
    return total


@lean
def sums(tile, columns, ratio):
    """By how much ``Σ min(ρ e, u)`` is less than one, and ``Σ e`` over what is free."""
    es, bounds = tile
    width, total, lost, left = width_of(es), ratio - ratio, ratio - ratio, ratio - ratio
    for k in range(0, columns * width, 2 * width):
        e, u = load(es, k), load(bounds, k)
        share = ratio * e
        free = share < u
        pair = where(free, share, u)
        left += where(free, e, 0.0)
        e, u = load(es, k + width), load(bounds, k + width)
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
def write(lists, at, top, ratio, probs, place):
    """Write ``min(ρ e, u)`` and where entries lie."""
    scores, bounds = lists[:2]
    size, top, ratio = probs.shape[0], splat(top), splat(ratio)
    for j in range(0, size, width_of(probs)):
        score, u = load(scores, at + j), load(bounds, at + j)
        share = ratio * grown(score, u, top)
        full = both(share >= u, score > -math.inf)
        store_first(probs, j, size - j, where(share < u, share, u))
        store_bytes(place, j, size - j, full, either(full, share > 0.0))
