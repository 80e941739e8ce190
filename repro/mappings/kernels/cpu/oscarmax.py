"""Oscarmax: isotonic regression of the largest entries, projected onto the simplex.

On the simplex the penalty is ``-λ Σ k p_[k]`` plus a constant. With levels ``y`` from isotonic
regression of ``v_k = x_[k] + λ k``, ``Σ [y - t]_+`` is the largest ``Σ_{k<m} (v_k - t)``, so
``τ = max_m (Σ_{k<m} v_k - 1) / m``, and the best ``m`` is the size of the support (Niculae &
Blondel 2017). There the mean of ``v_k`` over the last entries of the support is above
``τ >= max x - 1``, however many are taken: entries below ``max x - 1 - λ (n - 1)`` have no mass.

Only entries that can be in the support are sorted. With ``A(c) = Σ [x - c]_+`` the sum of the ``m``
largest entries is at most ``A(c) + m c`` for any ``c``, with equality if ``m`` entries are above
``c``. So a few levels ``c`` bound the sum from above by straight lines, and with it
``q(m) = Σ_{k<m} (x_[k] + λ k) - 1 - m τ``, which is zero at the size of the support and nowhere
positive. Between two crossings of the lines the bound of ``q`` is convex: if it is negative at both
ends, the support has no size in between. ``τ`` is replaced by a lower bound, the largest value of
``(Σ_{k<m} (x_[k] + λ k) - 1) / m``, where ``m`` is the number of entries above one of the levels.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from repro.mappings.kernels.cpu import blocks, simd
from repro.mappings.kernels.cpu.compile import allocating, inline
from repro.mappings.kernels.cpu.fusedmax import blank, height_of
from repro.mappings.kernels.cpu.segments import pool

FEW = 24
"""Longest list that is sorted without screening, which would take longer than it saves."""
LEVELS = 8  # for screening; the list is read once for every two
_MARGIN = 1e-6  # relative: more than the rounding of a bound in float32


class Workspace(NamedTuple):
    """Workspace for one row."""

    heights: Any  # listed entries relative to the largest, in the precision of the rows
    places: Any  # position of each listed entry in the row
    values: Any  # sorted entries plus ``λ`` times the rank
    levels: Any  # sums of the blocks of isotonic regression
    sizes: Any  # lengths of the blocks
    masses: Any  # ``A(c)`` at each level of ``lines``
    lines: Any  # the levels ``c`` for screening


@allocating
def new_workspace(rows):
    """Allocate the workspace for one row."""
    n, room = rows.shape[1], rows.shape[1] + 2 * blocks.width_of(rows)
    reals = np.empty((5, n + LEVELS))
    return Workspace(
        np.empty(room, rows.dtype), np.empty(room, np.int32),
        reals[0], reals[1], reals[2], reals[3], reals[4],
    )  # fmt: skip


@inline
def _gather(row, top, limit, heights, places):
    """List the entries above a limit, relative to the largest, and positions; return their number.

    The list of heights is padded with ``-inf`` to whole vectors.
    """
    size, step, taken = row.shape[0], blocks.width_of(row), 0
    for j in range(0, size, step):
        height = blocks.candidate(simd.load_first(row, j, size - j, -np.inf), top, 1.0)
        above = height > limit
        simd.store(heights, taken, simd.compress(height, above))
        simd.store_positions(places, taken, j, above)
        taken += simd.count(above)
    simd.store(heights, taken, simd.splat(row.dtype.type(-np.inf)))
    return taken


@inline
def _above(heights, size, one, other):
    """Return ``A(c)`` and the number of entries above ``c`` for two levels ``c``."""
    mass = found = other_mass = other_found = simd.splat(heights.dtype.type(0))
    for k in range(0, size, blocks.width_of(heights)):
        entries = simd.load(heights, k)
        above, other_above = entries - one, entries - other
        mass += simd.maximum(above, 0.0)
        found += simd.where(above > 0.0, 1.0, 0.0)
        other_mass += simd.maximum(other_above, 0.0)
        other_found += simd.where(other_above > 0.0, 1.0, 0.0)
    return simd.total(mass), simd.total(found), simd.total(other_mass), simd.total(other_found)


@inline
def _excess(mass, level, size, lam, tau):
    """Return the upper bound of ``q(size)`` from one level."""
    return mass + size * (level - tau + 0.5 * lam * (size - 1.0)) - 1.0


@inline
def _value(mass, level, size, lam):
    """Return ``(Σ_{k<m} (x_[k] + λ k) - 1) / m`` for the ``m`` entries above a level."""
    return level + (mass - 1.0) / np.float64(size) + 0.5 * lam * (size - 1.0)


@inline
def _lowest(heights, size, lam, floor, masses, levels):
    """Return a lower bound of the entries in the support, at least ``floor``, which also is one.

    Heights are the scores above the floor less the largest, padded to whole vectors.
    """
    real, tau, found = heights.dtype.type, -math.inf, 0.0
    for k in range(LEVELS):
        levels[k] = real(floor * ((k + 1.0) / LEVELS) ** 2)
    for k in range(0, LEVELS, 2):
        masses[k], first, masses[k + 1], found = _above(
            heights, size, real(levels[k]), real(levels[k + 1])
        )
        tau = max(tau, _value(masses[k], levels[k], first, lam))
        tau = max(tau, _value(masses[k + 1], levels[k + 1], found, lam))
    most = np.float64(found)
    # Bound of the rounding error of a mass: its terms are at most as large as the floor.
    rounding = floor * np.finfo(heights.dtype).eps * (8.0 + size / blocks.width_of(heights))
    if not _excess(masses[LEVELS - 1], levels[LEVELS - 1], most, lam, tau) < most * rounding:
        return floor
    for k in range(LEVELS - 2, -1, -1):
        crossing = (masses[k + 1] - masses[k]) / (levels[k] - levels[k + 1])
        if not _excess(masses[k], levels[k], crossing, lam, tau) < crossing * rounding:
            return levels[k + 1]
    return levels[0]


@inline
def _write_clusters(levels, sizes, found, places, order, probs, groups):
    """Write the share of every entry, and the position of the first entry of its block.

    ``τ`` is relative to the largest level, which is the first.
    """
    k, mass, tau, size, top = 0, 0.0, -1.0, 0.0, levels[0] / sizes[0]
    for block in range(found):
        levels[block] = levels[block] / sizes[block] - top
        tau += levels[block] * sizes[block]
        size += sizes[block]
    for block in range(found):
        above = levels[block] - tau / size
        levels[block] = above if above > 0.0 else 0.0
        mass += levels[block] * sizes[block]
    for block in range(found):
        share, first = levels[block] / mass, places[order[k]]
        for _ in range(int(sizes[block])):
            probs[places[order[k]]] = share
            groups[places[order[k]]] = first
            k += 1


@inline
def _below(row, bound):
    """Lower a bound by more than its rounding error, and cast it to the type of a row."""
    return row.dtype.type(max(bound - _MARGIN * (1.0 - bound), -np.finfo(row.dtype).max))


@allocating
def solve_oscarmax(rows, lam, probs, groups, room, start, stop):
    """Compute oscarmax of rows, and the clusters of their entries."""
    floor = -(1.0 + lam * (rows.shape[1] - 1))
    heights, places = room.heights, room.places
    for i in range(start, stop):
        row = rows[i]
        top, settled = blank(row, probs[i], groups[i])
        if settled:
            continue
        many = _gather(row, row.dtype.type(top), _below(row, floor), heights, places)
        if many > FEW:
            bound = _lowest(heights, many, lam, floor, room.masses, room.lines)
            many = _gather(row, row.dtype.type(top), _below(row, bound), heights, places)
        order = np.argsort(-heights[:many], kind="mergesort")  # stable: clusters are determined
        # Sorted entries plus λ times their rank; the support ends where their mean is largest.
        mass, best, support = -1.0, -math.inf, 0
        for k in range(many):
            room.values[k] = height_of(row, places[order[k]], top) + lam * k
            mass += room.values[k]
            level = mass / (k + 1)
            support = k + 1 if level > best else support
            best = level if level > best else best
        found = pool(room.values, support, room.levels, room.sizes)
        _write_clusters(room.levels, room.sizes, found, places, order, probs[i], groups[i])
