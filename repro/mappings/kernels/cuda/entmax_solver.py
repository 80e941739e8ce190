"""The kernel of α-entmax, without sorting.

Memory traffic is at least one read and one write of every entry, 8 bytes in single precision.

For rows of scaled scores ``w = r (z - max z)`` the unknown is ``c`` in ``(0, 1]`` with
``Σ [w + c]_+^{1/r} = 1``. The norm ``‖[w + c]_+‖_{1/r}`` is convex and increasing in ``c`` for
``r <= 1``: Newton's method started at ``c = 1`` descends to the root and never passes it (see
``_threshold.py``). Entries below ``-c``, hence all more than ``1 / r`` below the maximum, have no
mass. Each row stops independently of the others. The root for a subset of the entries is an upper
bound of ``c``: rows that are not held start from it.

Rules: 1 is sparsemax, 2 is 1.5-entmax; 0 is any other order, whose unknown is
``level = -log(c) / r``; 4 is an order above one.
"""

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.elementary import expm1, logarithm, power
from repro.mappings.kernels.cuda.rows import (
    Rows,
    ScaledRows,
    any_of,
    clamped,
    epsilon,
    normalizer,
    read_scaled,
    row_parameters,
    scaled,
    survey_rows,
    write,
)

_PASSES = tl.constexpr(64)  # bounds the loop; Newton's method takes two to ten
_BRACKETED_PASSES = tl.constexpr(100)
"""Maximum number of steps for ``r > 1``: at worst every second one halves the bracket."""
_SMALLEST_ORDER = tl.constexpr(1e-20)
"""Replaces ``r = 0`` (softmax): so small that ``log1p(r x) / r`` is ``x`` to the last bit."""


@triton.jit
def _tile_sums(w, unknown, inverse_order, RULE: tl.constexpr):
    """Return two sums over a tile for a Newton step, with heights ``h = [w + c]_+``.

    They are ``Σ h`` and the size of the support (sparsemax), ``Σ h`` and ``Σ h²`` (1.5-entmax), or
    ``Σ (h / c)^{1/r}`` and ``Σ (h / c)^{1/r - 1}``, where ``unknown`` is ``1 / c``.
    """
    if RULE == 0:
        below = tl.maximum(w * unknown[:, None], -1.0)
        height = below + 1.0
        slope = power(below, height, (inverse_order - 1.0)[:, None])
        second = tl.sum(slope, 1)
        first = tl.sum(slope * height, 1)
    elif RULE == 4:
        # The slope has a negative exponent, so compute it from the share, which is bounded.
        below = tl.maximum(w * unknown[:, None], -1.0)
        height = below + 1.0
        share = power(below, height, inverse_order[:, None])
        first = tl.sum(share, 1)
        second = tl.sum(share / tl.where(height > 0.0, height, 1.0), 1)
    else:
        kept = tl.maximum(w + unknown[:, None], 0.0)
        first = tl.sum(kept, 1)
        second = tl.sum((kept > 0.0).to(w.dtype) if RULE == 1 else kept * kept, 1)
    return first, second


@triton.jit
def _sums(
    held, rows, unknown, inverse_order, RULE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr
):
    """Return two sums over whole rows for a Newton step; see :func:`_tile_sums`."""
    if HELD:
        first, second = _tile_sums(held, unknown, inverse_order, RULE)
    else:
        first, second = tl.zeros(unknown.shape, held.dtype), tl.zeros(unknown.shape, held.dtype)
        for start in range(0, rows.n, N):
            w = read_scaled(rows, start, N, held.dtype)
            more, again = _tile_sums(w, unknown, inverse_order, RULE)
            first, second = first + more, second + again
    return first, second


@triton.jit
def _excess(first, second, RULE: tl.constexpr):
    """Return the amount by which a Newton step lowers ``c``."""
    if RULE == 1:
        excess = (first - 1.0) / tl.maximum(second, 1.0)
    else:
        norm = tl.sqrt(second)
        excess = norm * (norm - 1.0) / tl.maximum(first, 1e-30)
    return excess


