"""Projections under upper bounds: bounds, what rows allow, and the threshold, without sorting.

The threshold ``τ`` is kept as a sum ``a + δ`` of two numbers, and ``(z - a) - δ`` is what is
compared: leading scores may be used up and ``τ`` lie far below them, where a single number in the
precision of the scores would be too coarse. Modes: 0 is constrained softmax, 1 constrained
sparsemax, 2 a budget, whose bounds are all one.
"""

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.rows import any_of, largest_of, read
from repro.mappings.kernels.cuda.thresholds import epsilon

_PASSES = tl.constexpr(256)


@triton.jit
def load_bounds(uppers, scores, inside, start, n, MODE: tl.constexpr, N: tl.constexpr):
    """Bounds of a chunk, as they are; zero where the score forbids the entry."""
    if MODE == 2:
        upper = tl.full(scores.shape, 1.0, scores.dtype)
    else:
        upper = read(uppers, inside, start, n, N, 0.0)
    return tl.where(scores == -float("inf"), 0.0, upper)


@triton.jit
def _tile_survey(scores, upper, slack, total):
    """Survey a tile: sum of bounds, lowest and highest threshold, allowed entries, faults, NaN."""
    largest = largest_of(scores.dtype)
    allowed = scores != -float("inf")
    nan = scores != scores
    wrong = (upper != upper) | (upper < -slack[:, None])
    bound = tl.where(upper > 0.0, upper, 0.0)
    usable = allowed & (bound > 0.0) & (nan == 0)
    score = tl.minimum(scores, largest)
    available = tl.sum(bound.to(tl.float64), 1)
    low = tl.min(tl.where(usable, score - tl.minimum(bound, total[:, None]), largest), 1)
    high = tl.max(tl.where(usable, score, -largest), 1)
    count = tl.sum(allowed.to(tl.int32), 1)
    faults = tl.sum((wrong & allowed).to(tl.int32), 1)
    return available, low, high, count, faults, tl.sum(nan.to(tl.int32), 1)


@triton.jit
def survey_boxes(
    base, uppers, inside, n, slack, total,
    MODE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """The first chunk of scores and bounds, and the survey of whole rows."""
    score = read(base, inside, 0, n, N, -float("inf"))
    upper = load_bounds(uppers, score, inside, 0, n, MODE, N)
    available, low, high, count, faults, nans = _tile_survey(score, upper, slack, total)
    if not HELD:
        for start in range(N, n, N):
            more = read(base, inside, start, n, N, -float("inf"))
            bound = load_bounds(uppers, more, inside, start, n, MODE, N)
            a, b, c, d, e, f = _tile_survey(more, bound, slack, total)
            available, count, faults, nans = available + a, count + d, faults + e, nans + f
            low, high = tl.minimum(low, b), tl.maximum(high, c)
    return score, upper, available, low, high, count, faults, nans


@triton.jit
def capped(scores, upper, limit, MODE: tl.constexpr):
    """Finite scores and usable bounds; those of a projection are at most the mass to spend."""
    score = tl.minimum(scores, largest_of(scores.dtype))
    bound = tl.where(upper > 0.0, upper, 0.0)
    if MODE != 0:
        bound = tl.minimum(bound, limit[:, None])
    return score, bound


@triton.jit
def _line(score, bound, anchor, offset):
    """Full and free mass at a threshold, entries that move to its left and right, next corners."""
    largest = largest_of(score.dtype)
    usable = bound > 0.0
    distance = (score - anchor[:, None]) - offset[:, None]
    full = usable & (distance >= bound)
    free = usable & (distance > 0.0) & (distance < bound)
    spent = tl.sum(tl.where(full, bound, 0.0), 1)
    mass = tl.sum(tl.where(free, distance, 0.0), 1)
    left = tl.sum((usable & (distance >= 0.0) & (distance < bound)).to(score.dtype), 1)
    right = tl.sum((usable & (distance > 0.0) & (distance <= bound)).to(score.dtype), 1)
    below = tl.max(tl.where(usable & (distance < 0.0), score, -largest), 1)
    above = tl.min(tl.where(usable & (distance > bound), score - bound, largest), 1)
    return spent, mass, left, right, below, above


@triton.jit
def _line_of_rows(
    held, bounds, base, uppers, inside, n, limit, anchor, offset,
    MODE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Excess of whole rows over the limit, free mass, entries that move, and the next corner."""
    score, bound = capped(held, bounds, limit, MODE)
    spent, mass, left, right, below, above = _line(score, bound, anchor, offset)
    if not HELD:
        for start in range(N, n, N):
            more = read(base, inside, start, n, N, -float("inf"))
            upper = load_bounds(uppers, more, inside, start, n, MODE, N)
            score, bound = capped(more, upper, limit, MODE)
            a, b, c, d, e, f = _line(score, bound, anchor, offset)
            spent, mass, left, right = spent + a, mass + b, left + c, right + d
            below, above = tl.maximum(below, e), tl.minimum(above, f)
    excess = mass - (limit - spent)
    count = tl.where(excess > 0.0, right, left)
    return excess, mass, count, tl.where(excess > 0.0, above, below)


@triton.jit
def _moved(anchor, offset, step):
    """``(a + δ) + step`` as a sum of two numbers, exact to twice their digits."""
    small = offset + step
    total = anchor + small
    part = total - anchor
    return total, (anchor - (total - part)) + (small - part)


@triton.jit
def line_threshold(
    held, bounds, base, uppers, inside, n, limit, low, high,
    MODE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """``τ = a + δ`` with ``Σ clip(z - τ, 0, u)`` equal to the limit.

    Newton's method on a line of many corners, in a bracket. On a plateau it moves on to the next
    corner; a step out of the bracket is replaced by bisection.
    """
    tolerance = 4.0 * epsilon(held.dtype)
    anchor, offset = tl.maximum(high - 1.0, low), tl.zeros(low.shape, held.dtype)
    moves = low < high
    passes = 0
    while (passes < _PASSES) & any_of(moves):
        excess, mass, count, corner = _line_of_rows(
            held, bounds, base, uppers, inside, n, limit, anchor, offset, MODE, N, HELD
        )
        done = tl.abs(excess) <= tolerance * tl.maximum(mass, tl.minimum(limit, 1.0))
        low = tl.where(moves & (excess > 0.0), tl.maximum(low, anchor), low)
        high = tl.where(moves & (excess < 0.0), tl.minimum(high, anchor), high)
        flat = count < 0.5
        following, rest = _moved(anchor, offset, excess / tl.maximum(count, 1.0))
        following, rest = tl.where(flat, corner, following), tl.where(flat, 0.0, rest)
        same = (following == anchor) & (rest == offset)
        wild = (done == 0) & ((following < low) | (following > high) | same)
        following = tl.where(wild, 0.5 * low + 0.5 * high, following)
        rest = tl.where(wild, 0.0, rest)
        # The last step, a matter of rounding, is taken too, unless there is nothing to move.
        goes = moves & ((flat & done) == 0)
        settled = done | ((following == anchor) & (rest == offset))
        anchor, offset = tl.where(goes, following, anchor), tl.where(goes, rest, offset)
        moves = moves & (settled == 0)
        passes += 1
    return anchor, offset
