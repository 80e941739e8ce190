"""The kernels of fusedmax and oscarmax: levels of groups, projected onto the simplex.

Forward, a row is read once and its entries and groups are written: 12 bytes for each entry in
single precision. Both take time linear in the length of long rows.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.box import finite, height_of, lowered
from repro.mappings.kernels.cpu.extremes import key_of, keys_like, largest
from repro.mappings.kernels.cpu.ranks import SHORT, by_comparison, by_digits
from repro.mappings.kernels.cpu.scratch import borrowed, give_back
from repro.mappings.kernels.cpu.segments import pool, sweep, trace_back
from repro.mappings.kernels.cpu.support import reaching, with_mass

_PASSES = 200


@small
def simplex_level(levels, sizes, count):
    """``τ`` with ``Σ n [y - τ]_+ = 1``, by Newton's method from below, and the sum.

    The largest level is subtracted from all of them first, and ``τ`` is relative to it.
    """
    top = levels[0]
    for k in range(count):
        top = max(top, levels[k])
    for k in range(count):
        levels[k] = lowered(levels[k], top)
    tau = -1.0
    for _ in range(_PASSES):
        mass = support = 0.0
        for k in range(count):
            above = levels[k] - tau
            mass += sizes[k] * above if above > 0.0 else 0.0
            support += sizes[k] if above > 0.0 else 0.0
        following = tau + (mass - 1.0) / support
        if not following > tau:
            break
        tau = following
    return tau, mass


@small
def _blank(row, limit, probs, groups):
    """Fill a row with zeros, or NaN; return its largest entry and whether that is all."""
    top, bad = largest(row)
    fill = probs.dtype.type(math.nan if bad else 0.0)
    for j in range(row.shape[0]):
        probs[j] = fill
    for j in range(row.shape[0]):
        groups[j] = 0
    return finite(top, limit), bad or top == -math.inf


@small
def _is_whole(row, top, limit):
    """Whether all entries are allowed."""
    absent = 0.0
    for j in range(row.shape[0]):
        absent += 0.0 if height_of(row[j], limit, top) > -limit else 1.0
        absent += 0.0 if row[j] > -math.inf else 1.0
    return absent == 0.0


@inner
def _allowed(row, top, limit, start, stop):
    """How many entries between two positions are allowed."""
    count = 0
    for j in range(start, stop):
        count += (row[j] > -math.inf) & (height_of(row[j], limit, top) > -limit)
    return count


@small
def _items(row, top, limit, floor, listed, spots, values, counts, places):
    """List a row's entries relative to its top, those at the floor in runs; return how many."""
    found, whole = reaching(row, top, limit, floor, listed, spots), _is_whole(row, top, limit)
    size, after = 0, 0
    for k in range(found + 1):
        spot = spots[k] if k < found else row.shape[0]
        run = spot - after
        if run > 0 and not whole:
            run = _allowed(row, top, limit, after, spot)
        if run > 0:
            values[size], counts[size], places[size] = floor, run, after
            size += 1
        if k < found:
            values[size], counts[size], places[size] = max(listed[k], floor), 1.0, spot
            size += 1
        after = spot + 1
    return size


@small
def _segment_levels(values, counts, size, lam, jumps, levels, sizes, segments):
    """Write the mean of every segment, its length, and the segments of the items."""
    segment = total = before = count = 0
    total, count = 0.0, 0.0
    for k in range(size):
        total, count = total + counts[k] * values[k], count + counts[k]
        segments[k] = segment
        if jumps[k] != 0 or k == size - 1:
            levels[segment] = (total + lam * (jumps[k] - before)) / count
            sizes[segment] = count
            segment, before, total, count = segment + 1, jumps[k], 0.0, 0.0
    return segment