@triton.jit
def _rational_threshold(held, rows, c, RULE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr):
    """Return ``c`` for rules 1 and 2, descending from a bound, and the step still to take."""
    tolerance = 4.0 * epsilon(held.dtype)
    first, second = _sums(held, rows, c, c, RULE, N, HELD)
    excess = _excess(first, second, RULE)
    moves = excess > tolerance * c
    passes = 0
    while (passes < _PASSES) & any_of(moves):
        c = tl.where(moves, c - excess, c)
        first, second = _sums(held, rows, c, c, RULE, N, HELD)
        excess = _excess(first, second, RULE)
        moves = moves & (excess > tolerance * c)
        passes += 1
    return c, excess


@triton.jit
def _growth(order, level):
    """Return ``1 / c``, kept finite."""
    return tl.exp(tl.minimum(order * level, 80.0))


@triton.jit
def _gap_and_cut(level, order, total, slope):
    """Return ``gap = level - log Σ`` and Newton's cut of ``c``, ``(1 - e^{r gap}) Σ / slope``."""
    total = tl.maximum(total.to(tl.float64), 1e-30)
    gap = level - tl.log(total)
    cut = -expm1(order * gap) * total / tl.maximum(slope.to(tl.float64), 1e-30)
    return gap, tl.minimum(cut, 1.0 - 1e-12)


@triton.jit
def _newton_level(held, rows, order, level, N: tl.constexpr, HELD: tl.constexpr):
    """Return the level if ``r <= 1``, ascending from a lower bound, and the cut still to take."""
    tolerance = 4.0 * epsilon(held.dtype)
    inverse_order = (1.0 / order).to(held.dtype)
    growth = _growth(order, level).to(held.dtype)
    first, second = _sums(held, rows, growth, inverse_order, 0, N, HELD)
    gap, cut = _gap_and_cut(level, order, first, second)
    moves = (order <= 1.0) & (gap < -tolerance)
    passes = 0
    while (passes < _PASSES) & any_of(moves):
        following = level - logarithm(-cut, 1.0 - cut) / order
        moves = moves & (following > level)
        level = tl.where(moves, following, level)
        growth = _growth(order, level).to(held.dtype)
        first, second = _sums(held, rows, growth, inverse_order, 0, N, HELD)
        gap, cut = _gap_and_cut(level, order, first, second)
        moves = moves & (gap < -tolerance)
        passes += 1
    return level, cut


@triton.jit
def _bracketed_level(
    held, rows, order, level, NARROW: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr
):
    """Return the level, computed for rows with ``r > 1`` and unchanged for the others.

    For ``r > 1``, ``h(level) = level - log Σ`` is not convex: its slope is infinite where an entry
    enters the support. A Newton step is taken if it stays in the bracket of the root and the
    residual has halved since the last step; else the bracket is halved. Since ``h`` has a slope of
    at least one, the residual also bounds the distance to the root. All shares rise with ``c``, so
    it bounds their errors too: iteration ends when these are below the precision of ``NARROW``.
    """
    tolerance = (4.0 if NARROW == tl.float64 else 0.0625) * epsilon(NARROW)  # noqa: SIM300
    inverse_order = (1.0 / order).to(held.dtype)
    low = tl.zeros(level.shape, tl.float64)
    tried, high, last = low, low + tl.log(low + rows.n), low + float("inf")
    moves = order > 1.0
    passes = 0
    while (passes < _BRACKETED_PASSES) & any_of(moves):
        growth = _growth(order, tried).to(held.dtype)
        first, second = _sums(held, rows, growth, inverse_order, 4, N, HELD)
        gap, cut = _gap_and_cut(tried, order, first, second)
        low = tl.maximum(low, tl.where(gap < 0.0, tried, tried - gap))
        high = tl.minimum(high, tl.where(gap < 0.0, tried - gap, tried))
        newton = tried - logarithm(-cut, 1.0 - cut) / order
        fast = (newton > low) & (newton < high) & (tl.abs(gap) < 0.5 * last)
        following = tl.where(fast, newton, 0.5 * (low + high))
        moves = moves & (tl.abs(gap) > tolerance) & (following > low) & (following < high)
        tried, last = tl.where(moves, following, tried), tl.abs(gap)
        passes += 1
    return tl.where(order > 1.0, tried, level)


