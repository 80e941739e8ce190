"""Fusedmax: total variation of the entries that can have mass, and its projection to the simplex.

Of the levels ``y`` of total variation only what lies above the threshold ``τ`` counts, and the set
``S = {y > t}`` minimizes ``Σ_S (t - x_j) + λ |∂S|`` (Niculae & Blondel 2017, Proposition 2, and the
coarea formula). An entry at or below ``t - 2 λ`` is not in it: without it the sum falls by at least
``2 λ``, and the boundary grows by at most two. No level is farther than ``2 λ`` from its score, so
``τ >= max x - 1 - 2 λ``; entries below ``max x - 1 - 4 λ`` are outside all these sets, and what
lies between them are problems of their own, in which each neighbour outside lowers an end by ``λ``.

*Short rows* are solved in tiles. With ``λ`` added to both ends of the row, every run of ``S`` has
two ends that cost ``λ``; in ``T = t + 2 λ`` the maximum is that of ``Σ_S (x_j - T)`` and ``2 λ``
for each entry of ``S`` that comes next after another. One pass over the candidates finds it, and
the size of ``S``, which is Newton's step towards ``τ``, from the threshold of the heads' sparsemax,
a lower bound. Then the runs of ``S`` are split: if the levels of a run are not all equal, some are
above the mean ``m`` of its heights ``v``, and ``{y > m}`` is the set of the largest
``Σ (v_j - m) - λ |∂|``. As the upper side of a split is known, the heights beside it are moved by
``λ`` towards each other, and the parts do not see each other any more.

*Other rows*, and those that are not done by then, take the linear algorithm of ``segments.py`` in
double precision. Its candidates are above a bound of the threshold: as a set has at most twice as
many ends as entries, ``τ`` is at least that of sparsemax less ``2 λ``.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from repro.mappings.kernels.cpu.blocks import (
    LINE,
    TILED,
    candidate,
    centre,
    fill,
    head_vectors,
    new_block,
    stride_of,
    take_heads,
    turn,
    width_of,
)
from repro.mappings.kernels.cpu.compile import allocating, inline
from repro.mappings.kernels.cpu.entmax_solver import descend
from repro.mappings.kernels.cpu.segments import sweep, trace_back
from repro.mappings.kernels.cpu.simd import (
    compress,
    count,
    expand,
    highest,
    load,
    load_first,
    magnitude,
    maximum,
    splat,
    store,
    store_first,
    store_positions,
    transpose,
    where,
)

LEAST, MOST = 1e-5, 0.5
"""Tiles are used for such ``λ``.

