"""Oscarmax: isotonic regression of the largest entries, projected to the simplex.

On the simplex the penalty is ``-λ Σ k p_[k]`` and a constant. With levels ``y`` from isotonic
regression of ``v_k = x_[k] + λ k``, ``Σ [y - t]_+`` is the largest ``Σ_{k<m} (v_k - t)``, so
``τ = max_m (Σ_{k<m} v_k - 1) / m``, and the best ``m`` is the size of the support (Niculae &
Blondel 2017). There the mean of ``v_k`` over the last entries of the support is above
``τ >= max x - 1``, however many are taken: entries below ``max x - 1 - λ (n - 1)`` have no mass.

Only entries that can be in the support are sorted. With ``A(c) = Σ [x - c]_+`` the sum of the ``m``
largest entries is at most ``A(c) + m c`` for any ``c``, and equal to it where ``m`` entries are
above ``c``. So a few levels ``c`` bound the sum from above by straight lines, and with it
``q(m) = Σ_{k<m} (x_[k] + λ k) - 1 - m τ``, which is zero at the size of the support and nowhere
positive. Between two crossings of the lines the bound of ``q`` is convex: if it is negative at the
ends, the support has no such size. ``τ`` is replaced by a lower bound, the largest value of
``(Σ_{k<m} (x_[k] + λ k) - 1) / m`` over the sizes ``m`` that the levels cut off.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types

from repro.mappings.kernels.cpu.blocks import candidate, width_of
from repro.mappings.kernels.cpu.compile import allocating, chosen_by_type, inline
from repro.mappings.kernels.cpu.fusedmax import blank, height_of
from repro.mappings.kernels.cpu.segments import pool
from repro.mappings.kernels.cpu.simd import (
    compress,
    count,
    load,
    load_first,
    maximum,
    numbered,
    splat,
    store,
    store_positions,
    total,
    where,
)

FEW = 24
"""Lists up to this length are sorted whole, which takes less time than to leave entries out."""
LEVELS = 8
_SHORT = 160
"""Lists up to this length are compared with themselves by vectors; others are sorted by digits."""
_DIGITS = 256
_MARGIN = 1e-6


class Workspace(NamedTuple):
    """Room for one row.

    Attributes:
        heights: listed entries relative to the largest, in the precision of the rows.
        ranks: the number of entries before each.
        places: their positions in the row.
        order: the list in descending order.
        spare: room for sorting it.
        keys: magnitudes of the heights, as integers.
        spare_keys: room for sorting them.
        counts: entries with each byte at each place of a key.
        values: entries in this order, raised.
        levels: sums of the blocks of isotonic regression.
        sizes: their lengths.
        masses: ``A`` at a few levels.
        lines: these levels.
    """

    heights: Any
    ranks: Any
    places: Any
    order: Any
    spare: Any
    keys: Any
    spare_keys: Any
    counts: Any
    values: Any
    levels: Any
    sizes: Any
    masses: Any
    lines: Any


@allocating
def new_workspace(rows):
    """Room for one row."""
    n, width = rows.shape[1], width_of(rows)
    listed = np.empty((2, n + 2 * width), rows.dtype)
    integers, reals = np.empty((3, n + 2 * width), np.int32), np.empty((5, n + LEVELS))
    keys, counts = np.empty((2, n), np.int64), np.empty(rows.itemsize * _DIGITS, np.int64)
    return Workspace(
        listed[0], listed[1], integers[0], integers[1], integers[2], keys[0], keys[1], counts,
        reals[0], reals[1], reals[2], reals[3], reals[4],
    )  # fmt: skip


@inline
def _keep(entries, first, top, limit, heights, places, taken):
    """Append what is above a limit."""
    height = candidate(entries, top, 1.0)
    above = height > limit
    store(heights, taken, compress(height, above))
    store_positions(places, taken, first, above)
    return taken + count(above)


@inline
def _gather(row, top, limit, heights, places):
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


@inline
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


@inline
def _excess(mass, level, size, lam, tau):
    """The bound of ``q`` on the line of a level."""
    return mass + size * (level - tau + 0.5 * lam * (size - 1.0)) - 1.0


@inline
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


@inline
def _value(mass, level, size, lam):
    """``(Σ_{k<m} (x_[k] + λ k) - 1) / m`` for the entries above a level."""
    return level + (mass - 1.0) / np.float64(size) + 0.5 * lam * (size - 1.0)


@inline
def _lowest(heights, size, lam, floor, masses, levels):
    """A level that no entry of the support is below.

    Args:
        heights: scores less the largest; all that are above the floor, filled up to whole vectors.
        size: how many.
        lam: ``λ``.
        floor: no entry of the support is below.
        masses: room for ``LEVELS`` numbers.
        levels: room for as many.
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


