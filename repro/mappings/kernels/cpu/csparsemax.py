"""Csparsemax and budget: ``p = clip(z - τ, 0, u)``, summing to a total (Malaviya et al. 2018).

The sum is piecewise linear and decreasing in ``τ``. Under many small bounds it looks like a smooth
curve from afar, and like a line only very close to the root:

- *Start.* If bounds sum to at most 20 times the total, the scores, weighted by their bounds, are
  assumed to be normal, and ``τ`` starts at a quantile; the density there tells how far the root may
  be. Otherwise few bounds are met, and ``τ`` starts at the root for one entry that gets all mass.
- *Steps.* Up to three steps on whole rows bracket the root. Then only entries that the bracket
  leaves undecided stay in the block, a tenth of the row or less. A Newton step, exact on the last
  piece, is taken if the last step has left less than half of the residual, otherwise a step of
  Anderson and Björck (1973) on the chord of the bracket.
- *Stop.* When the residual is below ``sqrt(eps) / 4``, a last Newton step follows. ``τ`` is split
  into a nearby number, from which differences of scores are rounded only once, and a small rest,
  which is corrected until the compensated sum is within tolerance.

A float32 row that is not within tolerance is solved again in double precision. There, the scores
may be so far apart that ``τ`` has no digits left relative to the largest; it is then computed
relative to the lowest score above it, which is found by bisection over the scores.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from repro.mappings.kernels.cpu import blocks, simd
from repro.mappings.kernels.cpu.compile import inline
from repro.mappings.kernels.cpu.elementary import exponential

_LOOSE = 20.0
"""If bounds sum to more than this times the total, few are assumed to be met."""
_DENSE, _PASSES = 3, 100
"""Maximum number of steps on whole rows, and then on undecided entries."""
_ENDINGS = 6
"""Maximum number of corrections of the rest; one or two are enough unless it meets a kink."""
_BASES = 2
"""Number of base scores to which ``τ`` is relative: the largest, then the lowest above it."""
_MARGIN = 16.0
"""Distance from the bracket, in rounding errors, from which an entry counts as decided."""
_STRICT = 0.1
"""Factor of the tolerance for the first sum.

Later thresholds differ from it by less than the rounding of ``z - τ``, which their sums then show.
"""
_SLOW = 0.5
"""Newton's step is taken only if the last step left at most this fraction of the residual."""
_LEAST = 0.1
"""Least factor ``1 - f_new / f_replaced`` of Anderson and Björck; below it, ½ is safer."""
_REACH, _FARTHER = 2.0, 3.0
"""Factors of a step past the root: of the estimated distance, and of the last such step."""
_NORMAL = 1.0 / math.sqrt(2.0 * math.pi)
_DEEPEST = -80.0  # its exponential is a normal float32
_FARTHEST = 1e15
"""Keeps the squares of heights finite."""


@inline
def _residual(block, w, u, columns, base, tau, fixed, total):
    """Return ``Σ clip(z - base - τ, 0, u)`` less the total, and the number of interior entries.

    ``fixed`` is the sum of the bounds of entries not in the block, in two parts.
    """
    width = blocks.width_of(w)
    mass = lost = free = simd.zeros_like(base)
    if block.in_lanes:
        mass, lost = fixed
    for k in range(0, columns * width, width):
        above, bound = (simd.load(w, k) - base) - tau, simd.load(u, k)
        kept = simd.maximum(above, 0.0)
        kept = simd.where(kept < bound, kept, bound)
        free += simd.where((above > 0.0) & (above < bound), 1.0, 0.0)
        mass, lost = blocks.compensated_add(mass, lost, kept)
    if block.in_lanes:
        return (mass - total) + lost, free
    exact = simd.wide_total(mass) + simd.wide_total(lost)
    exact = exact + simd.highest(fixed[0]) + simd.highest(fixed[1])
    return simd.splat(w.dtype.type(exact - simd.highest(total))), blocks.along_row(block, free)


class _Bracket(NamedTuple):
    """Bracket of ``τ``, which is negative."""

    low: Any  # lower end
    high: Any  # upper end, zero at first
    more: Any  # residual at the lower end, perhaps scaled
    less: Any  # residual at the upper end, perhaps scaled
    side: Any  # sign of the last residual


class _Guess(NamedTuple):
    """Steps while the root is not bracketed, by the density of the scores."""

    flatness: Any  # change of ``τ`` for a unit of missing mass, or zero
    least: Any  # minimum step length
    loose: Any  # rows with few met bounds, where zero is an end of the bracket


class _Search(NamedTuple):
    """State of the search for ``τ``."""

    bracket: Any
    guess: Any
    last: Any  # absolute value of the last residual
    reach: Any  # last step length while the root is not bracketed
    moves: Any  # which rows are not at their root


