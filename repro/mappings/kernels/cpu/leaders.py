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

from repro.mappings.kernels.cpu._compile import lean, small, spliced
from repro.mappings.kernels.cpu.exchanges import compress, store_positions
from repro.mappings.kernels.cpu.lanes import load, load_first, store
from repro.mappings.kernels.cpu.tiles import candidate, width_of
from repro.mappings.kernels.cpu.vectors import count, maximum, splat, total, where

FEW = 24
"""So many entries are sorted in less time than it takes to leave some out."""
LEVELS = 8


@lean
def _keep(entries, first, top, limit, heights, places, taken):
    """Append what is above a limit."""
    height = candidate(entries, top, 1.0)
    above = height > limit
    store(heights, taken, compress(height, above))
    store_positions(places, taken, first, above)
    return taken + count(above)


@lean
def gather(row, top, limit, heights, places):
    """List the entries above a limit, relative to the top, and their positions; return how many.

    The list of heights is filled up to whole vectors.
    """
    size, step, taken = row.shape[0], width_of(row), 0
    whole, lowest = size // step * step, row.dtype.type(-np.inf)
    for j in range(0, whole, step):
        taken = _keep(load(row, j), j, top, limit, heights, places, taken)
    rest = load_first(row, whole, size - whole, lowest)
    taken = _keep(rest, whole, top, limit, heights, places, taken)
    store(heights, taken, splat(lowest))
    return taken


@lean
def _above(heights, size, one, other):
    """``A(c)`` of two levels, and how many entries are above each."""
    step, zero = width_of(heights), splat(heights.dtype.type(0))
    mass = found = other_mass = other_found = zero
    for k in range(0, size, step):
        entries = load(heights, k)
        above, other_above = entries - one, entries - other
        mass += maximum(above, 0.0)
        found += where(above > 0.0, zero + 1.0, zero)
        other_mass += maximum(other_above, 0.0)
        other_found += where(other_above > 0.0, zero + 1.0, zero)
    return total(mass), total(found), total(other_mass), total(other_found)


@lean
def _excess(mass, level, size, lam, tau):
    """The bound of ``q`` on the line of a level."""
    return mass + size * (level - tau + 0.5 * lam * (size - 1.0)) - 1.0


@spliced
def _lines(heights, size, lam, floor, masses, levels):
    """Write levels down to the floor, and their ``A``; return the bound of ``τ``, and a size."""
    for k in range(LEVELS):
        levels[k] = heights.dtype.type(floor * ((k + 1.0) / LEVELS) ** 2)
    tau, found = -math.inf, 0.0
    for k in range(0, LEVELS, 2):
        one, other = heights.dtype.type(levels[k]), heights.dtype.type(levels[k + 1])
        masses[k], first, masses[k + 1], found = _above(heights, size, one, other)
        tau = max(tau, _value(masses[k], levels[k], first, lam))
        tau = max(tau, _value(masses[k + 1], levels[k + 1], found, lam))
    return tau, np.float64(found)


@small
def _value(mass, level, size, lam):
    """``(Σ_{k<m} (x_[k] + λ k) - 1) / m`` for the entries above a level."""
    return level + (mass - 1.0) / np.float64(size) + 0.5 * lam * (size - 1.0)


@spliced
def lowest(heights, size, lam, floor, masses, levels):
    """A level that no entry of the support is below.

    Args:
        heights: scores less the largest; all that are above the floor, filled up to whole vectors.
        size: how many.
        lam: ``λ``.
        floor: no entry of the support is below.
        masses: room for ``LEVELS`` numbers.
        levels: the same.
    """
    tau, most = _lines(heights, size, lam, floor, masses, levels)
    # Every mass is a sum of so many rounded terms, none larger than the floor.
    rounding = floor * np.finfo(heights.dtype).eps * (8.0 + size / width_of(heights))
    if not _excess(masses[LEVELS - 1], levels[LEVELS - 1], most, lam, tau) < most * rounding:
        return floor
    for k in range(LEVELS - 2, -1, -1):
        crossing = (masses[k + 1] - masses[k]) / (levels[k] - levels[k + 1])
        if not _excess(masses[k], levels[k], crossing, lam, tau) < crossing * rounding:
            return levels[k + 1]
    return levels[0]
