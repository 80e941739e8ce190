"""Thresholds of projections and softmax under upper bounds, without sorting.

The threshold ``τ`` is kept as a sum ``a + δ`` of two numbers, and entries are compared by
``(z - a) - δ``: the largest scores may be at their bounds and ``τ`` far below them, where a single
number in the precision of the scores would be too coarse. Modes: 0 is constrained softmax, 1
constrained sparsemax, 2 a budget, whose bounds are all one.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.rows import any_of, clamped, epsilon, largest_of, read

_PASSES = tl.constexpr(256)  # bounds the loop; a step may be a bisection


class Boxes(NamedTuple):
    """The rows of a program with their bounds.

    Attributes:
        score: first chunk of the scores.
        upper: first chunk of the bounds, zero where the score is ``-inf``.
        scores: rows of all scores.
        uppers: rows of all bounds.
    """

    score: Any
    upper: Any
    scores: Any
    uppers: Any


@triton.jit
def load_boxes(scores, uppers, start, MODE: tl.constexpr, N: tl.constexpr):
    """Read the scores and bounds of a chunk; bounds are zero where the score is ``-inf``."""
    score = read(scores, start, N, -float("inf"))
    upper = tl.full(score.shape, 1.0, score.dtype) if MODE == 2 else read(uppers, start, N, 0.0)
    return score, tl.where(score == -float("inf"), 0.0, upper)


@triton.jit
def survey_boxes(score, upper, slack, total):
    """Return the sum of bounds, bounds of ``τ``, and counts of allowed, faulty and NaN entries."""
    largest = largest_of(score.dtype)
    allowed = score != -float("inf")
    nan = score != score
    wrong = (upper != upper) | (upper < -slack[:, None])
    bound = tl.where(upper > 0.0, upper, 0.0)
    usable = allowed & (bound > 0.0) & (nan == 0)
    score = tl.minimum(score, largest)
    available = tl.sum(bound.to(tl.float64), 1)
    low = tl.min(tl.where(usable, score - tl.minimum(bound, total[:, None]), largest), 1)
    high = tl.max(tl.where(usable, score, -largest), 1)
    count = tl.sum(allowed.to(tl.int32), 1)
    faults = tl.sum((wrong & allowed).to(tl.int32), 1)
    return available, low, high, count, faults, tl.sum(nan.to(tl.int32), 1)


@triton.jit
def capped(scores, upper, limit, MODE: tl.constexpr):
    """Return finite scores and nonnegative bounds; in projections these are at most ``limit``."""
    score = tl.minimum(scores, largest_of(scores.dtype))
    bound = tl.where(upper > 0.0, upper, 0.0)
    if MODE != 0:
        bound = tl.minimum(bound, limit[:, None])
    return score, bound


@triton.jit
def load_capped(boxes, start, limit, MODE: tl.constexpr, N: tl.constexpr):
    """Read the finite scores and nonnegative bounds of a chunk; see :func:`capped`."""
    score, upper = load_boxes(boxes.scores, boxes.uppers, start, MODE, N)
    return capped(score, upper, limit, MODE)


@triton.jit
def _line(score, bound, anchor, offset):
    """Return mass at bounds and inside, interior counts left and right of ``τ``, adjacent kinks."""
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
def line_threshold(
    boxes, limit, low, high, MODE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr
):
    """Return ``τ = a + δ`` with ``Σ clip(z - τ, 0, u)`` equal to the limit.

    Newton's method for a piecewise linear function, in a bracket. On a plateau it moves to the next
    kink; a step out of the bracket is replaced by bisection.
    """
    tolerance = 4.0 * epsilon(low.dtype)
    anchor, offset = tl.maximum(high - 1.0, low), tl.zeros(low.shape, low.dtype)
    # `low == high` where bounds are below the rounding of the scores; there the first step finds δ.
    moves = (limit > 0.0) & (low <= high)
    passes = 0
    while (passes < _PASSES) & any_of(moves):
        score, bound = capped(boxes.score, boxes.upper, limit, MODE)
        spent, mass, left, right, below, above = _line(score, bound, anchor, offset)
        if not HELD:
            for start in range(N, boxes.scores.n, N):
                score, bound = load_capped(boxes, start, limit, MODE, N)
                a, b, c, d, e, f = _line(score, bound, anchor, offset)
                spent, mass, left, right = spent + a, mass + b, left + c, right + d
                below, above = tl.maximum(below, e), tl.minimum(above, f)
        # The mass in excess of the limit, the slope towards the root, and the next kink.
        excess = mass - (limit - spent)
        count = tl.where(excess > 0.0, right, left)
        corner = tl.where(excess > 0.0, above, below)
        done = tl.abs(excess) <= tolerance * tl.maximum(mass, tl.minimum(limit, 1.0))
        low = tl.where(moves & (excess > 0.0), tl.maximum(low, anchor), low)
        high = tl.where(moves & (excess < 0.0), tl.minimum(high, anchor), high)
        flat = count < 0.5
        # (a + δ) + step as a sum of two numbers, exact to twice their digits.
        small = offset + excess / tl.maximum(count, 1.0)
        total = anchor + small
        part = total - anchor
        rest = (anchor - (total - part)) + (small - part)
        following, rest = tl.where(flat, corner, total), tl.where(flat, 0.0, rest)
        same = (following == anchor) & (rest == offset)
        wild = (done == 0) & ((following < low) | (following > high) | same)
        following = tl.where(wild, 0.5 * low + 0.5 * high, following)
        rest = tl.where(wild, 0.0, rest)
        # The last step, within rounding, is taken too, unless no entry is in the interior.
        goes = moves & ((flat & done) == 0)
        settled = done | ((following == anchor) & (rest == offset))
        anchor, offset = tl.where(goes, following, anchor), tl.where(goes, rest, offset)
        moves = moves & (settled == 0)
        passes += 1
    return anchor, offset


@triton.jit
def capped_shares(score, bound, anchor, offset):
    """Return ``exp(z - τ)``, zero where the bound is zero, and which entries reach their bound."""
    distance = (score - anchor[:, None]) - offset[:, None]
    share = tl.where(bound > 0.0, tl.exp(tl.minimum(distance, 80.0)), 0.0)
    return share, (bound > 0.0) & (share >= bound)


@triton.jit
def _full_entries(score, bound, anchor, offset):
    """Return the mass and the number of entries at their bounds, and the largest other score."""
    _share, full = capped_shares(score, bound, anchor, offset)
    free = (bound > 0.0) & (full == 0)
    top = tl.max(tl.where(free, score, -float("inf")), 1)
    return tl.sum(tl.where(full, bound, 0.0), 1), tl.sum(full.to(tl.int32), 1), top


@triton.jit
def _free_sum(score, bound, anchor, offset, top):
    """Return ``Σ exp(z - top)`` over the entries below their bounds."""
    _share, full = capped_shares(score, bound, anchor, offset)
    free = (bound > 0.0) & (full == 0)
    return tl.sum(tl.where(free, tl.exp(tl.minimum(score - top[:, None], 0.0)), 0.0), 1)


@triton.jit
def softmax_threshold(boxes, limit, N: tl.constexpr, HELD: tl.constexpr):
    """Return ``τ = a + δ`` with ``Σ min(exp(z - τ), u)`` equal to the limit.

    Given the entries at their bounds, ``τ`` is that of softmax over the others. It falls as entries
    reach their bounds, which they never leave, so it is final when their number stays the same.
    """
    anchor = tl.full(limit.shape, largest_of(limit.dtype), limit.dtype)
    offset = tl.zeros(limit.shape, limit.dtype)
    before = tl.full(limit.shape, -1, tl.int32)
    moves = limit > 0.0
    passes = 0
    while (passes <= boxes.scores.n + 1) & any_of(moves):
        score, bound = capped(boxes.score, boxes.upper, limit, 0)
        spent, count, top = _full_entries(score, bound, anchor, offset)
        if not HELD:
            for start in range(N, boxes.scores.n, N):
                score, bound = load_capped(boxes, start, limit, 0, N)
                a, b, c = _full_entries(score, bound, anchor, offset)
                spent, count, top = spent + a, count + b, tl.maximum(top, c)
        top = clamped(top, limit.dtype)
        score, bound = capped(boxes.score, boxes.upper, limit, 0)
        total = _free_sum(score, bound, anchor, offset, top)
        if not HELD:
            for start in range(N, boxes.scores.n, N):
                score, bound = load_capped(boxes, start, limit, 0, N)
                total += _free_sum(score, bound, anchor, offset, top)
        left = tl.maximum((limit - spent).to(tl.float64), 1e-300)
        moved = top.to(tl.float64) + tl.log(tl.maximum(total.to(tl.float64), 1e-300)) - tl.log(left)
        idle = (total == 0.0) | (limit - spent <= 0.0)
        moves = moves & (idle == 0) & ((count > before) | (passes == 0))
        near = moved.to(limit.dtype)
        anchor = tl.where(moves, near, anchor)
        offset = tl.where(moves, (moved - near.to(tl.float64)).to(limit.dtype), offset)
        before = tl.where(moves, count, before)
        passes += 1
    return anchor, offset