@inner
def fused_rows(scores, lam, limit, probs, groups, start, stop):
    """Fusedmax of rows ``start`` to ``stop``, and the segments of their entries.

    An entry below the floor has no mass, and then its score does not matter.
    """
    n, floor = scores.shape[1], -(1.0 + 4.0 * lam)
    reals, integers = np.empty((10, 2 * n + 1)), np.empty((4, n + 1), np.int32)
    times, heights, knots = borrowed(reals, 0), borrowed(reals, 1), borrowed(reals, 2)
    lows, highs, values = borrowed(reals, 3), borrowed(reals, 4), borrowed(reals, 5)
    counts, levels, sizes = borrowed(reals, 6), borrowed(reals, 7), borrowed(reals, 8)
    listed, spots = borrowed(reals, 9), borrowed(integers, 3)
    jumps, places, segments = (
        borrowed(integers, 0), borrowed(integers, 1), borrowed(integers, 2),
    )  # fmt: skip
    for i in range(start, stop):
        top, settled = _blank(scores[i], limit, probs[i], groups[i])
        if settled:
            continue
        size = _items(scores[i], top, limit, floor, listed, spots, values, counts, places)
        level = sweep(values, counts, size, lam, times, heights, knots, lows, highs)
        trace_back(level, size, lows, highs, jumps)
        found = _segment_levels(values, counts, size, lam, jumps, levels, sizes, segments)
        tau, mass = simplex_level(levels, sizes, found)
        for k in range(size):
            share = (levels[segments[k]] - tau) / mass
            if share > 0.0:
                probs[i, places[k]] = share
                groups[i, places[k]] = segments[k]
    give_back(reals)
    give_back(integers)


@small
def _descending(row, keys, order, spare_keys, spare_order, counts):
    """Write the order of a row's entries."""
    for j in range(row.shape[0]):
        keys[j] = key_of(row[j])
    if row.shape[0] <= SHORT:
        by_comparison(keys, row.shape[0], order)
    else:
        by_digits(keys, row.shape[0], order, spare_keys, spare_order, counts)


@small
def _raised(row, top, limit, lam, order, values):
    """Write the entries in their order, raised by ``λ`` times their rank; return how many."""
    size = 0
    for k in range(row.shape[0]):
        height = height_of(row[order[k]], limit, top)
        if not row[order[k]] > -math.inf or not height > -limit:
            break
        values[k] = max(height, -2.0 - lam * row.shape[0]) + lam * k
        size += 1
    return size


@inner
def oscar_rows(scores, lam, limit, probs, groups, start, stop):
    """Oscarmax of rows ``start`` to ``stop``, and the clusters of their entries.

    On the simplex the penalty is ``-λ Σ k p_[k]`` and a constant.
    """
    n = scores.shape[1]
    reals, integers = np.empty((3, n)), np.empty((2, n), np.int32)
    key_memory, count_memory = keys_like(scores, 2, n), np.empty((1, 8 * 256), np.int64)
    values, levels, sizes = borrowed(reals, 0), borrowed(reals, 1), borrowed(reals, 2)
    counts = borrowed(count_memory, 0)
    keys, spare_keys = borrowed(key_memory, 0), borrowed(key_memory, 1)
    order, spare_order = borrowed(integers, 0), borrowed(integers, 1)
    for i in range(start, stop):
        top, settled = _blank(scores[i], limit, probs[i], groups[i])
        if settled:
            continue
        _descending(scores[i], keys, order, spare_keys, spare_order, counts)
        size = _raised(scores[i], top, limit, lam, order, values)
        found = pool(values, size, levels, sizes)
        for block in range(found):
            levels[block] /= sizes[block]
        k, (tau, mass) = 0, simplex_level(levels, sizes, found)
        for block in range(found):
            share = (levels[block] - tau) / mass
            if not share > 0.0:
                break
            for _ in range(int(sizes[block])):
                probs[i, order[k]] = share
                groups[i, order[k]] = block
                k += 1
    give_back(reals)
    give_back(integers)
    give_back(key_memory)
    give_back(count_memory)


@inner
def grouped_backward_rows(probs, groups, grads, out, start, stop):
    """Gradients of rows ``start`` to ``stop``: means over groups less the mean over the support."""
    n = probs.shape[1]
    reals, integers = np.empty((2, n)), np.empty((1, n + 1), np.int32)
    totals, sizes, places = borrowed(reals, 0), borrowed(reals, 1), borrowed(integers, 0)
    for i in range(start, stop):
        for j in range(n):
            out[i, j] = 0.0
        count, total = with_mass(probs[i], places), 0.0
        for k in range(count):
            group = groups[i, places[k]]
            totals[group] = sizes[group] = 0.0
        for k in range(count):
            group, grad = groups[i, places[k]], grads[i, places[k]]
            totals[group] += grad
            sizes[group] += 1.0
            total += grad
        for k in range(count):
            group = groups[i, places[k]]
            out[i, places[k]] = totals[group] / sizes[group] - total / count
    give_back(reals)
    give_back(integers)
