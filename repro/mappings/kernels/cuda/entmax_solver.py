"""The kernel of α-entmax, without sorting.

Of a row that is too long to be held, the two largest entries of each column over all chunks are: if
all that have mass are among them, as in rows with a small support, the row is read once.

For rows of scaled scores ``w = r (z - max z)`` the unknown is ``c`` in ``(0, 1]`` with
``Σ [w + c]_+^{1/r} = 1``. The norm ``‖[w + c]_+‖_{1/r}`` is convex and increasing in ``c`` for
``r <= 1``: Newton's method started at ``c = 1`` descends to the root and never passes it (see
``_threshold.py``). Entries below ``-c``, hence all more than ``1 / r`` below the maximum, have no
mass. Each row stops independently of the others. The root for a subset of the entries is an upper
bound of ``c``, and is ``c`` if no other entry is above its negative.

For ``r > 1`` powers are not Lipschitz, and the share of an entry close to the threshold needs more
digits of its height than ``c`` has. There the unknowns are the lowest entry with mass, found in a
bracket of the level, and its height.

Rules are ``sparsemax``; ``entmax15``; ``general`` for any other ``r`` up to one, whose unknown is
``level = -log(c) / r``; ``above_2`` for an ``r`` above one, which is an ``α`` above two; ``by_row``
for an ``r`` of each row, some above one.

Solvers look at ``held`` entries with ``HELD``, else they read whole ``rows`` in each pass. Newton's
method takes two to ten passes; loops are bounded by 64.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.elementary import expm1, logarithm, power
from repro.mappings.kernels.cuda.rows import (
    ScaledRows,
    any_of,
    clamped,
    epsilon,
    normalizer,
    read_scaled,
    row_parameters,
    rows_of,
    scaled,
    select_rows,
    write,
    write_pairs,
)


@triton.jit
def _kept(w, c, rest):
    """Return ``[w + c - rest]_+``; entries tied next to ``-c`` have digits that ``c`` lacks."""
    return tl.maximum((w + c[:, None]) - rest[:, None], 0.0)


@triton.jit
def _sums(held, rows, unknown, other, RULE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr):
    """Return two sums over rows for a Newton step, with heights ``h = [w + c]_+``.

    They are ``Σ h`` and the size of the support (sparsemax), ``Σ h`` and ``Σ h²`` (1.5-entmax),
    where ``c = unknown - other``; or ``Σ (h / c)^{1/r}`` and ``Σ (h / c)^{1/r - 1}``, where
    ``unknown`` is ``1 / c`` and ``other`` is ``1 / r``.
    """
    first, second = tl.zeros(unknown.shape, held.dtype), tl.zeros(unknown.shape, held.dtype)
    for start in range(0, N if HELD else rows.n, N):
        w = held if HELD else read_scaled(rows, start, N, held.dtype)
        if RULE == "sparsemax" or RULE == "entmax15":
            kept = _kept(w, unknown, other)
            first += tl.sum(kept, 1)
            second += tl.sum((kept > 0.0).to(w.dtype) if RULE == "sparsemax" else kept * kept, 1)
        else:
            below = tl.maximum(w * unknown[:, None], -1.0)
            height = below + 1.0
            if RULE == "general":
                slope = power(below, height, (other - 1.0)[:, None])
                share = slope * height
            else:  # the exponent of the slope is negative; the share is bounded
                share = power(below, height, other[:, None])
                slope = share / tl.where(height > 0.0, height, 1.0)
            first += tl.sum(share, 1)
            second += tl.sum(slope, 1)
    return first, second


@triton.jit
def _excess(first, second, RULE: tl.constexpr):
    """Return the amount by which a Newton step lowers ``c``."""
    if RULE == "sparsemax":
        excess = (first - 1.0) / tl.maximum(second, 1.0)
    else:
        norm = tl.sqrt(second)
        excess = norm * (norm - 1.0) / tl.maximum(first, 1e-30)
    return excess


@triton.jit
def _rational_threshold(held, rows, c, RULE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr):
    """Return ``c`` of a rational rule, descending from a bound, and the step still to take."""
    tolerance, rest = 4.0 * epsilon(held.dtype), 0.0 * c
    excess, moves, passes = rest, c > 0.0, 0
    while any_of(moves):
        first, second = _sums(held, rows, c, rest, RULE, N, HELD)
        excess = _excess(first, second, RULE)
        moves = moves & (excess > tolerance * c) & (passes < 64)
        c = tl.where(moves, c - excess, c)
        passes += 1
    return c, excess


@triton.jit
def _rest(held, rows, c, rest, RULE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr):
    """Return the sum of further steps, which are below the rounding of ``c``, and the mass.

    Thousands of entries within that rounding have a mass that counts. Newton's method goes on until
    the mass is right; it is for most rows after the first step, which is given.
    """
    mass, moves, passes = c, c > 0.0, 0
    while any_of(moves):
        first, second = _sums(held, rows, c, rest, RULE, N, HELD)
        mass = first if RULE == "sparsemax" else second
        moves = moves & (mass > 1.0 + 4.0 * epsilon(held.dtype)) & (passes < 64)
        rest = tl.where(moves, rest + _excess(first, second, RULE), rest)
        passes += 1
    return rest, mass


@triton.jit
def _growth(r, level):
    """Return ``1 / c``, kept finite."""
    return tl.exp(tl.minimum(r * level, 80.0))


@triton.jit
def _gap_and_cut(level, r, total, slope):
    """Return ``gap = level - log Σ`` and Newton's cut of ``c``, ``(1 - e^{r gap}) Σ / slope``."""
    total = tl.maximum(total.to(tl.float64), 1e-30)
    gap = level - tl.log(total)
    cut = -expm1(r * gap) * total / tl.maximum(slope.to(tl.float64), 1e-30)
    return gap, tl.minimum(cut, 1.0 - 1e-12)