@inline
def _new_search(total, usual, guess):
    zero = simd.zeros_like(total)
    bracket = _Bracket(zero - math.inf, zero, zero + 1.0, -1.0 * total, zero)
    return _Search(bracket, guess, zero + math.inf, zero, usual)


@inline
def _start(block, columns, size, top, room, total, usual):
    """Guess ``τ`` relative to ``top``, as a quantile of scores that are assumed to be normal."""
    width = blocks.width_of(block.w)
    first = second = weight = simd.zeros_like(top)
    for k in range(0, columns * width, width):
        height = simd.maximum(simd.load(block.w, k) - top, -_FARTHEST)
        bound = simd.minimum(simd.load(block.u, k), total)
        weight += bound
        first += bound * height
        second += bound * height * height
    weight = blocks.along_row(block, weight)
    mean = blocks.along_row(block, first) / weight
    variance = simd.maximum(blocks.along_row(block, second) / weight - mean * mean, 0.0)
    deviation, tight = simd.sqrt(variance), room <= _LOOSE * total
    # A rational approximation of the standard normal quantile of (1 + odds) / 2.
    odds = 1.0 - 2.0 * total / room
    square = odds * odds
    quantile = odds * (1.2533 - 0.537 * square) / (1.0 - 0.6818 * square)
    # Equal scores have no deviation; the total spread evenly is then the scale.
    guess, least = mean + deviation * quantile, simd.maximum(deviation, 0.1 * total) * (1.0 / size)
    guess = simd.where(guess < 0.0, guess, -0.125 * deviation - least)
    density = _NORMAL * exponential(simd.maximum(-0.5 * quantile * quantile, _DEEPEST))
    flatness = _REACH * deviation / (room * density)
    tau = simd.where(tight, guess, simd.where(total < 1.0, -1.0 * total, -1.0))
    flatness, least = simd.where(tight, flatness, 0.0), simd.where(tight, least, 1.0)
    return tau, _new_search(total, usual, _Guess(flatness, least, usual & ~tight))


@inline
def _move(tau, residual, free, search, enough):
    """Return ``τ`` after a step of every row that moves, and the new state of the search.

    The step is Newton's, ``residual / free``, if it stays in the bracket and the last one halved
    the residual; else to where the chord of the bracket is zero; before there is a bracket, past
    the root by a guess from the density of the scores.
    """
    size, positive = simd.magnitude(residual), residual > 0.0
    newton, bracket, guess = tau + residual / free, search.bracket, search.guess
    # The residual of an end that is retained twice is scaled down (Anderson and Björck).
    share = 1.0 - residual / simd.where(positive, bracket.more, bracket.less)
    share = simd.where(share > _LEAST, share, 0.5)
    side = simd.where(positive, 1.0, -1.0)
    share = simd.where(bracket.side == side, share, 1.0)
    more = simd.where(positive, residual, bracket.more * share)
    less = simd.where(positive, bracket.less * share, residual)
    low, high = simd.where(positive, tau, bracket.low), simd.where(positive, bracket.high, tau)
    # While the root is not bracketed: a point that is probably beyond it.
    step = guess.flatness * size + guess.least
    reach = simd.where(search.reach > 0.0, _FARTHER * search.reach, step)
    outer = simd.where(positive, simd.minimum(tau + reach, 0.5 * tau), tau - reach)
    # In the bracket: Newton's step if the last was good, else the chord, else the middle.
    chord = low + (high - low) * (more / (more - less))
    chord = simd.where((low < chord) & (chord < high), chord, 0.5 * (low + high))
    fast = (size <= _SLOW * search.last) & (low < newton) & (newton < high)
    bracketed = (low > -math.inf) & ((high < 0.0) | guess.loose)
    following = simd.where(bracketed, simd.where(fast, newton, chord), outer)
    settled = size <= enough
    moves = search.moves & ~settled & (low < following) & (following < high)
    end = simd.where((free > 0.0) & settled, newton, tau)
    tau = simd.where(search.moves, simd.where(moves, following, end), tau)
    return tau, _Search(_Bracket(low, high, more, less, side), guess, size, reach, moves)


@inline
def _descend(block, w, u, columns, base, tau, total, fixed, search, passes):
    """Return ``τ`` relative to ``base`` after at most ``passes`` steps, and the search state."""
    enough = 0.25 * math.sqrt(np.finfo(w.dtype).eps) * simd.maximum(total, 1.0)
    for _ in range(passes):
        residual, free = _residual(block, w, u, columns, base, tau, fixed, total)
        tau, search = _move(tau, residual, free, search, enough)
        if simd.count(search.moves) == 0:
            break
    return tau, search


