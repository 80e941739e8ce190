"""Thresholds of projections and softmax under upper bounds, without sorting.

The threshold ``τ`` is kept as a sum ``a + δ`` of two numbers, and entries are compared by
``(z - a) - δ``: the largest scores may be at their bounds and ``τ`` far below them, where a single
number in the precision of the scores would be too coarse. ``MAPPING`` is ``csoftmax``,
``csparsemax`` or ``budget``, whose bounds are all one.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.rows import any_of, clamped, epsilon, largest_of, read


class BoundedRows(NamedTuple):
    """The rows of a program with their bounds.

    Attributes:
        score: first chunk of the scores.
        upper: first chunk of the bounds, zero where the score is ``-inf``.
        scores: rows of all scores.
        uppers: rows of all bounds.
        limit: the sum of each row to reach, zero where no threshold is searched for.
        peak: finite number of each row that replaces infinite scores.
    """

    score: Any
    upper: Any
    scores: Any
    uppers: Any
    limit: Any
    peak: Any


class Survey(NamedTuple):
    """Sum of bounds, bounds of ``τ``, and counts of allowed and faulty entries of each row.

    The bounds of ``τ`` are those by the finite scores, infinite if there is none.
    """

    available: Any
    low: Any
    high: Any
    allowed: Any
    faults: Any


class Line(NamedTuple):
    """Mass at bounds and inside; slopes of steps up and down, and how far their next kinks are."""

    spent: Any
    mass: Any
    right: Any
    left: Any
    up: Any
    down: Any


class Full(NamedTuple):
    """Mass and number of the entries at their bounds, and the largest other score."""

    mass: Any
    count: Any
    top: Any


class Bracket(NamedTuple):
    """Bracket of a threshold, whose ends are sums of two numbers.

    Attributes:
        low, low_rest: lower end.
        high, high_rest: upper end.
        more: excess of mass at the lower end, perhaps scaled down.
        less: lack of mass at the upper end, perhaps scaled down.
        side: 1 if the lower end was the last one to move, -1 if the upper end was, 0 at the start.
    """

    low: Any
    low_rest: Any
    high: Any
    high_rest: Any
    more: Any
    less: Any
    side: Any


@triton.jit
def read_bounded(scores, uppers, start, MAPPING: tl.constexpr, N: tl.constexpr):
    """Read the scores and bounds of a chunk; bounds are zero where the score is ``-inf``."""
    score = read(scores, start, N, -float("inf"))
    if MAPPING == "budget":
        upper = tl.full(score.shape, 1.0, score.dtype)
    else:
        upper = read(uppers, start, N, 0.0)
    return score, tl.where(score == -float("inf"), 0.0, upper)


@triton.jit
def _survey(score, upper, slack, total):
    """Return the :class:`Survey` of a chunk."""
    largest = largest_of(score.dtype)
    allowed = score != -float("inf")
    wrong = (score != score) | (upper != upper) | (upper < -slack)
    bound = tl.where(upper > 0.0, upper, 0.0)
    usable = allowed & (bound > 0.0) & (score <= largest)
    available = tl.sum(bound.to(tl.float64), 1)
    low = tl.min(tl.where(usable, score - tl.minimum(bound, total[:, None]), float("inf")), 1)
    high = tl.max(tl.where(usable, score, -float("inf")), 1)
    count = tl.sum(allowed.to(tl.int32), 1)
    return Survey(available, low, high, count, tl.sum((wrong & allowed).to(tl.int32), 1))


@triton.jit
def survey_bounded(
    score, upper, scores, uppers, slack, total,
    MAPPING: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Return the :class:`Survey` of whole rows, whose first chunk has been read."""
    survey = _survey(score, upper, slack, total)
    if not HELD:
        for start in range(N, scores.n, N):
            chunk, bound = read_bounded(scores, uppers, start, MAPPING, N)
            other = _survey(chunk, bound, slack, total)
            survey = Survey(
                survey.available + other.available,
                tl.minimum(survey.low, other.low), tl.maximum(survey.high, other.high),
                survey.allowed + other.allowed, survey.faults + other.faults,
            )  # fmt: skip
    return survey


@triton.jit
def bracket_of(low, high, limit, MAPPING: tl.constexpr):
    """Return bounds of ``τ`` by the finite scores, and finite numbers that replace infinite ones.

    A projection is the same for all numbers above the finite scores by the limit or more. The
    nearest keep the bracket short.
    """
    largest = largest_of(low.dtype)
    some = low <= high
    low, high = tl.where(some, low, 0.0), tl.where(some, high, 0.0)
    if MAPPING == "csoftmax":
        peak = tl.full(low.shape, largest, low.dtype)
    else:
        rounding = epsilon(low.dtype) * tl.abs(high)
        peak = tl.minimum(high + 2.0 * tl.maximum(limit, rounding), largest)
    return low, high, peak


