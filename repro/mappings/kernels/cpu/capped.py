"""``min(exp(z) / Z, u)`` that sums to one, without sorting.

Entries are full where ``e / u`` is large, with ``e = exp(z)``. Given what is full, the others share
the rest, ``ρ = (1 - Σ u) / Σ e``; that makes more of them full, never fewer, so the full ones are
found from an empty set in a few passes.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.elementary import exponential

_CHUNK = 64
"""Entries that are added up in the precision of the list before the sum is widened."""
_SMALLEST = 1e-20
"""If the free entries' ``e`` sum to less, the base is lowered to the largest of them."""
_HIGHEST = 80.0
"""Entries farther above the base are full."""


@small
def exponentials(scores, uppers, base, largest, grown):
    """Write ``exp(z - base)``, zero where forbidden and at exhausted bounds."""
    zero, lowest = grown.dtype.type(0), grown.dtype.type(math.log(np.finfo(grown.dtype).tiny))
    base, largest = grown.dtype.type(base), grown.dtype.type(largest)
    highest = grown.dtype.type(_HIGHEST)
    for j in range(scores.shape[0]):
        height = (scores[j] if scores[j] < largest else largest) - base
        height = height if height < highest else highest
        share = exponential(height if height > lowest else lowest)
        grown[j] = share if (height > lowest) & (uppers[j] > zero) else zero


@small
def _part(grown, uppers, ratio):
    """``Σ min(ρ e, u)``, and ``Σ e`` over what is free, of a part of a row."""
    zero = grown.dtype.type(0)
    total, left = zero, zero
    for j in range(grown.shape[0]):
        share, upper = ratio * grown[j], uppers[j] if uppers[j] > zero else zero
        total += share if share < upper else upper
        left += grown[j] if share < upper else zero
    return total, left


@inner
def _sums(grown, uppers, ratio):
    """The same of a whole row."""
    total = left = 0.0
    ratio = grown.dtype.type(ratio)
    for start in range(0, grown.shape[0], _CHUNK):
        part = _part(grown[start : start + _CHUNK], uppers[start : start + _CHUNK], ratio)
        total, left = total + part[0], left + part[1]
    return total, left


@inner
def _sum(grown):
    """``Σ e``."""
    total = 0.0
    for start in range(0, grown.shape[0], _CHUNK):
        part, chunk = grown.dtype.type(0), grown[start : start + _CHUNK]
        for j in range(chunk.shape[0]):
            part += chunk[j]
        total += part
    return total


@inner
def _fill(grown, uppers):
    """``ρ`` of a row, and whether mass is left over that nothing free is large enough to take.

    The sum of the entries is concave in ``ρ``, and this is Newton's method from below.
    """
    ratio, tolerance = 0.0, 0.5 * np.finfo(grown.dtype).eps
    total, left = 0.0, _sum(grown)
    while left > _SMALLEST:
        following = ratio + (1.0 - total) / left
        if not following > ratio * (1.0 + tolerance):
            break
        ratio = following
        total, left = _sums(grown, uppers, ratio)
    return ratio, left <= _SMALLEST and total < 1.0 - 2.0 * tolerance


@inner
def _highest_free(scores, uppers, grown, ratio):
    """The largest score of what is free."""
    zero, ratio, best = grown.dtype.type(0), grown.dtype.type(ratio), scores.dtype.type(-math.inf)
    for j in range(scores.shape[0]):
        free = (ratio * grown[j] < uppers[j]) & (uppers[j] > zero)
        best = scores[j] if free & (scores[j] > best) else best
    return best


@inner
def ratio_of(scores, uppers, top, largest, grown):
    """Write ``e``, at some base, and return ``ρ``, for a row whose bounds sum to more than one."""
    base = top
    exponentials(scores, uppers, base, largest, grown)
    ratio, short = _fill(grown, uppers)
    while short:
        lower = _highest_free(scores, uppers, grown, ratio)
        if not lower < base or lower == -math.inf:
            break
        base = lower
        exponentials(scores, uppers, base, largest, grown)
        ratio, short = _fill(grown, uppers)
    return ratio
