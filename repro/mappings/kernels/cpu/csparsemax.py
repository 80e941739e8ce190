"""Csparsemax and budget: ``p = clip(z - τ, 0, u)`` that sums to a total (Malaviya et al. 2018).

The sum is piecewise linear and decreasing in ``τ``. Under many small bounds it looks like a smooth
curve from afar, and like a line only very close to the root:

- *Start.* If bounds sum to at most 20 times the total, the scores, weighted by their bounds, are
  taken for normal, and ``τ`` begins at a quantile; the density there says how far the root may be.
  Otherwise few bounds are met, and ``τ`` begins at what is right if one entry gets everything.
- *Steps.* Three steps on whole rows find both sides of the root. Then only entries that the bracket
  leaves undecided stay in the block, a tenth of the row or less. Steps are Newton's, exact on the
  last piece, if the last step has left less than half of the residual, otherwise those of Anderson
  and Björck (1973) on the chord of the bracket.
- *Stop.* When the residual is below ``sqrt(eps) / 4``, one Newton step is left. ``τ`` is split into
  a number next to it, from which scores differ by amounts that are rounded once, and a small rest,
  which is corrected until the compensated sum is right.

A float32 row that is not right then is solved again in double precision. There, the scores may be
so far from each other that ``τ`` has no digits left relative to the largest; it is then sought
relative to the lowest score above it, which is found by bisection of the scores.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from repro.mappings.kernels.cpu.blocks import LINE, along_row, stride_of, turn, width_of
from repro.mappings.kernels.cpu.bounded_blocks import write_bounded
from repro.mappings.kernels.cpu.compile import inline
from repro.mappings.kernels.cpu.elementary import exponential
from repro.mappings.kernels.cpu.simd import (
    compress,
    count,
    highest,
    load,
    magnitude,
    maximum,
    minimum,
    splat,
    sqrt,
    store,
    where,
    wide_total,
)

_LOOSE = 20.0
"""Where bounds sum to more than so many times the total, few are met."""
_DENSE, _PASSES = 3, 100
"""Steps on whole rows, and at most after them on undecided entries."""
_ENDINGS = 6
"""Corrections of the rest; one or two are enough unless it meets a kink."""
_BASES = 2
"""Numbers relative to which ``τ`` is sought: the largest score and the one next above it."""
_MARGIN = 16.0
"""Roundings by which an entry must be away from what would decide it."""
_STRICT = 0.1
"""Share of the tolerance that holds for the first sum; later ones may have rounded entries."""
_SLOW = 0.5
"""Newton's step is taken only after one that left less of the residual."""
_LEAST = 0.1
"""Smallest factor by which the residual of the retained end of the bracket is scaled."""
_REACH, _FARTHER = 2.0, 3.0
"""The root is sought so much farther than it seems to be, and than the last time."""
_NORMAL = 1.0 / math.sqrt(2.0 * math.pi)
_DEEPEST = -80.0
_FARTHEST = 1e15
"""Keeps the squares of heights finite."""


@inline
def _residual(block, w, u, columns, base, tau, fixed, total):
    """``Σ clip(z - base - τ, 0, u)`` less the total; how many entries are strictly inside.

    What is fixed is the sum of bounds that are met, in two parts.
    """
    width, zero = width_of(w), base - base
    mass = lost = free = zero
    if block.in_lanes:
        mass, lost = fixed
    for k in range(0, columns * width, width):
        above, bound = (load(w, k) - base) - tau, load(u, k)
        kept = maximum(above, 0.0)
        kept = where(kept < bound, kept, bound)
        free += where((above > 0.0) & (above < bound), zero + 1.0, zero)
        larger = mass + kept
        lost += (mass - larger) + kept
        mass = larger
    if block.in_lanes:
        return (mass - total) + lost, free
    exact = wide_total(mass) + wide_total(lost) + highest(fixed[0]) + highest(fixed[1])
    return splat(w.dtype.type(exact - highest(total))), along_row(block, free)


@inline
def _moments(block, columns, base, total):
    """Mean and variance of the heights, weighted by their bounds."""
    width = width_of(block.w)
    first = second = weight = base - base
    for k in range(0, columns * width, width):
        height = maximum(load(block.w, k) - base, -_FARTHEST)
        bound = minimum(load(block.u, k), total)
        weight += bound
        first += bound * height
        second += bound * height * height
    weight = along_row(block, weight)
    mean = along_row(block, first) / weight
    return mean, maximum(along_row(block, second) / weight - mean * mean, 0.0)


@inline
def _normal_quantile(odds):
    """Close to the standard normal's quantile of ``(1 + odds) / 2``: a rational approximation."""
    square = odds * odds
    return odds * (1.2533 - 0.537 * square) / (1.0 - 0.6818 * square)