Below, float32 does not tell ties; above, ``λ`` takes digits of shares.
"""
_COARSE = 1e-2
_LOOSER = 1.0 + 1e-6
_PASSES = 64
_LEVEL_PASSES = 200
_STEPS = 2
"""Newton steps for the bound of the threshold; more leave out few more entries."""
_MARGIN = 1e-6


class Tile(NamedTuple):
    """Workspace for short rows.

    Attributes:
        block: heights ``x - max x``, column by column, and numbers of the rows.
        rank_lists: their positions among the allowed entries of the row, row by row.
        ranks: the same, column by column.
        bonuses: ``2 λ`` where an entry comes next after another, or 1 where it is linked to it.
        insides: best sums over sets that end with an entry, one column later, or levels.
        bests: best sums over sets that end with it or before, or differences.
        positions: numbers from zero on.
        lasts: the rank of the last allowed entry of each row.
    """

    block: Any
    rank_lists: Any
    ranks: Any
    bonuses: Any
    insides: Any
    bests: Any
    positions: Any
    lasts: Any


class Line(NamedTuple):
    """Workspace for one row in double precision; the first five are those of ``segments.py``."""

    times: Any
    knots_at: Any
    knots: Any
    lows: Any
    highs: Any
    heights: Any
    gaps: Any
    levels: Any
    sizes: Any
    ones: Any
    jumps: Any
    places: Any
    segments: Any


@allocating
def new_tile(rows):
    """Workspace for short rows; of no use for long ones."""
    block = new_block(rows, rows, rows.shape[1] <= TILED)
    memory = np.empty((5, block.w.shape[0]), rows.dtype)
    positions = np.empty(stride_of(rows), rows.dtype)
    for j in range(positions.shape[0]):
        positions[j] = j
    return Tile(
        block, memory[0], memory[1], memory[2], memory[3], memory[4], positions,
        np.zeros(width_of(rows), rows.dtype),
    )  # fmt: skip


@allocating
def new_line(rows):
    """Workspace for one row."""
    n = rows.shape[1]
    reals, integers = np.empty((10, 2 * n + 1)), np.empty((3, n + 2 * width_of(rows)), np.int32)
    reals[9, :] = 1.0
    return Line(
        reals[0], reals[1], reals[2], reals[3], reals[4], reals[5], reals[6], reals[7], reals[8],
        reals[9], integers[0], integers[1], integers[2],
    )  # fmt: skip


# Short rows


@inline
def _keep(entries, top, limit, lowest, positions, seen, lists, ranks, taken):
    """Append what is above a limit, and its ranks; return both counts."""
    here, w = entries - top > lowest, candidate(entries, top, 1.0)
    above = w > limit
    store(lists, taken, compress(w, above))
    store(ranks, taken, compress(expand(positions, seen, here), above))
    return taken + count(above), seen + count(here)


@inline
def _gather(row, top, limit, lowest, positions, lists, ranks, taken):
    """List what is above a limit, less the largest, and its ranks among the allowed entries.

    Returns:
        The end of the lists, and how many entries are allowed.
    """
    size, step, seen = row.shape[0], width_of(row), 0
    whole = size // step * step
    for j in range(0, whole, step):
        taken, seen = _keep(
            load(row, j), top, limit, lowest, positions, seen, lists, ranks, taken
        )  # fmt: skip
    rest = load_first(row, whole, size - whole, row.dtype.type(-np.inf))
    return _keep(rest, top, limit, lowest, positions, seen, lists, ranks, taken)


@inline
def _take(tile, rows, first, last):
    """Fill the tile with candidates and their ranks; return how many columns there are."""
    block = tile.block
    width, stride, columns = width_of(block.w), stride_of(rows), 0
    lowest = -np.finfo(rows.dtype).max
    for k in range(width):
        row = rows[min(first + k, last)]
        block.ends[k], seen = _gather(
            row, block.tops[k], block.limits[k], lowest, tile.positions, block.lists,
            tile.rank_lists, k * stride,
        )  # fmt: skip
        tile.lasts[k] = rows.dtype.type(seen - 1)
        columns = max(columns, block.ends[k] - k * stride)
    columns = (columns + LINE - 1) // LINE * LINE
    turn(block, block.lists, stride, columns, lowest, block.w)
    for j in range(0, columns, width):
        transpose(tile.rank_lists, j, stride, tile.ranks, j * width, width)
    return columns


@inline
def _link(tile, ranks, columns, lasts, lam, bonuses):
    """Raise the ends of the rows by ``λ``; write ``2 λ`` where an entry comes next after another.

    Past the last candidate of a row, ranks are of no use, and do no harm.
    """
    width, before, zero = width_of(tile), splat(tile.dtype.type(-2)), splat(tile.dtype.type(0))
    for k in range(0, columns * width, width):
        rank = load(ranks, k)
        raised = where(rank == 0.0, zero + lam, zero) + where(rank == lasts, zero + lam, zero)
        store(tile, k, load(tile, k) + raised)
        store(bonuses, k, where(rank - before == 1.0, zero + 2.0 * lam, zero))
        before = rank


@inline
def _gains(tile, bonuses, columns, level, insides, bests):
    """The maximum, and the size of ``S``.

    Also writes, one column later, the maxima over sets that end with each candidate, and over
    those that end with it or before.
    """
    width, one = width_of(tile), splat(tile.dtype.type(1))
    inside = best = inside_size = best_size = level - level
    store(insides, 0, inside)
    store(bests, 0, best)
    for k in range(0, columns * width, width):
        joined = inside + load(bonuses, k)
        longer = joined > best
        inside = where(longer, joined, best) + (load(tile, k) - level)
        inside_size = where(longer, inside_size, best_size) + one
        better = inside > best
        best, best_size = where(better, inside, best), where(better, inside_size, best_size)
        store(insides, k + width, inside)
        store(bests, k + width, best)
    return best, best_size


@inline
def _ascend(tile, bonuses, columns, level, enough, insides, bests):
    """``T`` of every lane up to an excess mass, from below, and the step that is left to take.

    ``T`` stays below the root by more than its rounding: just above it, entries tied at the
    threshold would be out of ``S``, and nothing would bring them back.
    """
    step, below = level - level, 2.0 * np.finfo(tile.dtype).eps
    for _ in range(_PASSES):
        mass, size = _gains(tile, bonuses, columns, level, insides, bests)
        step = (mass - 1.0) / size
        higher = (level + step) - below
        moves = (mass > 1.0 + enough) & (higher > level)
        if count(moves) == 0:
            break
        level = where(moves, higher, level)
    return level, step


@inline
def _trace_back_set(tile, bonuses, columns, level, lam, insides, bests):
    """Replace candidates by their heights above ``t``, less ``λ`` at the ends of runs of ``S``.

    Bonuses become links: one where an entry of ``S`` comes next after another. What is not in ``S``
    is far below.

    Returns:
        Where there are links.
    """
    width, zero = width_of(tile), level - level
    after = linked = zero > zero
    for k in range((columns - 1) * width, -1, -width):
        before = load(bests, k)
        member = after | (load(insides, k + width) > before)
        joined = member & (load(insides, k) + load(bonuses, k) > before)
        inner = where(joined, zero + lam, zero) + where(after, zero + lam, zero)
        store(tile, k, where(member, (load(tile, k) - level) + inner, -1.0))
        store(bonuses, k, where(joined, zero + 1.0, zero))
        linked, after = linked | joined, joined
    return linked


@inline
def _added(total, lost, term):
    """A sum and what rounding has taken from it, with one more term."""
    larger = total + term
    part = larger - total
    return larger, lost + ((total - (larger - part)) + (term - part))


@inline
def _share_out(levels, links, ranks, columns, step):
    """Replace levels by shares, and ranks by those of the first entries of segments.

    What is left of ``T`` takes part in small differences only.

    Returns:
        By how much the sum of the shares exceeds one, and how many are positive.
    """
    width, zero = width_of(levels), step - step
    excess, lost, size, leader = zero - 1.0, zero, zero, zero
    for k in range(0, columns * width, width):
        share = maximum(load(levels, k) - step, 0.0)
        leader = where(load(links, k) > 0.0, leader, load(ranks, k))
        store(levels, k, share)
        store(ranks, k, leader)
        excess, lost = _added(excess, lost, share)
        size += where(share > 0.0, zero + 1.0, zero)
    return excess + lost, size


@inline
def _settle(shares, columns, excess):
    """Lower positive shares by so much, so that they sum to one."""
    width = width_of(shares)
    for k in range(0, columns * width, width):
        share = load(shares, k)
        store(shares, k, where(share > 0.0, maximum(share - excess, 0.0), 0.0))


# Runs


_ROUNDS = 24
"""Splits, one inside the other, after which a row is left to the linear algorithm."""


@inline
def _means(heights, links, columns, zero, means, sizes):
    """Write the mean of the run of each entry."""
    width, mass, size = width_of(heights), zero, zero
    for k in range(0, columns * width, width):
        linked = load(links, k) > 0.0
        mass = where(linked, mass, zero) + load(heights, k)
        size = where(linked, size, zero) + 1.0
        store(means, k, mass)
        store(sizes, k, size)
    mean, after = zero, zero > zero
    for k in range((columns - 1) * width, -1, -width):
        mean = where(after, mean, load(means, k) / load(sizes, k))
        store(means, k, mean)
        after = load(links, k) > 0.0


@inline
def _differences(heights, links, columns, zero, lam, means, differences):
    """Write the sums ``e_k = clip(e_{k-1}, -λ, λ) + v_k - m`` along each run."""
    width, found = width_of(heights), zero
    for k in range(0, columns * width, width):
        found = maximum(where(found < lam, found, zero + lam), -lam)
        found = where(load(links, k) > 0.0, found, zero)
        found = found + (load(heights, k) - load(means, k))
        store(differences, k, found)


@inline
def _cut(heights, links, columns, zero, lam, differences):
    """Split runs; return where one was split."""
    width = width_of(heights)
    after = upper = any_cut = zero > zero
    for k in range((columns - 1) * width, -1, -width):
        bound = where(after, where(upper, zero - lam, zero + lam), zero)
        here = load(differences, k) > bound
        split = after & ((here & ~upper) | (upper & ~here))
        move = where(split, where(here, zero + lam, zero - lam), zero)
        store(heights, k, load(heights, k) - move)
        store(heights, k + width, load(heights, k + width) + move)
        store(links, k + width, where(split, zero, load(links, k + width)))
        after, upper, any_cut = load(links, k) > 0.0, here, any_cut | split
    return any_cut


@inline
def _split(heights, links, columns, lam, zero, means, spare):
    """Write the levels of linked heights, and keep the links of those that are tied.

    Args:
        heights: of the rows of a tile; get moved.
        links: positive where an entry is in the same run as the one before.
        columns: how many.
        lam: ``λ``.
        zero: zeros in all lanes.
        means: room for the levels.
        spare: more room.

    Returns:
        Which lanes are not done.
    """
    open_lanes = zero > zero
    for _ in range(_ROUNDS):
        _means(heights, links, columns, zero, means, spare)
        _differences(heights, links, columns, zero, lam, means, spare)
        open_lanes = _cut(heights, links, columns, zero, lam, spare)
        if count(open_lanes) == 0:
            break
    return open_lanes


@inline
def _solve_tile(tile, rows, first, last, lam):
    """Fill lists with shares and groups; mark rows that are to be solved in another way by NaN."""
    block = tile.block
    width, stride, one = width_of(block.w), stride_of(rows), splat(rows.dtype.type(1))
    block.orders[:] = 1.0
    columns = take_heads(block, rows, first, last)
    peak = load(block.peaks, 0)
    undone = (peak == math.inf) | (peak == -math.inf) | (load(block.bads, 0) > 0.0)
    centre(block, columns)
    c, _ = descend(block, columns, one, True, _COARSE)
    store(block.limits, 0, c * -_LOOSER - 4.0 * lam)
    columns = _take(tile, rows, first, last)
    heights, bonuses, insides, bests = block.w, tile.bonuses, tile.insides, tile.bests
    _link(heights, tile.ranks, columns, load(tile.lasts, 0), lam, bonuses)
    enough = math.sqrt(np.finfo(rows.dtype).eps) / 10.0
    level, step = _ascend(heights, bonuses, columns, -1.0 * c, enough, insides, bests)
    linked = _trace_back_set(heights, bonuses, columns, level, lam, insides, bests)
    if count(linked) > 0:
        zero = level - level
        undone = undone | _split(heights, bonuses, columns, lam, zero, insides, bests)
        for k in range(0, columns * width, width):
            store(heights, k, load(insides, k))
    excess, size = _share_out(heights, bonuses, tile.ranks, columns, step)
    _settle(heights, columns, excess / size)
    rounding = np.finfo(rows.dtype).eps
    # A step back means that T is above the root, where what is tied at the threshold is missing.
    near = (magnitude(excess) <= 2.0 * rounding) & (step >= -0.25 * rounding)
    store(block.scales, 0, where(near & ~undone, one, 0.0))
    for j in range(0, columns, width):
        transpose(heights, j * width, width, block.lists, j, stride)
        transpose(tile.ranks, j * width, width, tile.rank_lists, j, stride)


@inline
def _write(row, top, limit, lists, ranks, taken, out, groups):
    """Write the shares of candidates and their groups."""
    size, step = row.shape[0], width_of(row)
    whole = size // step * step
    for j in range(0, whole, step):
        above = candidate(load(row, j), top, 1.0) > limit
        store(out, j, expand(lists, taken, above))
        store_first(groups, j, step, expand(ranks, taken, above))
        taken += count(above)
    rest = load_first(row, whole, size - whole, row.dtype.type(-np.inf))
    above = candidate(rest, top, 1.0) > limit
    store_first(out, whole, size - whole, expand(lists, taken, above))
    store_first(groups, whole, size - whole, expand(ranks, taken, above))


# One row


@inline
def height_of(row, j, top):
    """An entry relative to another, in double precision; infinite ones are the largest number."""
    largest = np.float64(np.finfo(row.dtype).max)
    return min(max(np.float64(row[j]), -largest), largest) - top


@inline
def blank(row, probs, groups):
    """Fill a row with zeros, or NaN; return its largest entry, and whether that is all."""
    a, b, c, d, bad = head_vectors(row)
    top = highest(maximum(maximum(a, b), maximum(c, d)))
    fill(probs, math.nan if bad > 0 else 0.0)
    groups[:] = 0
    largest = np.float64(np.finfo(row.dtype).max)
    return min(max(np.float64(top), -largest), largest), bad > 0 or top == -math.inf


@inline
def _list_above(row, limit, places):
    """List the positions of entries above a limit; return how many."""
    size, width, found = row.shape[0], width_of(row), 0
    whole = size // width * width
    for j in range(0, whole, width):
        above = load(row, j) > limit
        here = count(above)
        if here > 0:  # rare in long rows
            store_positions(places, found, j, above)
            found += here
    above = load_first(row, whole, size - whole, row.dtype.type(-np.inf)) > limit
    store_positions(places, found, whole, above)
    return found + count(above)


@inline
def _reaching(row, top, floor, heights, places):
    """List the entries above a floor, relative to the top; return how many."""
    limit = row.dtype.type(top + floor - _MARGIN * (abs(top) - floor))
    found = _list_above(row, limit, places)
    for k in range(found):
        heights[k] = height_of(row, places[k], top)
    return found


@inline
def _narrowed(heights, places, count, lam):
    """Keep of lists what can have mass; return how many.

    Args:
        heights: scores less the largest; all that are above ``-1 - 4 λ``.
        places: their positions.
        count: how many.
        lam: ``λ``.
    """
    tau, kept = -1.0, 0
    for _ in range(_STEPS):
        # Newton's method for sparsemax from below stays below.
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
def _allowed(row, top, start, stop):
    """Whether an entry between two positions is allowed."""
    limit = np.float64(np.finfo(row.dtype).max)
    for j in range(start, stop):  # noqa: SIM110  numba has no any() of a generator
        if row[j] > -math.inf and height_of(row, j, top) > -limit:
            return True
    return False


@inline
def _gaps_between(row, top, places, many, gaps):
    """Write 1 where allowed entries lie between two that are listed, or before, or after them."""
    after = 0
    for k in range(many + 1):
        place = places[k] if k < many else row.shape[0]
        gaps[k] = 1.0 if place > after and _allowed(row, top, after, place) else 0.0
        after = place + 1


@inline
def _segments(line, first, size, lam, found):
    """Write the mean of every segment, its length, and the segments of the entries.

    Segments are numbered from ``found``; returned is the next number.
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
def _pieces(line, many, lam):
    """Total variation of the listed entries, those apart from each other on their own."""
    found = first = 0
    for k in range(many):
        line.heights[k] -= lam * (line.gaps[k] + line.gaps[k + 1])
        if line.gaps[k + 1] > 0.0 or k == many - 1:
            size = k + 1 - first
            if size == 1:
                line.jumps[0] = 0
            else:
                level = sweep(
                    line.heights[first : k + 1], line.ones, size, lam, line.times, line.knots_at,
                    line.knots, line.lows, line.highs,
                )  # fmt: skip
                trace_back(level, size, line.lows, line.highs, line.jumps)
            found = _segments(line, first, size, lam, found)
            first = k + 1
    return found