@inline
def _by_comparison(heights, size, ranks, order):
    """Write the positions of numbers from the largest to the smallest.

    Args:
        heights: the numbers, filled up to whole vectors.
        size: how many.
        ranks: room for as many.
        order: gets the positions.
    """
    step, zero = width_of(heights), splat(heights.dtype.type(0))
    lane = numbered(zero)
    for k in range(0, size, step):
        numbers, rank = load(heights, k), zero
        for j in range(k):
            rank += where(numbers <= heights[j], zero + 1.0, zero)
        for j in range(k, min(k + step, size)):
            tied = (numbers <= heights[j]) & (lane > j - k)
            rank += where((numbers < heights[j]) | tied, zero + 1.0, zero)
        for j in range(k + step, size):
            rank += where(numbers < heights[j], zero + 1.0, zero)
        store(ranks, k, rank)
    for k in range(size):
        order[np.int64(ranks[k])] = k


@chosen_by_type
def _magnitude_bits(height):
    """An integer that is larger for lower heights, which are at most zero."""
    single = height == types.float32
    real, integer = (np.float32, np.int32) if single else (np.float64, np.int64)
    return lambda height: np.int64(real(abs(height)).view(integer))


@inline
def _by_digits(room, size):
    """Write the positions of heights from the largest to the smallest, by a radix sort.

    Equal heights keep their order; bytes are counted from the last to the first.
    """
    order, spare, keys, spare_keys = room.order, room.spare, room.keys, room.spare_keys
    counts, places = room.counts, room.heights.itemsize
    counts[:] = 0
    for i in range(size):
        order[i], keys[i] = i, _magnitude_bits(room.heights[i])
        for place in range(places):
            counts[place * _DIGITS + ((keys[i] >> (8 * place)) & (_DIGITS - 1))] += 1
    for place in range(places):
        base, before = place * _DIGITS, 0
        if counts[base + ((keys[0] >> (8 * place)) & (_DIGITS - 1))] == size:
            continue
        for digit in range(base, base + _DIGITS):
            counts[digit], before = before, before + counts[digit]
        for i in range(size):
            digit = base + ((keys[i] >> (8 * place)) & (_DIGITS - 1))
            spare[counts[digit]], spare_keys[counts[digit]] = order[i], keys[i]
            counts[digit] += 1
        for i in range(size):
            order[i], keys[i] = spare[i], spare_keys[i]


@inline
def _raised(row, top, lam, places, order, many, values):
    """Write the entries in their order, raised by ``λ`` times their rank.

    Returns how many are in the support.
    """
    mass, best, support = -1.0, -math.inf, 0
    for k in range(many):
        values[k] = height_of(row, places[order[k]], top) + lam * k
        mass += values[k]
        level = mass / (k + 1)
        support = k + 1 if level > best else support
        best = level if level > best else best
    return support


@inline
def _write_clusters(levels, sizes, found, places, order, probs, groups):
    """Write the shares of all blocks, which sum to one, and where the first of each is.

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
    """A bound with room for rounding, in the precision of a row."""
    return row.dtype.type(max(bound - _MARGIN * (1.0 - bound), -np.finfo(row.dtype).max))


@inline
def _leading(row, top, lam, floor, room):
    """List the entries that can be in the support; return how many."""
    zero, limit, many = row.dtype.type(top), _below(row, floor), 0
    for attempt in range(2):
        many = _gather(row, zero, limit, room.heights, room.places)
        if many <= FEW or attempt == 1:
            break
        bound = _lowest(room.heights, many, lam, floor, room.masses, room.lines)
        limit = _below(row, bound)
    return many


@inline
def solve_oscarmax(rows, lam, probs, groups, room, start, stop):
    """Oscarmax of rows, and the clusters of their entries."""
    floor = -(1.0 + lam * (rows.shape[1] - 1))
    for i in range(start, stop):
        row = rows[i]
        top, settled = blank(row, probs[i], groups[i])
        if settled:
            continue
        many = _leading(row, top, lam, floor, room)
        if many <= _SHORT:
            _by_comparison(room.heights, many, room.ranks, room.order)
        else:
            _by_digits(room, many)
        support = _raised(row, top, lam, room.places, room.order, many, room.values)
        found = pool(room.values, support, room.levels, room.sizes)
        _write_clusters(
            room.levels, room.sizes, found, room.places, room.order, probs[i], groups[i]
        )