@inline
def _start(block, columns, size, top, room, total):
    """``τ`` relative to the top, and how far it may be off.

    Returns:
        ``τ``; the change of ``τ`` for a unit of missing mass; the least change that is tried; where
        bounds are tight.
    """
    mean, variance = _moments(block, columns, top, total)
    deviation, tight = sqrt(variance), room <= _LOOSE * total
    quantile = _normal_quantile(1.0 - 2.0 * total / room)
    # Equal scores have no deviation; the total spread evenly is then the scale.
    guess, least = mean + deviation * quantile, maximum(deviation, 0.1 * total) * (1.0 / size)
    guess = where(guess < 0.0, guess, -0.125 * deviation - least)
    density = _NORMAL * exponential(maximum(-0.5 * quantile * quantile, _DEEPEST))
    flatness = _REACH * deviation / (room * density)
    loose = where(total < 1.0, -1.0 * total, -1.0)
    return where(tight, guess, loose), where(tight, flatness, 0.0), where(tight, least, 1.0), tight


class _Search(NamedTuple):
    """State of the search for ``τ``: a bracket, what is known of it, and which rows move.

    ``reach`` is how far the other side of the root was last looked for, ``ceiling`` the first upper
    bound, ``flatness`` and ``least`` say how far the root may be, ``loose`` where few bounds are
    met: there the ceiling is taken for an end of the bracket.
    """

    low: Any
    high: Any
    more: Any
    less: Any
    side: Any
    last: Any
    reach: Any
    moves: Any
    ceiling: Any
    flatness: Any
    least: Any
    loose: Any


@inline
def _outward(tau, positive, search, size):
    """A point on the other side of the root, as far as is known, and how far it is."""
    step = search.flatness * size + search.least
    reach = where(search.reach > 0.0, _FARTHER * search.reach, step)
    up, half = tau + reach, 0.5 * (tau + search.ceiling)
    return where(positive, where(up < half, up, half), tau - reach), reach


@inline
def _inward(low, high, more, less, newton, fast):
    """A point in the bracket: Newton's, if the last was good; on the chord; the middle."""
    chord = low + (high - low) * (more / (more - less))
    chord = where((low < chord) & (chord < high), chord, 0.5 * (low + high))
    return where(fast & (low < newton) & (newton < high), newton, chord)


@inline
def _move(tau, residual, free, search, enough):
    """The step of every row that moves, and the state after it."""
    size, positive = magnitude(residual), residual > 0.0
    newton = tau + residual / free
    # An end that stays for the second time counts less.
    share = 1.0 - residual / where(positive, search.more, search.less)
    share = where(share > _LEAST, share, 0.5)
    side = where(positive, size - size + 1.0, -1.0)
    share = where(search.side == side, share, 1.0)
    more = where(positive, residual, search.more * share)
    less = where(positive, search.less * share, residual)
    low, high = where(positive, tau, search.low), where(positive, search.high, tau)
    outer, reach = _outward(tau, positive, search, size)
    inner = _inward(low, high, more, less, newton, size <= _SLOW * search.last)
    found = (low > -math.inf) & ((high < search.ceiling) | search.loose)
    following = where(found, inner, outer)
    settled = size <= enough
    inside = (low < following) & (following < high)
    goes = search.moves & ~settled & inside
    end = where((free > 0.0) & settled, newton, tau)
    tau = where(search.moves, where(goes, following, end), tau)
    return tau, _Search(
        low, high, more, less, side, size, reach, goes,
        search.ceiling, search.flatness, search.least, search.loose,
    )  # fmt: skip


@inline
def _descend(block, w, u, columns, base, tau, total, fixed, search, passes):
    """``τ`` relative to the base after some steps, or with little residual; and the state."""
    enough = 0.25 * math.sqrt(np.finfo(w.dtype).eps) * maximum(total, 1.0)
    for _ in range(passes):
        residual, free = _residual(block, w, u, columns, base, tau, fixed, total)
        tau, search = _move(tau, residual, free, search, enough)
        if count(search.moves) == 0:
            break
    return tau, search


@inline
def _list_undecided(block, at, size, base, low, high, margin):
    """List entries of a row that ``τ`` in a bracket may have strictly inside their bounds, or not.

    Returns the end of the lists, and the sum of the bounds of the others that are met.
    """
    width, end, met = width_of(block.w), at, 0.0
    for j in range(at, at + size, width):
        score, bound = load(block.scores, j), load(block.bounds, j)
        height = score - base
        full = height - high >= bound + margin
        kept = (height - low > -margin) & ~full
        store(block.few_scores, end, compress(score, kept))
        store(block.few_bounds, end, compress(bound, kept))
        end += count(kept)
        if count(full) > 0:
            met += wide_total(where(full, bound, 0.0))
    return end, met