@inline
def _simplex_level(levels, sizes, many):
    """``τ`` with ``Σ n [y - τ]_+ = 1``, by Newton's method from below, and the sum.

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
    """Fusedmax of a row; a group has the number of its first entry."""
    top, settled = blank(row, probs, groups)
    if settled:
        return
    floor = max(-(1.0 + 4.0 * lam), -np.float64(np.finfo(row.dtype).max))
    found = _reaching(row, top, floor, line.heights, line.places)
    found = _narrowed(line.heights, line.places, found, lam)
    _gaps_between(row, top, line.places, found, line.gaps)
    runs = _pieces(line, found, lam)
    (tau, mass), first = _simplex_level(line.levels, line.sizes, runs), 0
    for k in range(found):
        first = k if line.segments[k] != line.segments[first] else first
        share = (line.levels[line.segments[k]] - tau) / mass
        if share > 0.0:
            probs[line.places[k]], groups[line.places[k]] = share, line.places[first]


@inline
def solve_fusedmax(rows, lam, probs, groups, tile, line, start, stop):
    """Fusedmax of rows, and the segments of their entries."""
    block, stride = tile.block, stride_of(rows)
    tiled = block.in_lanes and LEAST <= lam <= MOST
    group = width_of(block.w)
    for first in range(start, stop, group):
        end = min(first + group, stop)
        block.scales[:] = 0.0
        if tiled:
            _solve_tile(tile, rows, first, end - 1, rows.dtype.type(lam))
        for i in range(first, end):
            k = i - first
            if block.scales[k] > 0.0:
                _write(
                    rows[i], block.tops[k], block.limits[k], block.lists, tile.rank_lists,
                    k * stride, probs[i], groups[i],
                )  # fmt: skip
            else:
                _solve_row(rows[i], lam, line, probs[i], groups[i])