@triton.jit
def _newton_level(held, rows, r, level, N: tl.constexpr, HELD: tl.constexpr):
    """Return the level if ``r <= 1``, ascending from a lower bound, and the cut still to take."""
    tolerance = 4.0 * epsilon(held.dtype)
    inverse_r = (1.0 / r).to(held.dtype)
    cut, moves, passes = 0.0 * level, r <= 1.0, 0
    while any_of(moves):
        growth = _growth(r, level).to(held.dtype)
        first, second = _sums(held, rows, growth, inverse_r, "general", N, HELD)
        gap, cut = _gap_and_cut(level, r, first, second)
        following = level - logarithm(-cut, 1.0 - cut) / r
        moves = moves & (gap < -tolerance) & (following > level) & (passes < 64)
        level = tl.where(moves, following, level)
        passes += 1
    return level, cut


@triton.jit
def _level_bracket(held, rows, r, N: tl.constexpr, HELD: tl.constexpr):
    """Return a bracket of the level for ``r > 1``, so narrow that few entries are undecided.

    ``h(level) = level - log Σ`` is not convex: its slope is infinite where an entry enters the
    support. It is at least one elsewhere, so the residual bounds the distance to the root. A Newton
    step is taken if it stays in the bracket and the residual has halved since the last step, else
    the bracket is halved: the width of one of them halves in at least every second step.
    """
    inverse_r = (1.0 / r).to(held.dtype)
    low = tl.zeros(r.shape, tl.float64)
    tried, high, last = low, low + tl.log(low + rows.n), low + float("inf")
    moves = r > 1.0
    while any_of(moves):
        growth = tl.exp(tl.minimum(r * tried, 700.0))  # finite
        first, second = _sums(held, rows, growth, inverse_r, "above_2", N, HELD)
        gap, cut = _gap_and_cut(tried, r, first, second)
        low = tl.where(moves, tl.maximum(low, tl.where(gap < 0.0, tried, tried - gap)), low)
        high = tl.where(moves, tl.minimum(high, tl.where(gap < 0.0, tried - gap, tried)), high)
        newton = tried - logarithm(-cut, 1.0 - cut) / r
        fast = (newton > low) & (newton < high) & (tl.abs(gap) < 0.5 * last)
        moves = moves & (high - low > 1e-4)
        tried, last = tl.where(fast, newton, 0.5 * (low + high)), tl.abs(gap)
    return low, high


