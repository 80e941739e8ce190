"""Csoftmax: ``p = min(exp(z) / Z, u)`` that sums to one, without sorting (Malaviya et al. 2018).

With ``e = exp(z - max z)`` the unknown is ``ρ`` with ``Σ min(ρ e, u) = 1``. The sum is concave and
piecewise linear in ``ρ``: Newton's method from ``1 / Σ e``, which is too low, stays below the root
and finds the entries at their bounds in a few steps, as each step only adds some. It stops when
``ρ`` does not rise by four roundings; further steps correct the rounding of the sum, which is
compensated.

``e`` is most accurate close to the largest score. If the free entries, those below their bounds,
are so far from it that ``ρ`` exceeds 4, or their sum is below 1e-20, the row is solved again in
double precision, relative to the largest free entry, repeatedly if necessary.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu import blocks, simd
from repro.mappings.kernels.cpu.compile import inline
from repro.mappings.kernels.cpu.elementary import exponential

_SMALLEST = 1e-20  # smaller sums of free exponentials have underflowed in float32
_FAR = 4.0  # a larger ρ magnifies the rounding of z - max z
_HIGHEST = 60.0
"""Entries more than this above the base are at their bounds."""
_PASSES = 1000
"""Maximum number of passes; each adds an entry to those at their bounds, or is the last."""
_ENDINGS = 3  # each corrects the rounding of a sum; one is usually enough
_TOLERANCE = 1.2e-7
"""Excess mass at which a row in single precision is solved."""


@inline
def _exponentials(score, bound, top):
    """Return ``e``, zero where the bound is zero or ``e`` would underflow in float32."""
    height, lowest = score - top, math.log(np.finfo(np.float32).tiny)
    counted = (height > lowest) & (bound > 0.0)
    return simd.where(
        counted, exponential(simd.minimum(simd.maximum(height, lowest), _HIGHEST)), 0.0
    )


@inline
def _capped(block, k, ratio):
    """Return ``min(ρ e, u)`` of a vector of entries, and ``e`` of those below their bounds."""
    e, u = simd.load(block.few_w, k), simd.load(block.u, k)
    share = ratio * e
    free = share < u
    return simd.where(free, share, u), simd.where(free, e, 0.0)


@inline
def _missing(block, columns, ratio):
    """Return ``1 - Σ min(ρ e, u)``, and ``Σ e`` over the entries below their bounds."""
    width = blocks.width_of(block.w)
    total = lost = left = simd.zeros_like(ratio)
    for k in range(0, columns * width, 2 * width):
        share, free = _capped(block, k, ratio)
        other, more = _capped(block, k + width, ratio)
        left = left + free + more
        total, lost = blocks.compensated_add(total, lost, share + other)
    if block.in_lanes:
        return (1.0 - total) - lost, blocks.along_row(block, left)
    return 1.0 - blocks.along_row(block, total + lost), blocks.along_row(block, left)


@inline
def _find_ratio(block, columns, top, usual, tolerance):
    """Return ``ρ`` of the rows of ``usual``, and which are solved; store ``e`` in ``few_w``."""
    width, mass = blocks.width_of(block.w), simd.zeros_like(top)
    for k in range(0, columns * width, width):
        e = _exponentials(simd.load(block.w, k), simd.load(block.u, k), top)
        simd.store(block.few_w, k, e)
        mass += e
    ratio, moves, endings, solved = 1.0 / blocks.along_row(block, mass), usual, 0, usual
    least = 1.0 + 4.0 * np.finfo(block.w.dtype).eps
    for _ in range(_PASSES):
        missing, left = _missing(block, columns, ratio)
        following = ratio + missing / simd.maximum(left, _SMALLEST)
        moves = moves & (following > ratio * least) & (left > _SMALLEST)
        if simd.count(moves) > 0:
            ratio = simd.where(moves, following, ratio)
            continue
        solved = usual & (simd.magnitude(missing) <= tolerance)
        if simd.count(solved) == simd.count(usual) or endings == _ENDINGS:
            break
        ratio = simd.where(solved | (left <= _SMALLEST), ratio, following)
        endings += 1
    return ratio, solved & (ratio <= _FAR)


@inline
def solve_csoftmax(block, rows, columns, top, room, usual, tolerance, fallback):
    """Write the base, ``ρ`` and whether rows are solved; ``fallback`` permits a lower base.

    Arguments are those of ``solve_csparsemax``, of which ``rows`` and ``room`` are not needed.
    """
    tolerance, base = max(tolerance, _TOLERANCE if block.w.itemsize == 4 else 0.0), top
    width, lowest = blocks.width_of(block.w), simd.splat(block.w.dtype.type(-math.inf))
    while True:
        ratio, solved = _find_ratio(block, columns, base, usual, tolerance)
        if not fallback or simd.count(solved) > 0:
            break
        # The largest score of a free entry is the next base.
        best = lowest
        for k in range(0, columns * width, width):
            u = simd.load(block.u, k)
            free = (ratio * simd.load(block.few_w, k) < u) & (u > 0.0)
            best = simd.maximum(simd.where(free, simd.load(block.w, k), -math.inf), best)
        lower = simd.highest(best)
        if not lower < simd.highest(base) or lower == -math.inf:
            break
        base = simd.splat(lower)
    simd.store(block.near, 0, base)
    simd.store(block.rest, 0, ratio)
    simd.store(block.solved, 0, simd.where(solved, 1.0, 0.0))


@inline
def csoftmax_share(score, bound, base, ratio):
    """Return shares before they are bounded, and which entries may be at their bounds."""
    return ratio * _exponentials(score, bound, base), score > -math.inf