@triton.jit
def capped(rows, score, upper, MAPPING: tl.constexpr):
    """Return scores of at most the peak and nonnegative bounds, in projections up to the limit."""
    score = tl.minimum(score, rows.peak[:, None])
    bound = tl.where(upper > 0.0, upper, 0.0)
    if MAPPING != "csoftmax":
        bound = tl.minimum(bound, rows.limit[:, None])
    return score, bound


@triton.jit
def _load_capped(rows, start, MAPPING: tl.constexpr, N: tl.constexpr):
    """Read the finite scores and nonnegative bounds of a chunk; see :func:`capped`."""
    score, upper = read_bounded(rows.scores, rows.uppers, start, MAPPING, N)
    return capped(rows, score, upper, MAPPING)


@triton.jit
def _line(score, bound, anchor, offset):
    """Return the :class:`Line` of a chunk."""
    usable = bound > 0.0
    distance = (score - anchor[:, None]) - offset[:, None]
    positive, short = usable & (distance > 0.0), usable & (distance < bound)
    spent = tl.sum(tl.where(usable & (distance >= bound), bound, 0.0), 1)
    mass = tl.sum(tl.where(positive & short, distance, 0.0), 1)
    rises, falls = positive & (distance <= bound), short & (distance >= 0.0)
    up = tl.where(positive, tl.where(rises, distance, distance - bound), float("inf"))
    down = tl.where(short, tl.where(falls, bound - distance, -distance), float("inf"))
    left, right = tl.sum(falls.to(score.dtype), 1), tl.sum(rises.to(score.dtype), 1)
    return Line(spent, mass, right, left, tl.min(up, 1), tl.min(down, 1))


@triton.jit
def _row_line(rows, anchor, offset, MAPPING: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr):
    """Return the :class:`Line` of whole rows."""
    score, bound = capped(rows, rows.score, rows.upper, MAPPING)
    line = _line(score, bound, anchor, offset)
    if not HELD:
        for start in range(N, rows.scores.n, N):
            score, bound = _load_capped(rows, start, MAPPING, N)
            other = _line(score, bound, anchor, offset)
            line = Line(
                line.spent + other.spent, line.mass + other.mass,
                line.right + other.right, line.left + other.left,
                tl.minimum(line.up, other.up), tl.minimum(line.down, other.down),
            )  # fmt: skip
    return line


@triton.jit
def _newton_step(line, excess):
    """Return the length of Newton's step, that to the next kink, and whether the line is flat.

    On a plateau the step ends just beyond the kink.
    """
    above, rounding = excess > 0.0, 1.0 + 4.0 * epsilon(excess.dtype)
    count = tl.where(above, line.right, line.left)
    room = tl.where(above, line.up, line.down)
    flat = count < 0.5
    step = tl.where(flat, room * rounding, tl.abs(excess) / tl.maximum(count, 1.0))
    return step, room, flat


@triton.jit
def _narrowed(bracket, anchor, offset, excess):
    """Return the bracket with an end moved to where the mass has this excess.

    An end that is kept a second time counts less (Anderson and Björck 1973).
    """
    above, size = excess > 0.0, tl.abs(excess)
    turn = tl.where(above, 1.0, -1.0).to(excess.dtype)
    own = tl.where(above, bracket.more, bracket.less)
    other = tl.where(above, bracket.less, bracket.more)
    kept = 1.0 - size / tl.maximum(own, size)
    other = tl.where(bracket.side == turn, other * tl.where(kept > 0.1, kept, 0.5), other)
    return Bracket(
        tl.where(above, anchor, bracket.low), tl.where(above, offset, bracket.low_rest),
        tl.where(above, bracket.high, anchor), tl.where(above, bracket.high_rest, offset),
        tl.where(above, size, other), tl.where(above, other, size), turn,
    )  # fmt: skip


@triton.jit
def _added(anchor, offset, step):
    """Return ``(a + δ) + step`` as a sum of two numbers, exact to twice their digits."""
    small = offset + step
    total = anchor + small
    part = total - anchor
    return total, (anchor - (total - part)) + (small - part)


@triton.jit
def _line_start(limit, available, low, high):
    """Return a first ``τ``: on the chord, or if few bounds are met, as if one entry had it all."""
    most = tl.minimum(limit, 1.0)
    share = limit / tl.maximum(available, limit)
    chord = high - (0.5 * high - 0.5 * low) * (2.0 * share)
    return tl.maximum(tl.where(available > 20.0 * limit, high - most, chord), low)