@triton.jit
def _shares(w, unknown, step, exponent, RULE: tl.constexpr):
    """Return the distribution up to a factor.

    The last step is applied to the differences ``w + c``, which are small and so have a finer
    resolution than ``c``; this matters if many entries are tied close to the threshold.
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
def _solve(
    chunk, rows, out, order, bad, empty,
    RULE: tl.constexpr, COMPUTE: tl.constexpr,
    N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Compute the rows of a program in the precision ``COMPUTE`` and write them."""
    held = scaled(chunk, rows.shift, rows.scale, COMPUTE)
    if RULE == 0:
        level = tl.zeros(order.shape, tl.float64)
        level, cut = _newton_level(held, rows, order, level, N, True)
        if not HELD:
            level, cut = _newton_level(held, rows, order, level, N, False)
        # Orders above one are always computed in double precision.
        if COMPUTE == tl.float64:  # noqa: SIM300
            level = _bracketed_level(held, rows, order, level, out.base.dtype.element_ty, N, HELD)
        step = tl.where(order > 1.0, 0.0, cut).to(COMPUTE)
        unknown = _growth(order, level).to(COMPUTE)
    else:
        unknown = tl.full(order.shape, 1.0, COMPUTE)
        unknown, step = _rational_threshold(held, rows, unknown, RULE, N, True)
        if not HELD:
            unknown, step = _rational_threshold(held, rows, unknown, RULE, N, False)
    exponent = (1.0 / order).to(COMPUTE)
    if HELD:
        total = tl.sum(_shares(held, unknown, step, exponent, RULE), 1)
    else:
        total = tl.zeros(order.shape, COMPUTE)
        for start in range(0, rows.n, N):
            w = read_scaled(rows, start, N, COMPUTE)
            total += tl.sum(_shares(w, unknown, step, exponent, RULE), 1)
    factor = normalizer(total, empty, bad)
    for start in range(0, rows.n, N):
        w = held if HELD else read_scaled(rows, start, N, COMPUTE)
        write(out, start, N, _shares(w, unknown, step, exponent, RULE) * factor[:, None])


@triton.jit(do_not_specialize=["stride", "number", "count"])
def forward_kernel(
    scores, probs, numbers, stride, number, count, n,
    RULE: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Write distributions.

    For ``r > 1``, powers are not Lipschitz: single precision would leave few
    digits of the smallest entries, so double precision is used for scores of any type.

    Arguments other than those described in ``rows.py``:

        probs: its precision is that of the computation.
        RULE: see the module docstring; only 0 to 2.
        WIDE: compute in double precision; not used with ``ROWS``.
    """
    rows = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    inside = rows < count
    NARROW: tl.constexpr = probs.dtype.element_ty
    out = Rows(probs + rows * n, inside, n)
    chunk, top, bad = survey_rows(Rows(scores + rows * n, inside, n), N, HELD)
    parameter = row_parameters(numbers, stride, number, rows, inside, ROWS)
    order = tl.where(parameter > _SMALLEST_ORDER, parameter, _SMALLEST_ORDER)
    bad = bad | ((parameter >= 0.0) == 0)
    empty = (top == -float("inf")) & (bad == 0)
    top = clamped(top, scores.dtype.element_ty)
    scaled_rows = ScaledRows(scores + rows * n, inside, n, top, order)
    wide = any_of(order > 1.0) if ROWS else WIDE
    if wide:
        _solve(chunk, scaled_rows, out, order, bad, empty, RULE, tl.float64, N, HELD)
    else:
        _solve(chunk, scaled_rows, out, order, bad, empty, RULE, NARROW, N, HELD)
