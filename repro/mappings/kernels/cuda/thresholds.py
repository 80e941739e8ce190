"""α-entmax of rows of scaled scores ``w = r (z - max z)``, without sorting.

The unknown is ``c`` in ``(0, 1]`` with ``Σ [w + c]_+^{1/r} = 1``. Its norm of order ``1 / r`` is
convex and increasing in ``c`` for ``r <= 1``: Newton's method started at ``c = 1`` descends to the
root and never passes it (see ``_threshold.py``). Entries below ``-c``, so all that lie more than
``1 / r`` under the maximum, never count. A row stops by itself, whatever the others do. The root
for some of the entries is an upper bound of ``c``: for rows that are not held it is found first.

Rules: 1 is sparsemax, 2 is 1.5-entmax, 3 is normmax with ``α = 2`` (the same roots, not squared);
0 is any other order, whose unknown is ``level = -log(c) / r``; 4 is an order above one.
"""

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.elementary import expm1, log1p, power
from repro.mappings.kernels.cuda.rows import any_of, read, scaled

_PASSES = tl.constexpr(64)
_BRACKETED_PASSES = tl.constexpr(100)
"""Bound on the steps above ``r = 1``: at worst every other one halves the bracket."""


@triton.jit
def epsilon(COMPUTE: tl.constexpr):
    """The distance from one to the next number."""
    double: tl.constexpr = COMPUTE == tl.float64  # noqa: SIM300
    return 2.220446049250313e-16 if double else 1.1920928955078125e-07


@triton.jit
def _tile_sums(w, unknown, slowness, RULE: tl.constexpr):
    """Sums over a tile that a Newton step needs, at ``c``, or at ``1 / c`` for rules 0 and 4."""
    if RULE == 0:
        below = tl.maximum(w * unknown[:, None], -1.0)
        height = below + 1.0
        slope = power(below, height, (slowness - 1.0)[:, None])
        second = tl.sum(slope, 1)
        first = tl.sum(slope * height, 1)
    elif RULE == 4:
        # The slope has a negative exponent: it is derived from the share, which is bounded.
        below = tl.maximum(w * unknown[:, None], -1.0)
        height = below + 1.0
        share = power(below, height, slowness[:, None])
        first = tl.sum(share, 1)
        second = tl.sum(share / tl.where(height > 0.0, height, 1.0), 1)
    else:
        kept = tl.maximum(w + unknown[:, None], 0.0)
        first = tl.sum(kept, 1)
        second = tl.sum((kept > 0.0).to(w.dtype) if RULE == 1 else kept * kept, 1)
    return first, second