@triton.jit
def line_threshold(
    rows, available, low, high, MAPPING: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr
):
    """Return ``τ = a + δ`` with ``Σ clip(z - τ, 0, u)`` equal to the limit.

    The sum is a decreasing, piecewise linear function of ``τ``, whose root lies between ``low`` and
    the largest score; ``high`` is the largest finite one, ``available`` the sum of the bounds. A
    Newton step that passes no kink, from a residual below the limit, is the last one: it ends at
    the threshold of the KKT statuses in closed form, so the mass of a row differs from its limit
    by rounding only. Other steps lie strictly inside the bracket: Newton's if the last one has
    halved the residual, else to the root of the chord.

    Termination: A step *progresses* if it halves the residual or the bracket since the last one
    that did. The first step after one that does not is Newton's, or on a plateau to just beyond
    the next kink; the second one bisects, and so progresses. At least every third step progresses,
    therefore. As the slope is at most ``n``, in a bracket of width ``w`` no residual exceeds ``n
    w``. The search ends when that or the residual is within rounding, hence after at most ``3 (L +
    B)`` steps, ``L`` and ``B`` the numbers of halvings from the first residual to the tolerance and
    from the first width to its ``n``-th part; or where no other ``τ`` can be represented. Five to
    ten steps are usual.
    """
    limit = rows.limit
    # The lower end is itself rounded, and bounds may be less than that.
    low = tl.maximum(low - 2.0 * epsilon(low.dtype) * tl.abs(low), -largest_of(low.dtype))
    anchor = tl.where(limit > 0.0, _line_start(limit, available, low, high), high)
    zero = tl.zeros(low.shape, low.dtype)
    excess = tl.maximum(available - limit, 0.0)
    bracket = Bracket(low, zero, rows.peak, zero, excess, limit, zero)
    offset, stalled, best, widest = zero, zero, zero + float("inf"), zero + float("inf")
    moves = limit > 0.0
    while any_of(moves):
        line = _row_line(rows, anchor, offset, MAPPING, N, HELD)
        excess = line.mass - (limit - line.spent)
        bracket = _narrowed(bracket, anchor, offset, excess)
        newton, room, flat = _newton_step(line, excess)
        size, half = tl.abs(excess), 0.5 * bracket.high - 0.5 * bracket.low
        half += 0.5 * (bracket.high_rest - bracket.low_rest)
        chord = half * (2.0 * size / (bracket.more + bracket.less))
        norm = tl.maximum(tl.minimum(line.mass, limit), tl.minimum(limit, 1.0))
        scale = 4.0 * epsilon(low.dtype) * norm
        ends = (size <= scale) | (half * rows.scores.n <= 0.5 * scale)
        exact = (flat == 0) & (newton <= room)
        last = ((flat == 0) & ends) | (exact & (size <= norm))
        halved = size <= 0.5 * best
        progress = halved | (half <= 0.5 * widest)
        stalled = tl.where(progress, 0.0, stalled + 1.0)
        best = tl.where(progress, tl.minimum(best, size), best)
        widest = tl.where(progress, half, widest)
        fast = tl.where(flat, chord <= room, halved | exact) | (stalled == 1.0)
        step = tl.where(fast, newton, chord)
        inside = (step > 0.0) & (step < 2.0 * half) & (stalled < 2.0)
        step = tl.where(last, newton, tl.where(inside, step, half)) * bracket.side
        total, rest = _added(anchor, offset, step)
        updates = moves & ((ends & flat) == 0)
        converged = ends | last | ((total == anchor) & (rest == offset))
        anchor, offset = tl.where(updates, total, anchor), tl.where(updates, rest, offset)
        moves = moves & (converged == 0)
    return anchor, offset


@triton.jit
def capped_shares(score, bound, anchor, offset):
    """Return ``exp(z - τ)``, zero where the bound is zero, and which entries reach their bound."""
    distance = (score - anchor[:, None]) - offset[:, None]
    share = tl.where(bound > 0.0, tl.exp(tl.minimum(distance, 80.0)), 0.0)
    return share, (bound > 0.0) & (share >= bound)


@triton.jit
def _full(score, bound, anchor, offset):
    """Return :class:`Full` of a chunk."""
    _share, full = capped_shares(score, bound, anchor, offset)
    free = (bound > 0.0) & (full == 0)
    top = tl.max(tl.where(free, score, -float("inf")), 1)
    return Full(tl.sum(tl.where(full, bound, 0.0), 1), tl.sum(full.to(tl.int32), 1), top)