@inline
def _keep_undecided(block, size, stride, base, search):
    """Leave only undecided entries in the block; return its columns and what is fixed."""
    width, columns, real = width_of(block.w), 0, block.w.dtype.type
    store(block.near, 0, base)
    store(block.low, 0, search.low)
    store(block.high, 0, search.high)
    for k in range(width if block.in_lanes else 1):
        low, at = block.low[k], k * stride
        margin = real(_MARGIN * np.finfo(block.w.dtype).eps * (1.0 + abs(low)))
        margin = margin if low > -math.inf else real(0)
        block.ends[k], met = _list_undecided(
            block, at, size, block.near[k], low, block.high[k], margin
        )
        block.met[k] = real(met)
        block.more[k] = real(met - np.float64(block.met[k]))
        columns = max(columns, block.ends[k] - at)
    if block.in_lanes:
        columns = (columns + LINE - 1) // LINE * LINE
        turn(block, block.few_scores, stride, columns, -math.inf, block.few_w)
        turn(block, block.few_bounds, stride, columns, 0.0, block.few_u)
    else:
        store(block.few_scores, columns, splat(real(-math.inf)))
        store(block.few_bounds, columns, splat(real(0)))
        columns = (columns + width - 1) // width
        block.met[:], block.more[:] = block.met[0], block.more[0]
    return columns, (load(block.met, 0), load(block.more, 0))


@inline
def _lowest_above(block, columns, total, high):
    """The lowest score of a row block that is not below ``τ``."""
    width, low = width_of(block.w), block.w.dtype.type(-math.inf)
    while True:
        between = 0
        for k in range(0, columns * width, width):
            w = load(block.w, k)
            between += count((w > low) & (w < high) & (load(block.u, k) > 0.0))
        if between == 0:
            return high
        # The middle one in the order of the row stands for the median.
        seen, pivot = 0, high
        for k in range(columns * width):
            w = block.w[k]
            if low < w < high and block.u[k] > 0.0:
                seen += 1
                if seen > between // 2:
                    pivot = w
                    break
        mass = splat(block.w.dtype.type(0))
        for k in range(0, columns * width, width):
            mass += minimum(maximum(load(block.w, k) - pivot, 0.0), load(block.u, k))
        if wide_total(mass) > total:
            low = pivot
        else:
            high = pivot


@inline
def solve_csparsemax(block, rows, columns, top, room, usual, tolerance, fallback):
    """Write ``τ`` of the usual rows as a number and a small rest, and whether they are solved.

    Args:
        block: filled with rows and bounds.
        rows: all rows, for their length and type.
        columns: of the block.
        top: the largest scores with a positive bound.
        room: sums of the bounds.
        usual: which rows can be solved.
        tolerance: residual at which a row is solved, but for rounding.
        fallback: whether there is no other way for rows that are not solved in the end.
    """
    size, total, zero = rows.shape[1], load(block.totals, 0), top - top
    tau, flatness, least, tight = _start(block, columns, size, top, room, total)
    search = _Search(
        zero - math.inf, zero, zero + 1.0, -1.0 * total, zero, zero + math.inf, zero, usual,
        zero, flatness, least, usual & ~tight,
    )  # fmt: skip
    base, near, rest, solved = top, top, tau, usual
    for _ in range(_BASES):
        fixed = zero, zero
        tau, search = _descend(
            block, block.w, block.u, columns, base, tau, total, fixed, search, _DENSE
        )
        few, fixed = _keep_undecided(block, size, stride_of(rows), base, search)
        tau, search = _descend(
            block, block.few_w, block.few_u, few, base, tau, total, fixed, search, _PASSES
        )
        near = base + tau
        part = near - base
        rest = (base - (near - part)) + (tau - part)
        rounding, strict = 1e-15 * math.sqrt(size) * total, _STRICT
        for _ in range(_ENDINGS):
            residual, free = _residual(
                block, block.few_w, block.few_u, few, near, rest, fixed, total
            )
            # What the rounding of entries may leave is accepted from a second look on.
            enough = tolerance * strict * (1.0 + 0.25 * sqrt(free)) + rounding
            ends = magnitude(residual) <= enough
            solved, strict = usual & ends, 1.0
            if count(solved) == count(usual):
                break
            rest = where(ends, rest, rest + residual / maximum(free, 1.0))
        if not fallback or count(solved) == count(usual):
            break
        base = splat(_lowest_above(block, columns, highest(total), highest(top)))
        tau = -0.5 * minimum(total, 1.0)
        search = _Search(
            zero - math.inf, zero, zero + 1.0, -1.0 * total, zero, zero + math.inf, zero, usual,
            zero, zero, zero + 1.0, usual,
        )  # fmt: skip
    store(block.near, 0, near)
    store(block.rest, 0, rest)
    store(block.solved, 0, where(solved, zero + 1.0, zero))


@inline
def write_csparsemax(block, k, at, probs, place):
    """Write the ``k``-th row of a block, whose list begins at ``at``."""
    size, width = probs.shape[0], width_of(block.w)
    near, rest = splat(block.near[k]), splat(block.rest[k])
    for j in range(0, size, width):
        above, u = (load(block.scores, at + j) - near) - rest, load(block.bounds, at + j)
        kept = maximum(above, 0.0)
        inside = above > 0.0
        share = where(kept < u, kept, u)
        write_bounded(j, size, share, inside & (above >= u), inside, probs, place)