@inline
def _keep_undecided(block, size, stride, base, bracket):
    """Keep only entries in the block whose KKT status the bracket does not determine.

    Returns:
        The number of columns of the block, and the sum of the bounds of removed entries at them.
    """
    width, columns, real = blocks.width_of(block.w), 0, block.w.dtype.type
    simd.store(block.near, 0, base)
    simd.store(block.low, 0, bracket.low)
    simd.store(block.high, 0, bracket.high)
    for k in range(width if block.in_lanes else 1):
        base, low, high, at, met = block.near[k], block.low[k], block.high[k], k * stride, 0.0
        margin = real(_MARGIN * np.finfo(block.w.dtype).eps * (1.0 + abs(low)))
        margin = margin if low > -math.inf else real(0)
        end = at
        for j in range(at, at + size, width):
            score, bound = simd.load(block.scores, j), simd.load(block.bounds, j)
            height = score - base
            full = height - high >= bound + margin
            kept = (height - low > -margin) & ~full
            simd.store(block.few_scores, end, simd.compress(score, kept))
            simd.store(block.few_bounds, end, simd.compress(bound, kept))
            end += simd.count(kept)
            if simd.count(full) > 0:
                met += simd.wide_total(simd.where(full, bound, 0.0))
        block.ends[k], block.met[k] = end, real(met)
        block.more[k] = real(met - np.float64(block.met[k]))
        columns = max(columns, end - at)
    if block.in_lanes:
        columns = (columns + blocks.LINE - 1) // blocks.LINE * blocks.LINE
        blocks.transpose_lists(block, block.few_scores, stride, columns, -math.inf, block.few_w)
        blocks.transpose_lists(block, block.few_bounds, stride, columns, 0.0, block.few_u)
    else:
        simd.store(block.few_scores, columns, simd.splat(real(-math.inf)))
        simd.store(block.few_bounds, columns, simd.splat(real(0)))
        columns = (columns + width - 1) // width
        simd.store(block.met, 0, simd.splat(block.met[0]))
        simd.store(block.more, 0, simd.splat(block.more[0]))
    return columns, (simd.load(block.met, 0), simd.load(block.more, 0))


@inline
def _lowest_above(block, columns, total, high):
    """Return the lowest score of a row block that is not below ``τ``."""
    width, low = blocks.width_of(block.w), block.w.dtype.type(-math.inf)
    while True:
        between = 0
        for k in range(0, columns * width, width):
            w = simd.load(block.w, k)
            between += simd.count((w > low) & (w < high) & (simd.load(block.u, k) > 0.0))
        if between == 0:
            return high
        # The middle entry in the order of the row replaces the median as the pivot.
        seen, pivot = 0, high
        for k in range(columns * width):
            w = block.w[k]
            if low < w < high and block.u[k] > 0.0:
                seen += 1
                if seen > between // 2:
                    pivot = w
                    break
        mass = simd.splat(block.w.dtype.type(0))
        for k in range(0, columns * width, width):
            mass += simd.minimum(
                simd.maximum(simd.load(block.w, k) - pivot, 0.0), simd.load(block.u, k)
            )
        if simd.wide_total(mass) > total:
            low = pivot
        else:
            high = pivot


@inline
def solve_csparsemax(block, rows, columns, top, room, usual, tolerance, fallback):
    """Write ``τ`` of the usual rows as a number and a small rest, and whether they are solved.

    ``top`` is the largest score with a positive bound, ``room`` the sum of the bounds; a row is
    solved if its residual is within ``tolerance`` and rounding. ``τ`` is found relative to ``top``.
    With ``fallback``, if ``top`` is too far for the digits of ``τ``, it is found again relative to
    the lowest score above it.
    """
    size, total, zero = rows.shape[1], simd.load(block.totals, 0), simd.zeros_like(top)
    tau, search = _start(block, columns, size, top, room, total, usual)
    base, near, rest, solved = top, top, tau, usual
    for _ in range(_BASES):
        tau, search = _descend(
            block, block.w, block.u, columns, base, tau, total, (zero, zero), search, _DENSE
        )
        few, fixed = _keep_undecided(block, size, blocks.stride_of(rows), base, search.bracket)
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
            # From the second sum on, the rounding errors of entries are accepted.
            enough = tolerance * strict * (1.0 + 0.25 * simd.sqrt(free)) + rounding
            ends = simd.magnitude(residual) <= enough
            solved, strict = usual & ends, 1.0
            if simd.count(solved) == simd.count(usual):
                break
            rest = simd.where(ends, rest, rest + residual / simd.maximum(free, 1.0))
        if not fallback or simd.count(solved) == simd.count(usual):
            break
        base = simd.splat(_lowest_above(block, columns, simd.highest(total), simd.highest(top)))
        tau = -0.5 * simd.minimum(total, 1.0)
        search = _new_search(total, usual, _Guess(zero, zero + 1.0, usual))
    simd.store(block.near, 0, near)
    simd.store(block.rest, 0, rest)
    simd.store(block.solved, 0, simd.where(solved, 1.0, 0.0))


@inline
def csparsemax_share(score, bound, near, rest):
    """Return shares before they are bounded, and which entries may be at their bounds."""
    share = simd.maximum((score - near) - rest, 0.0)
    return share, share > 0.0
