"""Fusedmax: total variation of the entries that can have mass, projected onto the simplex.

Only the levels ``y`` of total variation above the threshold ``τ`` matter, and the set
``S = {y > t}`` minimizes ``Σ_S (t - x_j) + λ |∂S|`` (Niculae & Blondel 2017, Proposition 2, and the
coarea formula). An entry at or below ``t - 2 λ`` is not in it: without it the sum falls by at least
``2 λ``, and the boundary grows by at most two. No level is farther than ``2 λ`` from its score, so
``τ >= max x - 1 - 2 λ``; entries below ``max x - 1 - 4 λ`` are outside all these sets. They split
the row into independent problems, in which each such neighbor lowers the adjacent end by ``λ``.

*Short rows* are solved in tiles. With ``λ`` added to both ends of the row, every run of ``S`` has
two ends that cost ``λ``; in ``T = t + 2 λ`` the maximum is that of ``Σ_S (x_j - T)`` and ``2 λ``
for each entry of ``S`` directly after another. One pass over the candidates finds it and the size
of ``S``, which give Newton's step towards ``τ``, from a lower bound: the threshold of sparsemax for
the lane maxima. Then the runs of ``S`` are split: if the levels of a run are not all equal, some
are above the mean ``m`` of its heights ``v``, and ``{y > m}`` is the set of the largest
``Σ (v_j - m) - λ |∂|``. As the upper side of a split is known, the heights beside it are moved by
``λ`` towards each other, after which the parts are independent.

*Other rows*, and those not solved in a tile, are solved by the linear algorithm of ``segments.py``
in double precision. Its candidates are above a bound of the threshold: as a set has at most twice
as many ends as entries, ``τ`` is at least that of sparsemax less ``2 λ``.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from repro.mappings.kernels.cpu import blocks, simd
from repro.mappings.kernels.cpu.compile import allocating, inline
from repro.mappings.kernels.cpu.entmax_solver import COARSE, descend
from repro.mappings.kernels.cpu.segments import sweep, trace_back

LEAST, MOST = 1e-5, 0.5
"""Range of ``λ`` for tiles: below, float32 does not resolve ties; above, shares lose digits."""
_PASSES = 64  # bounds the loop of Newton's method, in which T rises in every step
_LEVEL_PASSES = 200  # likewise, in double precision
_STEPS = 2
"""Newton steps for the bound of the threshold; more would exclude few more entries."""
_MARGIN = 1e-6  # relative: more than the rounding of a limit in float32
_ROUNDS = 24
"""Depth of nested splits after which a row is left to the linear algorithm."""


class Tile(NamedTuple):
    """Workspace for short rows."""

    block: Any  # heights ``x - max x``, column by column, and values per row
    rank_lists: Any  # positions of candidates among the allowed entries of the row, row by row
    ranks: Any  # ``rank_lists``, column by column
    bonuses: Any  # ``2 λ`` where candidates are adjacent; later 1 where linked to the one before
    insides: Any  # best sums over sets that end with an entry, one column later; later levels
    bests: Any  # best sums over sets that end with an entry or before; later scratch for splits
    positions: Any  # the integers from zero on
    lasts: Any  # the rank of the last allowed entry of each row


class Line(NamedTuple):
    """Workspace for one row in double precision."""

    times: Any  # this and the next four are the arguments of ``sweep`` in ``segments.py``
    knots_at: Any
    knots: Any
    lows: Any
    highs: Any
    heights: Any  # listed entries relative to the largest
    gaps: Any  # whether unlisted allowed entries lie before each listed one, and after the last
    levels: Any  # means of segments
    sizes: Any  # lengths of segments
    ones: Any  # unit weights of entries
    jumps: Any  # where the level of a piece rises and falls
    places: Any  # positions of the listed entries
    segments: Any  # segment of each listed entry


@allocating
def new_tile(rows):
    """Allocate the workspace for short rows; for long rows it is not usable."""
    block = blocks.new_block(rows, rows, rows.shape[1] <= blocks.TILED)
    memory = np.empty((5, block.w.shape[0]), rows.dtype)
    positions = np.empty(blocks.stride_of(rows), rows.dtype)
    for j in range(positions.shape[0]):
        positions[j] = j
    return Tile(
        block, memory[0], memory[1], memory[2], memory[3], memory[4], positions,
        np.zeros(blocks.width_of(rows), rows.dtype),
    )  # fmt: skip


@allocating
def new_line(rows):
    """Allocate the workspace for one row."""
    n = rows.shape[1]
    reals = np.empty((10, 2 * n + 1))
    integers = np.empty((3, n + 2 * blocks.width_of(rows)), np.int32)
    reals[9, :] = 1.0
    return Line(
        reals[0], reals[1], reals[2], reals[3], reals[4], reals[5], reals[6], reals[7], reals[8],
        reals[9], integers[0], integers[1], integers[2],
    )  # fmt: skip


# Short rows


@inline
def _take(tile, rows, first, last):
    """Fill the tile with candidates and their ranks; return the number of columns."""
    block, ranks, positions = tile.block, tile.rank_lists, tile.positions
    width, stride = blocks.width_of(block.w), blocks.stride_of(rows)
    columns, size = 0, rows.shape[1]
    lowest = -np.finfo(rows.dtype).max
    for k in range(width):
        row, taken, seen = rows[min(first + k, last)], k * stride, 0
        top, limit = block.tops[k], block.limits[k]
        for j in range(0, size, width):
            entries = simd.load_first(row, j, size - j, -np.inf)
            here, w = entries - top > lowest, blocks.candidate(entries, top, 1.0)
            above = w > limit
            simd.store(block.lists, taken, simd.compress(w, above))
            simd.store(ranks, taken, simd.compress(simd.expand(positions, seen, here), above))
            taken, seen = taken + simd.count(above), seen + simd.count(here)
        block.ends[k] = taken
        tile.lasts[k] = rows.dtype.type(seen - 1)
        columns = max(columns, block.ends[k] - k * stride)
    columns = (columns + blocks.LINE - 1) // blocks.LINE * blocks.LINE
    blocks.transpose_lists(block, block.lists, stride, columns, lowest, block.w)
    for j in range(0, columns, width):
        simd.transpose(ranks, j, stride, tile.ranks, j * width, width)
    return columns


@inline
def _link(heights, ranks, columns, lasts, lam, bonuses):
    """Raise the ends of the rows by ``λ``; write ``2 λ`` where an entry directly follows another.

    With this, ``λ |∂S|`` is ``2 λ`` for every run of ``S``: ``2 λ |S|`` less the bonuses in ``S``.
    Past the last candidate of a row, ranks are meaningless but harmless.
    """
    width, before = blocks.width_of(heights), simd.splat(heights.dtype.type(-2))
    for k in range(0, columns * width, width):
        rank = simd.load(ranks, k)
        raised = simd.where(rank == 0.0, lam, 0.0) + simd.where(rank == lasts, lam, 0.0)
        simd.store(heights, k, simd.load(heights, k) + raised)
        simd.store(bonuses, k, simd.where(rank - before == 1.0, 2.0 * lam, 0.0))
        before = rank


@inline
def _ascend(heights, bonuses, columns, level, enough, insides, bests):
    """Return ``T = t + 2 λ`` of every lane, with an excess mass of at most ``enough``.

    Also return the Newton step that is not taken any more.

    Newton's steps ``(Σ_S (x_j - T) + bonuses - 1) / |S|``, ``S`` the best set at ``T``, ascend.
    ``T`` stays below the root by more than its rounding: just above the root, entries tied at the
    threshold would leave ``S`` and never return.

    Also store, one column later, the maxima over sets that end with each candidate, and over those
    that end with it or before.
    """
    width, below = blocks.width_of(heights), 2.0 * np.finfo(heights.dtype).eps
    step = zero = simd.zeros_like(level)
    simd.store(insides, 0, zero)
    simd.store(bests, 0, zero)
    for _ in range(_PASSES):
        inside = best = inside_size = best_size = zero
        for k in range(0, columns * width, width):
            joined = inside + simd.load(bonuses, k)
            longer = joined > best
            inside = simd.where(longer, joined, best) + (simd.load(heights, k) - level)
            inside_size = simd.where(longer, inside_size, best_size) + 1.0
            better = inside > best
            best = simd.where(better, inside, best)
            best_size = simd.where(better, inside_size, best_size)
            simd.store(insides, k + width, inside)
            simd.store(bests, k + width, best)
        # The maximum is the mass, and the size of the maximizing set the slope.
        step = (best - 1.0) / best_size
        higher = (level + step) - below
        moves = (best > 1.0 + enough) & (higher > level)
        if simd.count(moves) == 0:
            break
        level = simd.where(moves, higher, level)
    return level, step


@inline
def _trace_back_set(heights, bonuses, columns, level, lam, insides, bests):
    """Replace candidates by their heights above ``t``, less ``λ`` at the ends of runs of ``S``.

    Bonuses become links: one where an entry of ``S`` directly follows another. Heights of entries
    outside ``S`` become -1, which gets no share.

    Returns:
        The lanes with links.
    """
    width = blocks.width_of(heights)
    after = linked = level < level
    for k in range((columns - 1) * width, -1, -width):
        before = simd.load(bests, k)
        member = after | (simd.load(insides, k + width) > before)
        joined = member & (simd.load(insides, k) + simd.load(bonuses, k) > before)
        inner = simd.where(joined, lam, 0.0) + simd.where(after, lam, 0.0)
        simd.store(heights, k, simd.where(member, (simd.load(heights, k) - level) + inner, -1.0))
        simd.store(bonuses, k, simd.where(joined, 1.0, 0.0))
        linked, after = linked | joined, joined
    return linked


@inline
def _share_out(levels, links, ranks, columns, step):
    """Convert levels to probabilities and label each segment by the rank of its first entry.

    ``step``, the last Newton correction of ``τ``, is subtracted from the small levels, which keeps
    its digits.

    Returns:
        ``Σ p - 1``, and the size of the support.
    """
    width, zero = blocks.width_of(levels), simd.zeros_like(step)
    excess, lost, size, leader = zero - 1.0, zero, zero, zero
    for k in range(0, columns * width, width):
        share = simd.maximum(simd.load(levels, k) - step, 0.0)
        leader = simd.where(simd.load(links, k) > 0.0, leader, simd.load(ranks, k))
        simd.store(levels, k, share)
        simd.store(ranks, k, leader)
        size += simd.where(share > 0.0, 1.0, 0.0)
        # Compensated summation by the two-sum algorithm: a share may be larger than the sum.
        larger = excess + share
        part = larger - excess
        lost += (excess - (larger - part)) + (share - part)
        excess = larger
    return excess + lost, size


@inline
def _split(heights, links, columns, lam, means, spare):
    """Write the levels of linked heights, modifying these, and remove links where levels differ.

    Returns:
        The rows that need more splits.
    """
    width = blocks.width_of(heights)
    zero = simd.zeros_like(simd.load(heights, 0))
    none = split_rows = zero > zero
    for _ in range(_ROUNDS):
        # The mean of the run of each entry.
        mass = size = zero
        for k in range(0, columns * width, width):
            linked = simd.load(links, k) > 0.0
            mass = simd.where(linked, mass, 0.0) + simd.load(heights, k)
            size = simd.where(linked, size, 0.0) + 1.0
            simd.store(means, k, mass)
            simd.store(spare, k, size)
        mean, after = zero, none
        for k in range((columns - 1) * width, -1, -width):
            mean = simd.where(after, mean, simd.load(means, k) / simd.load(spare, k))
            simd.store(means, k, mean)
            after = simd.load(links, k) > 0.0
        # The sums e_k = clip(e_{k-1}, -λ, λ) + v_k - m along each run.
        found = zero
        for k in range(0, columns * width, width):
            found = simd.maximum(simd.minimum(found, lam), -lam)
            found = simd.where(simd.load(links, k) > 0.0, found, 0.0)
            found = found + (simd.load(heights, k) - simd.load(means, k))
            simd.store(spare, k, found)
        # Backwards along each run: an entry is in the upper set if its sum exceeds the threshold
        # given by the side of the next entry.
        after = upper = split_rows = none
        for k in range((columns - 1) * width, -1, -width):
            here = simd.load(spare, k) > simd.where(after, simd.where(upper, -lam, lam), 0.0)
            split = after & ((here & ~upper) | (upper & ~here))
            move = simd.where(split, simd.where(here, lam, -lam), 0.0)
            simd.store(heights, k, simd.load(heights, k) - move)
            simd.store(heights, k + width, simd.load(heights, k + width) + move)
            simd.store(links, k + width, simd.where(split, 0.0, simd.load(links, k + width)))
            after, upper, split_rows = simd.load(links, k) > 0.0, here, split_rows | split
        if simd.count(split_rows) == 0:
            break
    return split_rows


@inline
def _solve_tile(tile, rows, first, last, lam):
    """Fill the lists with shares and groups; the scale is zero for rows that are not solved."""
    block = tile.block
    width, stride = blocks.width_of(block.w), blocks.stride_of(rows)
    one = simd.splat(rows.dtype.type(1))
    simd.store(block.r_of_rows, 0, one)
    columns = blocks.take_lane_maxima(block, rows, first, last)
    peak = simd.load(block.peaks, 0)
    undone = (peak == math.inf) | (peak == -math.inf) | (simd.load(block.invalid, 0) > 0.0)
    blocks.center(block, columns)
    c, _ = descend(block, columns, one, True, COARSE)
    simd.store(block.limits, 0, c * -blocks.LOOSER - 4.0 * lam)
    columns = _take(tile, rows, first, last)
    heights, bonuses, insides, bests = block.w, tile.bonuses, tile.insides, tile.bests
    _link(heights, tile.ranks, columns, simd.load(tile.lasts, 0), lam, bonuses)
    rounding = np.finfo(rows.dtype).eps
    enough = math.sqrt(rounding) / 10.0
    level, step = _ascend(heights, bonuses, columns, -1.0 * c, enough, insides, bests)
    linked = _trace_back_set(heights, bonuses, columns, level, lam, insides, bests)
    if simd.count(linked) > 0:
        undone |= _split(heights, bonuses, columns, lam, insides, bests)
        for k in range(0, columns * width, width):
            simd.store(heights, k, simd.load(insides, k))
    excess, size = _share_out(heights, bonuses, tile.ranks, columns, step)
    surplus = excess / size
    for k in range(0, columns * width, width):
        share = simd.load(heights, k)
        simd.store(heights, k, simd.where(share > 0.0, simd.maximum(share - surplus, 0.0), 0.0))
    # A negative step means that T is above the root, where entries tied at the threshold are lost.
    near = (simd.magnitude(excess) <= 2.0 * rounding) & (step >= -0.25 * rounding)
    simd.store(block.scales, 0, simd.where(near & ~undone, 1.0, 0.0))
    for j in range(0, columns, width):
        simd.transpose(heights, j * width, width, block.lists, j, stride)
        simd.transpose(tile.ranks, j * width, width, tile.rank_lists, j, stride)


@inline
def _write(tile, k, rows, i, out, groups):
    """Write the shares and groups of row ``i``, the ``k``-th of a tile."""
    block, row, size, width = tile.block, rows[i], rows.shape[1], blocks.width_of(rows)
    top, limit, taken = block.tops[k], block.limits[k], k * blocks.stride_of(rows)
    for j in range(0, size, width):
        above = blocks.candidate(simd.load_first(row, j, size - j, -np.inf), top, 1.0) > limit
        simd.store_first(out, j, size - j, simd.expand(block.lists, taken, above))
        simd.store_first(groups, j, size - j, simd.expand(tile.rank_lists, taken, above))
        taken += simd.count(above)


# One row


@inline
def height_of(row, j, top):
    """Return an entry less ``top`` in double precision; infinities become the largest number."""
    largest = np.float64(np.finfo(row.dtype).max)
    return min(max(np.float64(row[j]), -largest), largest) - top


@inline
def blank(row, probs, groups):
    """Fill a row with zeros, or NaN; return its largest score, and whether the row is finished."""
    a, b, c, d, bad = blocks.lane_maxima(row)
    top = simd.highest(simd.maximum(simd.maximum(a, b), simd.maximum(c, d)))
    blocks.fill(probs, math.nan if bad > 0 else 0.0)
    groups[:] = 0
    largest = np.float64(np.finfo(row.dtype).max)
    return min(max(np.float64(top), -largest), largest), bad > 0 or top == -math.inf


@inline
def _list_above(row, limit, places):
    """List the positions of entries above a limit; return their number."""
    size, width, found = row.shape[0], blocks.width_of(row), 0
    for j in range(0, size, width):
        above = simd.load_first(row, j, size - j, -np.inf) > limit
        here = simd.count(above)
        if here > 0:  # rare in long rows
            simd.store_positions(places, found, j, above)
            found += here
    return found


@inline
def _narrowed(heights, places, count, lam):
    """Remove entries that cannot have mass; heights are scores less the largest.

    Returns:
        The number of entries left.
    """
    tau, kept = -1.0, 0
    for _ in range(_STEPS):
        # Newton's method for sparsemax, started from below, stays below the root.
        mass = size = 0.0
        for k in range(count):
            above = heights[k] - tau
            mass += above if above > 0.0 else 0.0
            size += 1.0 if above > 0.0 else 0.0
        tau += (mass - 1.0) / size
    lowest = tau - 4.0 * lam - 1e-12
    for k in range(count):
        height = heights[k]
        heights[kept], places[kept] = height, places[k]
        kept += height > lowest
    return kept


@inline
def _gaps_between(row, top, places, many, gaps):
    """Write 1 where unlisted allowed entries lie between, before or after the listed ones."""
    after, limit = 0, np.float64(np.finfo(row.dtype).max)
    for k in range(many + 1):
        place = places[k] if k < many else row.shape[0]
        gaps[k] = 0.0
        for j in range(after, place):
            if row[j] > -math.inf and height_of(row, j, top) > -limit:
                gaps[k] = 1.0
                break
        after = place + 1


@inline
def _add_segments(line, first, size, lam, found):
    """Write the level and length of every segment of a piece, and the segments of its entries.

    A level is the mean of ``v_j + λ (s_j - s_{j-1})``, ``s_j`` the sign of the jump after entry
    ``j``.
    Segments are numbered from ``found``; the next free number is returned.
    """
    before, mass, length = 0, 0.0, 0.0
    for k in range(size):
        mass, length = mass + line.heights[first + k], length + 1.0
        line.segments[first + k] = found
        if line.jumps[k] != 0 or k == size - 1:
            line.levels[found] = (mass + lam * (line.jumps[k] - before)) / length
            line.sizes[found] = length
            found, before, mass, length = found + 1, line.jumps[k], 0.0, 0.0
    return found


@inline
def _find_segments(line, many, lam):
    """Solve total variation of the listed entries, each contiguous piece separately."""
    found = first = 0
    for k in range(many):
        line.heights[k] -= lam * (line.gaps[k] + line.gaps[k + 1])
        if line.gaps[k + 1] > 0.0 or k == many - 1:
            size = k + 1 - first
            line.jumps[0] = 0
            if size > 1:
                level = sweep(
                    line.heights[first : k + 1], line.ones, size, lam, line.times, line.knots_at,
                    line.knots, line.lows, line.highs,
                )  # fmt: skip
                trace_back(level, size, line.lows, line.highs, line.jumps)
            found = _add_segments(line, first, size, lam, found)
            first = k + 1
    return found


@inline
def _simplex_level(levels, sizes, many):
    """Return ``τ`` with ``Σ n [y - τ]_+ = 1``, by Newton's method from below, and the sum.

    The largest level is subtracted from all of them first, and ``τ`` is relative to it.
    """
    top = levels[0]
    for k in range(many):
        top = levels[k] if levels[k] > top else top
    for k in range(many):
        levels[k] -= top
    tau = -1.0
    for _ in range(_LEVEL_PASSES):
        mass = support = 0.0
        for k in range(many):
            above = levels[k] - tau
            size = sizes[k] if above > 0.0 else 0.0
            mass += size * above
            support += size
        following = tau + (mass - 1.0) / support
        if not following > tau:
            break
        tau = following
    return tau, mass


@inline
def _solve_row(row, lam, line, probs, groups):
    """Compute fusedmax of one row; a group is numbered by the position of its first entry."""
    top, settled = blank(row, probs, groups)
    if settled:
        return
    places, floor = line.places, max(-(1.0 + 4.0 * lam), -np.float64(np.finfo(row.dtype).max))
    limit = row.dtype.type(top + floor - _MARGIN * (abs(top) - floor))
    found = _list_above(row, limit, places)
    for k in range(found):
        line.heights[k] = height_of(row, places[k], top)
    found = _narrowed(line.heights, places, found, lam)
    _gaps_between(row, top, places, found, line.gaps)
    segments = _find_segments(line, found, lam)
    (tau, mass), first = _simplex_level(line.levels, line.sizes, segments), 0
    for k in range(found):
        first = k if line.segments[k] != line.segments[first] else first
        share = (line.levels[line.segments[k]] - tau) / mass
        if share > 0.0:
            probs[places[k]], groups[places[k]] = share, places[first]


@inline
def solve_fusedmax(rows, lam, probs, groups, tile, line, start, stop):
    """Compute fusedmax of rows, and the segments of their entries."""
    block = tile.block
    tiled, group = block.in_lanes and LEAST <= lam <= MOST, blocks.width_of(block.w)
    for first in range(start, stop, group):
        end = min(first + group, stop)
        simd.store(block.scales, 0, simd.splat(rows.dtype.type(0)))
        if tiled:
            _solve_tile(tile, rows, first, end - 1, rows.dtype.type(lam))
        for i in range(first, end):
            if block.scales[i - first] > 0.0:
                _write(tile, i - first, rows, i, probs[i], groups[i])
            else:
                _solve_row(rows[i], lam, line, probs[i], groups[i])
