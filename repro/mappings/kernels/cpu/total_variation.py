"""Total variation of the candidates of a row: those apart from each other on their own."""

import math

from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.box import height_of
from repro.mappings.kernels.cpu.segments import sweep, trace_back


@inner
def _allowed(row, top, limit, start, stop):
    """Whether an entry between two positions is allowed."""
    for j in range(start, stop):
        if (row[j] > -math.inf) & (height_of(row[j], limit, top) > -limit):
            return True
    return False


@small
def gaps_between(row, top, limit, places, count, gaps):
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
def pieces(heights, gaps, ones, count, lam, rooms, jumps, levels, sizes, segments):
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