@triton.jit
def _row_full(rows, anchor, offset, N: tl.constexpr, HELD: tl.constexpr):
    """Return :class:`Full` of whole rows."""
    score, bound = capped(rows, rows.score, rows.upper, "csoftmax")
    full = _full(score, bound, anchor, offset)
    if not HELD:
        for start in range(N, rows.scores.n, N):
            score, bound = _load_capped(rows, start, "csoftmax", N)
            other = _full(score, bound, anchor, offset)
            top = tl.maximum(full.top, other.top)
            full = Full(full.mass + other.mass, full.count + other.count, top)
    return full


@triton.jit
def _free_sum(score, bound, anchor, offset, top):
    """Return ``Σ exp(z - top)`` over the entries of a chunk below their bounds."""
    _share, full = capped_shares(score, bound, anchor, offset)
    free = (bound > 0.0) & (full == 0)
    return tl.sum(tl.where(free, tl.exp(tl.minimum(score - top[:, None], 0.0)), 0.0), 1)


@triton.jit
def _row_free_sum(rows, anchor, offset, top, N: tl.constexpr, HELD: tl.constexpr):
    """Return ``Σ exp(z - top)`` over the entries of whole rows below their bounds."""
    score, bound = capped(rows, rows.score, rows.upper, "csoftmax")
    total = _free_sum(score, bound, anchor, offset, top)
    if not HELD:
        for start in range(N, rows.scores.n, N):
            score, bound = _load_capped(rows, start, "csoftmax", N)
            total += _free_sum(score, bound, anchor, offset, top)
    return total


@triton.jit
def softmax_threshold(rows, N: tl.constexpr, HELD: tl.constexpr):
    """Return ``τ = a + δ`` with ``Σ min(exp(z - τ), u)`` equal to the limit.

    Given the entries at their bounds, ``τ`` is that of softmax over the others. The mass is concave
    in ``exp(-τ)``, so this is Newton's step, which never passes the root from above, and it is the
    root if no further entry is at its bound. It is taken where the last step has halved the
    residual. Otherwise steps are stretched by growing factors until one passes the root, and then
    the bracket is bisected. As a logarithm of the mass changes by no more than ``τ``, the search
    ends when the residual or the bracket is within rounding; one of them is halved by every second
    step.
    """
    limit = rows.limit
    tolerance, wanted = 4.0 * epsilon(limit.dtype), limit.to(tl.float64)
    anchor = tl.full(limit.shape, largest_of(limit.dtype), limit.dtype)
    offset = tl.zeros(limit.shape, limit.dtype)
    high = wanted * 0.0 + float("inf")
    tau, low, best, stretch = high, -high, high, wanted * 0.0 + 1.0
    before = tl.full(limit.shape, -1, tl.int32)
    moves = limit > 0.0
    while any_of(moves):
        full = _row_full(rows, anchor, offset, N, HELD)
        top = clamped(full.top, limit.dtype)
        total = _row_free_sum(rows, anchor, offset, top, N, HELD)
        left = (limit - full.mass).to(tl.float64)
        mass = top.to(tl.float64) + tl.log(tl.maximum(total.to(tl.float64), 1e-300))
        excess = tl.where(total > 0.0, tl.exp(tl.minimum(mass - tau, 80.0)), 0.0) - left
        size = tl.abs(excess)
        low, high = tl.where(excess > 0.0, tau, low), tl.where(excess > 0.0, high, tau)
        newton = mass - tl.log(tl.maximum(left, 1e-300))
        some = (total > 0.0) & (left > 0.0)
        narrow = (size <= tolerance * wanted) | (high - low <= tolerance)
        fast = some & ((size <= 0.5 * best) | narrow)
        best = tl.minimum(best, size)
        stretch = tl.where(fast, stretch, 4.0 * stretch)
        far = tl.where(low > -float("inf"), 0.5 * (low + high), tau - stretch * (tau - newton))
        inside = narrow | ((newton >= low) & (newton <= high))
        following = tl.where(fast & inside, newton, far)
        moves = moves & (full.count != before) & (some | ((excess > 0.0) & (narrow == 0)))
        moves = moves & (following != tau)
        tau = tl.where(moves, following, tau)
        before = tl.where(following == newton, full.count, -1)
        anchor = tl.where(moves, tau.to(limit.dtype), anchor)
        offset = tl.where(moves, (tau - anchor.to(tl.float64)).to(limit.dtype), offset)
        moves = moves & (narrow == 0)
    return anchor, offset