@triton.jit
def _kinks(held, rows, low, middle, high, N: tl.constexpr, HELD: tl.constexpr):
    """Return the lowest entry in ``[middle, high)`` and the highest in ``(low, middle)``, or 1, -2.

    Entries are scaled scores, which lie in [-2, 0].
    """
    upper = tl.full(middle.shape, 1.0, held.dtype)
    lower = upper - 3.0
    for start in range(0, N if HELD else rows.n, N):
        w = held if HELD else read_scaled(rows, start, N, held.dtype)
        above = (w >= middle[:, None]) & (w < high[:, None])
        below = (w > low[:, None]) & (w < middle[:, None])
        upper = tl.minimum(upper, tl.min(tl.where(above, w, 1.0), 1))
        lower = tl.maximum(lower, tl.max(tl.where(below, w, -2.0), 1))
    return upper, lower


@triton.jit
def _raised(w, base, height):
    """Return ``(w - base) + height``, zero below the base: all digits of the least heights."""
    return tl.where(w >= base[:, None], (w - base[:, None]) + height[:, None], 0.0)


@triton.jit
def _height_sums(held, rows, base, height, inverse_r, N: tl.constexpr, HELD: tl.constexpr):
    """Return ``Σ h^{1/r}`` and ``Σ h^{1/r - 1}`` for ``h = (w - base) + height``."""
    mass, slope = tl.zeros(base.shape, tl.float64), tl.zeros(base.shape, tl.float64)
    for start in range(0, N if HELD else rows.n, N):
        w = held if HELD else read_scaled(rows, start, N, tl.float64)
        raised = _raised(w, base, height)
        share = power(raised - 1.0, raised, inverse_r[:, None])
        mass += tl.sum(share, 1)
        slope += tl.sum(share / tl.where(raised > 0.0, raised, 1.0), 1)
    return mass, slope


@triton.jit
def _base(held, rows, r, low, high, N: tl.constexpr, HELD: tl.constexpr):
    """Return the lowest entry with mass, given a bracket of the level, for ``r > 1``.

    An entry has mass if the entries above it, less this entry, have less than all. Of the entries
    that the bracket leaves undecided, the one next to the middle of their range is tried, which
    halves the range or leaves no entry in its upper half.
    """
    inverse_r = 1.0 / r
    # c is rounded at the ends of the bracket, by less than 1e-14 of it.
    out = -(1.0 + 1e-14) * tl.exp(-r * low)
    base = -(1.0 - 1e-14) * tl.exp(-r * high)
    # The lowest entry that surely has mass; at least the largest has.
    base, _lower = _kinks(held, rows, base, base, 0.0 * base + 0.5, N, HELD)
    moves = r > 1.0
    while any_of(moves):
        upper, lower = _kinks(held, rows, out, 0.5 * (out + base), base, N, HELD)
        tried = tl.where(upper < 1.0, upper, lower)
        moves = moves & (tried > -2.0)
        tried = tl.where(moves, tried, base)
        mass, _slope = _height_sums(held, rows, tried, 0.0 * tried, inverse_r, N, HELD)
        out = tl.where(moves & (mass >= 1.0), tried, out)
        base = tl.where(moves & (mass < 1.0), tried, base)
    return base


@triton.jit
def _base_height(held, rows, r, base, low, N: tl.constexpr, HELD: tl.constexpr):
    """Return the height of the lowest entry with mass for ``r > 1``; ``low`` bounds the level.

    In the share ``u`` of that entry, ``Σ ((w - base) + u^r)^{1/r}`` is a sum of norms
    ``‖(b, u)‖_r``, which are convex and increase, with a slope of at least one. So Newton's steps
    from an upper bound never pass the root, and each divides the product of residual and slope by
    at least four.
    """
    inverse_r, least = 1.0 / r, 0.0 * low + 1e-300
    c = tl.exp(-r * low)
    height = tl.minimum(tl.maximum((base + c) + 2e-14 * c, least), 1.0)
    share = tl.exp(inverse_r * tl.log(height))
    moves = r > 1.0
    while any_of(moves):
        mass, slope = _height_sums(held, rows, base, height, inverse_r, N, HELD)
        slope = tl.maximum(slope * height / share, 1.0)
        excess = mass - 1.0
        moves = moves & (excess > 16.0 * epsilon(tl.float64)) & (excess < slope * share)
        share = tl.where(moves, share - excess / slope, share)
        height = tl.where(moves, tl.maximum(tl.exp(r * tl.log(share)), least), height)
        # What is left of the excess is at most r / (u slope) times half its square.
        moves = moves & (r * excess * excess > epsilon(tl.float64) * slope * share)
    return height


