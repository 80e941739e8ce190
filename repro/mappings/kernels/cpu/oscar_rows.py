"""The kernel of oscarmax: isotonic regression of the largest entries, projected onto the simplex.

A row is read once and its entries and groups are written: 12 bytes for each entry in single
precision. Long rows take time linear in their length.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import spliced
from repro.mappings.kernels.cpu.box import height_of
from repro.mappings.kernels.cpu.extremes import key_of, keys_like
from repro.mappings.kernels.cpu.leaders import FEW, LEVELS, gather, lowest
from repro.mappings.kernels.cpu.levels import blank
from repro.mappings.kernels.cpu.ranks import SHORT, by_comparison, by_digits
from repro.mappings.kernels.cpu.scratch import borrowed, give_back
from repro.mappings.kernels.cpu.segments import pool
from repro.mappings.kernels.cpu.tiles import width_of

_MARGIN = 1e-6


@spliced
def _descending(row, heights, places, count, ranks, keys, order, spare_keys, spare_order, counts):
    """Write the order of the listed entries."""
    if count <= SHORT:
        by_comparison(heights, count, ranks, order)
        return
    for k in range(count):
        keys[k] = key_of(row[places[k]])
    by_digits(keys, count, order, spare_keys, spare_order, counts)


@spliced
def _raised(row, top, limit, lam, places, order, count, values):
    """Write the entries in their order, raised by ``λ`` times their rank.

    Returns how many are in the support.
    """
    total, best, support = -1.0, -math.inf, 0
    for k in range(count):
        values[k] = height_of(row[places[order[k]]], limit, top) + lam * k
        total += values[k]
        level = total / (k + 1)
        support = k + 1 if level > best else support
        best = level if level > best else best
    return support


@spliced
def _write_clusters(levels, sizes, found, places, order, probs, groups):
    """Write the shares of all blocks, which sum to one, and where the first of each is.

    ``τ`` is relative to the largest level, which is the first.
    """
    k, mass, tau, count, top = 0, 0.0, -1.0, 0.0, levels[0] / sizes[0]
    for block in range(found):
        levels[block] = levels[block] / sizes[block] - top
        tau += levels[block] * sizes[block]
        count += sizes[block]
    for block in range(found):
        above = levels[block] - tau / count
        levels[block] = above if above > 0.0 else 0.0
        mass += levels[block] * sizes[block]
    for block in range(found):
        share, first = levels[block] / mass, places[order[k]]
        for _ in range(int(sizes[block])):
            probs[places[order[k]]] = share
            groups[places[order[k]]] = first
            k += 1


@spliced
def _leading(row, top, limit, lam, floor, heights, places, masses, lines):
    """List the positions of entries that can be in the support; return how many."""
    zero = row.dtype.type(top)
    count = gather(row, zero, _below(row, floor, limit), heights, places)
    if count <= FEW:
        return count
    bound = lowest(heights, count, lam, floor, masses, lines)
    return gather(row, zero, _below(row, bound, limit), heights, places)


@spliced
def _below(row, bound, limit):
    """A bound with room for rounding, in the precision of a row."""
    return row.dtype.type(max(bound - _MARGIN * (1.0 - bound), -limit))


@spliced
def oscar_rows(scores, lam, limit, probs, groups, start, stop):
    """Oscarmax of rows ``start`` to ``stop``, and the clusters of their entries.

    On the simplex the penalty is ``-λ Σ k p_[k]`` and a constant. With levels ``y`` from isotonic
    regression of ``v_k = x_[k] + λ k``, ``Σ [y - t]_+`` is the largest ``Σ_{k<m} (v_k - t)``, so
    ``τ = max_m (Σ_{k<m} v_k - 1) / m``, and the best ``m`` is the size of the support. There the
    mean of ``v_k`` over the last entries of the support is above ``τ >= max x - 1``, however many
    are taken: entries below ``max x - 1 - λ (n - 1)`` have no mass.
    """
    n, floor, step = scores.shape[1], -(1.0 + lam * (scores.shape[1] - 1)), width_of(scores)
    reals, integers = np.empty((5, n + LEVELS)), np.empty((3, n + 2 * step), np.int32)
    key_memory, count_memory = keys_like(scores, 2, n + 1), np.empty((1, 8 * 256), np.int64)
    height_memory = np.empty((2, n + 2 * step), scores.dtype)
    heights, ranks = borrowed(height_memory, 0), borrowed(height_memory, 1)
    values, levels, sizes = borrowed(reals, 0), borrowed(reals, 1), borrowed(reals, 2)
    masses, lines = borrowed(reals, 3), borrowed(reals, 4)
    counts = borrowed(count_memory, 0)
    keys, spare_keys = borrowed(key_memory, 0), borrowed(key_memory, 1)
    order, spare_order, places = (
        borrowed(integers, 0), borrowed(integers, 1), borrowed(integers, 2),
    )  # fmt: skip
    for i in range(start, stop):
        row = scores[i]
        top, settled = blank(row, limit, probs[i], groups[i])
        if settled:
            continue
        count = _leading(row, top, limit, lam, floor, heights, places, masses, lines)
        _descending(
            row, heights, places, count, ranks, keys, order, spare_keys, spare_order, counts
        )
        support = _raised(row, top, limit, lam, places, order, count, values)
        found = pool(values, support, levels, sizes)
        _write_clusters(levels, sizes, found, places, order, probs[i], groups[i])
    give_back(reals), give_back(integers), give_back(key_memory), give_back(count_memory)
    give_back(height_memory)
