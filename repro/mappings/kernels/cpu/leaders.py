"""Which entries of a row can be in the support of oscarmax, without sorting them.

With ``A(c) = Σ [x - c]_+`` the sum of the ``m`` largest entries is at most ``A(c) + m c`` for any
``c``, and equal to it where ``m`` entries are above ``c``. So a few levels ``c`` bound the sum from
above by straight lines, and with it ``q(m) = Σ_{k<m} (x_[k] + λ k) - 1 - m τ``, which is zero at
the size of the support and nowhere positive. Between two crossings of the lines the bound of ``q``
is convex: if it is negative at the ends, the support has no such size. As ``τ`` is not known, the
largest value of ``(Σ_{k<m} (x_[k] + λ k) - 1) / m`` stands for it, over the sizes ``m`` that the
levels cut off: it is at most ``τ``, and ``q`` with it at most too large.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small

FEW = 24
"""So many entries are sorted in less time than it takes to leave some out."""
LEVELS = 12
_ROUNDING = 1e-13


@small
def _above(heights, level):
    """``A(c)``, and how many entries are above ``c``."""
    total, found = 0.0, 0
    for k in range(heights.shape[0]):
        above = heights[k] - level
        kept = above if above > 0.0 else 0.0
        total += kept
        found += kept > 0.0
    return total, found


@small
def _excess(total, level, size, lam, tau):
    """The bound of ``q`` on the line of a level."""
    return total + size * (level - tau + 0.5 * lam * (size - 1.0)) - 1.0


@inner
def _lines(heights, count, lam, floor, totals, levels):
    """Write levels down to the floor, and their ``A``; return the bound of ``τ``, and a size."""
    tau, found = -math.inf, 0
    for k in range(LEVELS):
        levels[k] = floor * ((k + 1.0) / LEVELS) ** 2
        totals[k], found = _above(heights[:count], levels[k])
        tau = max(tau, levels[k] + (totals[k] - 1.0) / found + 0.5 * lam * (found - 1.0))
    return tau, np.float64(found)


@inner
def _lowest(heights, count, lam, floor, totals, levels):
    """A level that no entry of the support is below."""
    tau, size = _lines(heights, count, lam, floor, totals, levels)
    last, limit = LEVELS - 1, floor * count * _ROUNDING
    if not _excess(totals[last], levels[last], size, lam, tau) < limit:
        return floor
    for k in range(last - 1, -1, -1):
        crossing = (totals[k + 1] - totals[k]) / (levels[k] - levels[k + 1])
        if not _excess(totals[k], levels[k], crossing, lam, tau) < limit:
            return levels[k + 1]
    return levels[0]


@small
def narrowed(heights, places, count, lam, floor, totals, levels):
    """Keep of a list what can be in the support; return how many.

    Args:
        heights: scores less the largest; all that are above the floor.
        places: their positions.
        count: how many.
        lam: ``λ``.
        floor: no entry of the support is below.
        totals: room for ``LEVELS`` numbers.
        levels: the same.
    """
    if count <= FEW:
        return count
    lowest, kept = _lowest(heights, count, lam, floor, totals, levels), 0
    for k in range(count):
        places[kept] = places[k]
        kept += heights[k] > lowest
    return kept