@triton.jit
def shares(w, unknown, step, r, RULE: tl.constexpr):
    """Return the distribution up to a factor.

    For ``r <= 1`` the last step is applied to the differences ``w + c``, as in :func:`_kept`. For
    ``r > 1`` the two numbers are the lowest entry with mass and its height.
    """
    if RULE == "sparsemax" or RULE == "entmax15":
        share = _kept(w, unknown, step)
        if RULE == "entmax15":
            share = share * share
    else:
        below = tl.maximum(w * unknown[:, None], -1.0)
        height = tl.where(below > -1.0, tl.maximum((below + 1.0) - step[:, None], 0.0), 0.0)
        below = below - step[:, None]
        if RULE != "general":
            raised, above = _raised(w, unknown, step), (r > 1.0)[:, None]
            height, below = tl.where(above, raised, height), tl.where(above, raised - 1.0, below)
        share = power(below, height, (1.0 / r).to(w.dtype)[:, None])
    return share


@triton.jit
def _has_mass(w, unknown, step, r, RULE: tl.constexpr):
    """Return whether an entry of each row has mass, by the numbers of :func:`shares`.

    It may be below the lowest entry with mass for which these were found.
    """
    if RULE == "sparsemax" or RULE == "entmax15":
        height = (w + unknown) - step
    else:
        height = (tl.maximum(w * unknown, -1.0) + 1.0) - step
        if RULE != "general":
            height = tl.where(r > 1.0, (w - unknown) + step, height)
    return height > 0.0


class Solution(NamedTuple):
    """Solution of the rows of a program.

    Attributes:
        bound: an upper bound of ``c``, or for rules of powers a lower bound of the level.
        unknown: the first number of :func:`shares`.
        step: the second one.
        total: the sum of the shares.
        moment: ``Σ shares w``, if it is asked for.
        head: ``(1 - c) / r`` in double precision, if it is asked for.
    """

    bound: Any
    unknown: Any
    step: Any
    total: Any
    moment: Any
    head: Any


