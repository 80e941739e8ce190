"""The kernels of fusedmax and oscarmax: levels of groups, projected onto the simplex.

Forward, a row is read once and its entries and groups are written: 12 bytes for each entry in
single precision. Both take time linear in the length of long rows.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.box import finite, height_of, lowered
from repro.mappings.kernels.cpu.extremes import key_of, keys_like, largest
from repro.mappings.kernels.cpu.fused_candidates import narrowed as fused_narrowed
from repro.mappings.kernels.cpu.leaders import LEVELS, narrowed
from repro.mappings.kernels.cpu.ranks import SHORT, by_comparison, by_digits
from repro.mappings.kernels.cpu.scratch import borrowed, give_back
from repro.mappings.kernels.cpu.segments import pool, sweep, trace_back
from repro.mappings.kernels.cpu.support import reaching, with_mass, word_count

_PASSES = 200


@small
def simplex_level(levels, sizes, count):
    """``τ`` with ``Σ n [y - τ]_+ = 1``, by Newton's method from below, and the sum.

    The largest level is subtracted from all of them first, and ``τ`` is relative to it.
    """
    levels, sizes, top = levels[:count], sizes[:count], levels[0]
    for k in range(levels.shape[0]):
        top = levels[k] if levels[k] > top else top
    for k in range(levels.shape[0]):
        levels[k] = lowered(levels[k], top)
    tau = -1.0
    for _ in range(_PASSES):
        mass = support = 0.0
        for k in range(levels.shape[0]):
            above = levels[k] - tau
            size = sizes[k] if above > 0.0 else 0.0
            mass += size * above
            support += size
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


@inner
def _allowed(row, top, limit, start, stop):
    """Whether an entry between two positions is allowed."""
    for j in range(start, stop):
        if (row[j] > -math.inf) & (height_of(row[j], limit, top) > -limit):
            return True
    return False


@small
def _gaps(row, top, limit, places, count, gaps):
    """Write 1 where allowed entries lie between two that are listed, or before, or after them."""
    after = 0
    for k in range(count + 1):
        place = places[k] if k < count else row.shape[0]
        gaps[k] = 1.0 if place > after and _allowed(row, top, limit, after, place) else 0.0
        after = place + 1


@small
def _piece(heights, ones, size, lam, rooms, jumps, levels, sizes, segments, found):
    """Total variation of neighbours; write and return what :func:`_segments` does."""
    if size == 1:
        levels[found], sizes[found], segments[0] = heights[0], 1.0, found
        return found + 1
    if size == 2:
        step, segments[0] = heights[0] - heights[1], found
        if abs(step) <= 2.0 * lam:
            levels[found], sizes[found] = 0.5 * (heights[0] + heights[1]), 2.0
            segments[1] = found
            return found + 1
        move, segments[1] = math.copysign(lam, step), found + 1
        levels[found], sizes[found] = heights[0] - move, 1.0
        levels[found + 1], sizes[found + 1] = heights[1] + move, 1.0
        return found + 2
    return _curve(heights, ones, size, lam, rooms, jumps, levels, sizes, segments, found)


@inner
def _curve(heights, ones, size, lam, rooms, jumps, levels, sizes, segments, found):
    """The same for many neighbours."""
    times, knots_at, knots, lows, highs = rooms
    level = sweep(heights, ones, size, lam, times, knots_at, knots, lows, highs)
    trace_back(level, size, lows, highs, jumps)
    return _segments(heights, size, lam, jumps, levels, sizes, segments, found)


@small
def _segments(heights, size, lam, jumps, levels, sizes, segments, found):
    """Write the mean of every segment, its length, and the segments of the entries.

    Segments are numbered from ``found``; returned is the next number.
    """
    before, total, count = 0, 0.0, 0.0
    for k in range(size):
        total, count = total + heights[k], count + 1.0
        segments[k] = found
        if jumps[k] != 0 or k == size - 1:
            levels[found] = (total + lam * (jumps[k] - before)) / count
            sizes[found] = count
            found, before, total, count = found + 1, jumps[k], 0.0, 0.0
    return found


@small
def _pieces(heights, gaps, ones, count, lam, rooms, jumps, levels, sizes, segments):
    """Total variation of the listed entries, those apart from each other on their own."""
    found = first = 0
    for k in range(count):
        heights[k] -= lam * (gaps[k] + gaps[k + 1])
        if gaps[k + 1] > 0.0 or k == count - 1:
            found = _piece(
                heights[first : k + 1], ones, k + 1 - first, lam, rooms, jumps, levels, sizes,
                segments[first : k + 1], found,
            )  # fmt: skip
            first = k + 1
    return found


@inner
def fused_rows(scores, lam, limit, probs, groups, start, stop):
    """Fusedmax of rows ``start`` to ``stop``, and the segments of their entries.

    Of the levels ``y`` only what lies above the threshold ``τ`` counts, and the set ``{y > t}``
    minimises ``Σ_S (t - x_j) + λ |∂S|``. An entry at or below ``t - 2 λ`` is not in it: without
    it the sum falls by at least ``2 λ``, and the boundary grows by at most two. As no level is
    farther than ``2 λ`` from its score, ``τ >= max x - 1 - 2 λ``; so entries below
    ``max x - 1 - 4 λ`` are outside all these sets, and what lies between them are problems of their
    own, in which each neighbour that is outside lowers an end by ``λ``.
    """
    n, floor = scores.shape[1], -(1.0 + 4.0 * lam)
    reals, integers = np.empty((10, 2 * n + 1)), np.empty((3, n + 1), np.int32)
    word_memory = np.empty((1, word_count(n)), np.uint64)
    rooms = (
        borrowed(reals, 0), borrowed(reals, 1), borrowed(reals, 2), borrowed(reals, 3),
        borrowed(reals, 4),
    )  # fmt: skip
    heights, gaps, levels = borrowed(reals, 5), borrowed(reals, 6), borrowed(reals, 7)
    sizes, ones, words = borrowed(reals, 8), borrowed(reals, 9), borrowed(word_memory, 0)
    jumps, places = borrowed(integers, 0), borrowed(integers, 1)
    segments = borrowed(integers, 2)
    for j in range(n):
        ones[j] = 1.0
    for i in range(start, stop):
        top, settled = _blank(scores[i], limit, probs[i], groups[i])
        if settled:
            continue
        count = reaching(scores[i], top, limit, max(floor, -limit), heights, words, places)
        count = fused_narrowed(heights, places, count, lam)
        _gaps(scores[i], top, limit, places, count, gaps)
        found = _pieces(heights, gaps, ones, count, lam, rooms, jumps, levels, sizes, segments)
        tau, mass = simplex_level(levels, sizes, found)
        for k in range(count):
            share = (levels[segments[k]] - tau) / mass
            if share > 0.0:
                probs[i, places[k]] = share
                groups[i, places[k]] = segments[k]
    give_back(reals)
    give_back(integers)
    give_back(word_memory)


@small
def _descending(row, places, count, keys, order, spare_keys, spare_order, counts):
    """Write the order of the listed entries."""
    for k in range(count):
        keys[k] = key_of(row[places[k]])
    if count <= SHORT:
        by_comparison(keys, count, order)
    else:
        by_digits(keys, count, order, spare_keys, spare_order, counts)


@small
def _raised(row, top, limit, lam, places, order, count, values):
    """Write the entries in their order, raised by ``λ`` times their rank.

    Returns how many are in the support.
    """
    total, best, support = -1.0, -math.inf, 0
    for k in range(count):
        values[k] = height_of(row[places[order[k]]], limit, top) + lam * k
        total += values[k]
        level = total / (k + 1)
        if level > best:
            best, support = level, k + 1
    return support


@small
def _write_clusters(levels, sizes, found, places, order, probs, groups):
    """Write the shares of all blocks, which sum to one, and their numbers."""
    for block in range(found):
        levels[block] /= sizes[block]
    k, (tau, mass) = 0, simplex_level(levels, sizes, found)
    for block in range(found):
        share = (levels[block] - tau) / mass
        for _ in range(int(sizes[block])):
            if share > 0.0:
                probs[places[order[k]]] = share
                groups[places[order[k]]] = block
            k += 1


@inner
def oscar_rows(scores, lam, limit, probs, groups, start, stop):
    """Oscarmax of rows ``start`` to ``stop``, and the clusters of their entries.

    On the simplex the penalty is ``-λ Σ k p_[k]`` and a constant. With levels ``y`` from isotonic
    regression of ``v_k = x_[k] + λ k``, ``Σ [y - t]_+`` is the largest ``Σ_{k<m} (v_k - t)``, so
    ``τ = max_m (Σ_{k<m} v_k - 1) / m``, and the best ``m`` is the size of the support. There the
    mean of ``v_k`` over the last entries of the support is above ``τ >= max x - 1``, however many
    are taken: entries below ``max x - 1 - λ (n - 1)`` have no mass.
    """
    n, floor = scores.shape[1], -(1.0 + lam * (scores.shape[1] - 1))
    reals, integers = np.empty((3, n + 1)), np.empty((3, n + 1), np.int32)
    key_memory, count_memory = keys_like(scores, 2, n + 1), np.empty((1, 8 * 256), np.int64)
    word_memory = np.empty((1, word_count(n)), np.uint64)
    values, levels, sizes = borrowed(reals, 0), borrowed(reals, 1), borrowed(reals, 2)
    counts, words = borrowed(count_memory, 0), borrowed(word_memory, 0)
    line_memory = np.empty((2, LEVELS))
    totals, lines = borrowed(line_memory, 0), borrowed(line_memory, 1)
    keys, spare_keys = borrowed(key_memory, 0), borrowed(key_memory, 1)
    order, spare_order, places = (
        borrowed(integers, 0), borrowed(integers, 1), borrowed(integers, 2),
    )  # fmt: skip
    for i in range(start, stop):
        row = scores[i]
        top, settled = _blank(row, limit, probs[i], groups[i])
        if settled:
            continue
        count = reaching(row, top, limit, max(floor, -limit), values, words, places)
        count = narrowed(values, places, count, lam, floor, totals, lines)
        _descending(row, places, count, keys, order, spare_keys, spare_order, counts)
        support = _raised(row, top, limit, lam, places, order, count, values)
        found = pool(values, support, levels, sizes)
        _write_clusters(levels, sizes, found, places, order, probs[i], groups[i])
    give_back(reals)
    give_back(integers)
    give_back(word_memory)
    give_back(key_memory)
    give_back(count_memory)
    give_back(line_memory)


@inner
def grouped_backward_rows(probs, groups, grads, out, start, stop):
    """Gradients of rows ``start`` to ``stop``: means over groups less the mean over the support."""
    n = probs.shape[1]
    reals, integers = np.empty((2, n)), np.empty((1, n + 1), np.int32)
    word_memory = np.empty((1, word_count(n)), np.uint64)
    totals, sizes, places = borrowed(reals, 0), borrowed(reals, 1), borrowed(integers, 0)
    words = borrowed(word_memory, 0)
    for i in range(start, stop):
        for j in range(n):
            out[i, j] = 0.0
        count, total = with_mass(probs[i], words, places), 0.0
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
    give_back(word_memory)