@triton.jit
def _sums(
    held, base, inside, n, shift, scale, unknown, slowness,
    RULE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Sums over whole rows that a Newton step needs; see :func:`_tile_sums`."""
    if HELD:
        first, second = _tile_sums(held, unknown, slowness, RULE)
    else:
        first, second = tl.zeros(shift.shape, held.dtype), tl.zeros(shift.shape, held.dtype)
        for start in range(0, n, N):
            chunk = read(base, inside, start, n, N, -float("inf"))
            w = scaled(chunk, shift, scale, held.dtype)
            more, again = _tile_sums(w, unknown, slowness, RULE)
            first, second = first + more, second + again
    return first, second


@triton.jit
def _excess(first, second, RULE: tl.constexpr):
    """Amount by which a Newton step lowers ``c``."""
    if RULE == 1:
        excess = (first - 1.0) / tl.maximum(second, 1.0)
    else:
        norm = tl.sqrt(second)
        excess = norm * (norm - 1.0) / tl.maximum(first, 1e-30)
    return excess


@triton.jit
def closed_threshold(
    held, base, inside, n, shift, scale, c,
    RULE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """``c`` for rules 1 to 3, descending from an upper bound, and the step left to take."""
    tolerance = 4.0 * epsilon(held.dtype)
    first, second = _sums(held, base, inside, n, shift, scale, c, c, RULE, N, HELD)
    excess = _excess(first, second, RULE)
    moves = excess > tolerance * c
    passes = 0
    while (passes < _PASSES) & any_of(moves):
        c = tl.where(moves, c - excess, c)
        first, second = _sums(held, base, inside, n, shift, scale, c, c, RULE, N, HELD)
        excess = _excess(first, second, RULE)
        moves = moves & (excess > tolerance * c)
        passes += 1
    return c, excess


@triton.jit
def growth_at(order, level):
    """``1 / c``, kept finite."""
    return tl.exp(tl.minimum(order * level, 80.0))


@triton.jit
def _gap_and_cut(level, order, total, slope):
    """``level - log Σ``, negative before the root, and the share of ``c`` that Newton takes off."""
    total = tl.maximum(total.to(tl.float64), 1e-30)
    gap = level - tl.log(total)
    cut = -expm1(order * gap) * total / tl.maximum(slope.to(tl.float64), 1e-30)
    return gap, tl.minimum(cut, 1.0 - 1e-12)


@triton.jit
def newton_level(
    held, base, inside, n, shift, scale, order, level,
    N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Level where ``r <= 1``, ascending from a lower bound, and the cut of ``c`` left to take."""
    tolerance = 4.0 * epsilon(held.dtype)
    slowness = (1.0 / order).to(held.dtype)
    growth = growth_at(order, level).to(held.dtype)
    first, second = _sums(held, base, inside, n, shift, scale, growth, slowness, 0, N, HELD)
    gap, cut = _gap_and_cut(level, order, first, second)
    moves = (order <= 1.0) & (gap < -tolerance)
    passes = 0
    while (passes < _PASSES) & any_of(moves):
        following = level - log1p(-cut) / order
        moves = moves & (following > level)
        level = tl.where(moves, following, level)
        growth = growth_at(order, level).to(held.dtype)
        first, second = _sums(held, base, inside, n, shift, scale, growth, slowness, 0, N, HELD)
        gap, cut = _gap_and_cut(level, order, first, second)
        moves = moves & (gap < -tolerance)
        passes += 1
    return level, cut


@triton.jit
def bracketed_level(
    held, base, inside, n, shift, scale, order, level, NARROW: tl.constexpr,
    N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Level of every row with ``r > 1``; the other rows keep theirs.

    ``h(level) = level - log Σ`` is not convex there: its slope is infinite where an entry gets its
    first mass. Newton's step is taken if it stays in the bracket of the root and the residual has
    halved since the last step; else the bracket is halved. Since ``h`` has a slope of at least one,
    the residual also bounds the distance to the root. All shares rise with ``c``, so it bounds
    the error of each of them as well: steps end when a result in ``NARROW`` cannot show more.
    """
    tolerance = (4.0 if NARROW == tl.float64 else 0.0625) * epsilon(NARROW)  # noqa: SIM300
    slowness = (1.0 / order).to(held.dtype)
    low = tl.zeros(shift.shape, tl.float64)
    tried, high, last = low, low + tl.log(low + n), low + float("inf")
    moves = order > 1.0
    passes = 0
    while (passes < _BRACKETED_PASSES) & any_of(moves):
        growth = growth_at(order, tried).to(held.dtype)
        first, second = _sums(held, base, inside, n, shift, scale, growth, slowness, 4, N, HELD)
        gap, cut = _gap_and_cut(tried, order, first, second)
        low = tl.maximum(low, tl.where(gap < 0.0, tried, tried - gap))
        high = tl.minimum(high, tl.where(gap < 0.0, tried - gap, tried))
        newton = tried - log1p(-cut) / order
        fast = (newton > low) & (newton < high) & (tl.abs(gap) < 0.5 * last)
        following = tl.where(fast, newton, 0.5 * (low + high))
        moves = moves & (tl.abs(gap) > tolerance) & (following > low) & (following < high)
        tried, last = tl.where(moves, following, tried), tl.abs(gap)
        passes += 1
    return tl.where(order > 1.0, tried, level)


@triton.jit
def shares(w, unknown, step, exponent, RULE: tl.constexpr):
    """The distribution up to a factor.

    The last step acts on the small differences ``w + c``, whose digits are finer than those of
    ``c``: they matter where many entries are tied close to the threshold.
    """
    if RULE == 0:
        below = tl.maximum(w * unknown[:, None], -1.0)
        positive = below > -1.0
        lowered = tl.where(positive, (below + 1.0) - step[:, None], 0.0)
        share = power(below - step[:, None], tl.maximum(lowered, 0.0), exponent[:, None])
    else:
        kept = w + unknown[:, None]
        share = tl.where(kept > 0.0, tl.maximum(kept - step[:, None], 0.0), 0.0)
        if RULE == 2:
            share = share * share
    return share


@triton.jit
def share_sums(
    held, base, inside, n, shift, scale, unknown, step, exponent,
    RULE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """``Σ p`` and ``Σ p w`` before normalisation."""
    if HELD:
        share = shares(held, unknown, step, exponent, RULE)
        total, moment = tl.sum(share, 1), tl.sum(share * held, 1)
    else:
        total, moment = tl.zeros(shift.shape, held.dtype), tl.zeros(shift.shape, held.dtype)
        for start in range(0, n, N):
            chunk = read(base, inside, start, n, N, -float("inf"))
            w = scaled(chunk, shift, scale, held.dtype)
            share = shares(w, unknown, step, exponent, RULE)
            total, moment = total + tl.sum(share, 1), moment + tl.sum(share * w, 1)
    return total, moment