@triton.jit
def _solution(
    held, rows, r, bound,
    RULE: tl.constexpr, LOSS: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Solve from a bound of the unknown."""
    head = tl.zeros(r.shape, tl.float64)
    total = tl.zeros(r.shape, held.dtype)
    moment = total
    if RULE == "sparsemax" or RULE == "entmax15":
        bound, step = _rational_threshold(held, rows, bound, RULE, N, HELD)
        unknown = bound
        step, total = _rest(held, rows, unknown, step, RULE, N, HELD)
        if LOSS:
            head = ((1.0 - unknown.to(tl.float64)) + step.to(tl.float64)) / r
    else:
        unknown, step = total, total
        if RULE != "above_2":
            bound, cut = _newton_level(held, rows, r, bound, N, HELD)
            unknown, step = _growth(r, bound).to(held.dtype), cut.to(held.dtype)
            if LOSS:  # c is (1 - cut) e^{-r level}
                decay = expm1(-r * bound)
                head = ((1.0 + decay) * cut - decay) / r
        if RULE != "general":
            low, high = _level_bracket(held, rows, r, N, HELD)
            base = _base(held, rows, r, low, high, N, HELD)
            height = _base_height(held, rows, r, base, low, N, HELD)
            unknown = tl.where(r > 1.0, base, unknown)
            step = tl.where(r > 1.0, height, step)
            if LOSS:
                head = ((1.0 - height) + base) / r
    if LOSS or (RULE != "sparsemax" and RULE != "entmax15"):
        total = moment
        for start in range(0, N if HELD else rows.n, N):
            w = held if HELD else read_scaled(rows, start, N, held.dtype)
            share = shares(w, unknown, step, r, RULE)
            total += tl.sum(share, 1)
            if LOSS:
                moment += tl.sum(share * w, 1)
    return Solution(bound, unknown, step, total, moment, head)


@triton.jit
def solve_rows(
    selected, rows, r,
    RULE: tl.constexpr, LOSS: tl.constexpr, COMPUTE: tl.constexpr,
    N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Solve the rows of a program in the precision ``COMPUTE``.

    The solution for the held entries is that of the whole row if no other entry has mass by it.
    If one has, the row is read again in every pass.

    Returns:
        The held entries, scaled, the :class:`Solution`, and whether other entries have mass.
    """
    held = scaled(selected.scores, rows.shift, rows.scale, COMPUTE)
    if RULE == "sparsemax" or RULE == "entmax15":
        bound = tl.full(r.shape, 1.0, COMPUTE)
    else:
        bound = tl.zeros(r.shape, tl.float64)
    solution = _solution(held, rows, r, bound, RULE, LOSS, N, True)
    others = any_of(r < 0.0)  # false, of the type that the branch assigns
    if not HELD:
        other = tl.max(scaled(selected.other[:, None], rows.shift, rows.scale, COMPUTE), 1)
        others = any_of(_has_mass(other, solution.unknown, solution.step, r, RULE))
        if others:
            solution = _solution(held, rows, r, solution.bound, RULE, LOSS, N, False)
    return held, solution, others


@triton.jit
def _solve(
    selected, rows, out, r, bad,
    RULE: tl.constexpr, COMPUTE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Compute the rows of a program in the precision ``COMPUTE`` and write them."""
    held, solution, others = solve_rows(selected, rows, r, RULE, False, COMPUTE, N, HELD)
    unknown, step = solution.unknown, solution.step
    factor = normalizer(solution.total, selected.top, bad)
    if HELD:
        write(out, 0, N, shares(held, unknown, step, r, RULE) * factor[:, None])
    elif others:
        for start in range(0, rows.n, N):
            w = read_scaled(rows, start, N, COMPUTE)
            write(out, start, N, shares(w, unknown, step, r, RULE) * factor[:, None])
    else:
        write_pairs(out, selected.starts, N, shares(held, unknown, step, r, RULE), factor)


@triton.jit(do_not_specialize=["parameter", "stride", "count"])
def forward_kernel(
    scores, probs, parameter, stride, count, n,
    RULE: tl.constexpr, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Write distributions.

    For ``r > 1``, powers are not Lipschitz: single precision would leave few digits of the smallest
    entries, so double precision is used for scores of any type.

    Arguments other than those described in ``rows.py``:

        probs: its precision is that of the computation.
        parameter: ``r``.
        RULE: see the module docstring.
    """
    rows, out = rows_of(scores, count, n, M), rows_of(probs, count, n, M)
    NARROW: tl.constexpr = probs.dtype.element_ty
    selected = select_rows(rows, N, HELD)
    given = row_parameters(parameter, stride, count, M)
    # In place of r = 0 (softmax), a number so small that log1p(r x) / r is x to the last bit.
    r = tl.where(given > 1e-20, given, 1e-20)
    bad = selected.bad | ((given >= 0.0) == 0)
    top = clamped(selected.top, scores.dtype.element_ty)
    within = ScaledRows(rows.base, rows.inside, n, top, r)
    if RULE == "above_2":
        _solve(selected, within, out, r, bad, "above_2", tl.float64, N, HELD)
    elif RULE != "by_row":
        _solve(selected, within, out, r, bad, RULE, NARROW, N, HELD)
    elif any_of(r > 1.0):
        _solve(selected, within, out, r, bad, "by_row", tl.float64, N, HELD)
    else:
        _solve(selected, within, out, r, bad, "general", NARROW, N, HELD)
