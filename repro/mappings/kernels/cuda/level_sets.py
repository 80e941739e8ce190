"""Total variation and decreasing isotonic regression of rows, by recursive cuts at level sets.

Both minimize ``½ Σ (x_i - y_i)² + Σ ψ(x_{i+1} - x_i)``, ``ψ(d) = up [d]_+ + down [-d]_+``: total
variation has ``up = down = λ``, isotonic regression ``up = ∞`` and ``down = 0``. At the solution
``x_i = y_i + u_i - u_{i-1}``, where the force ``u_i`` is ``up`` where ``x`` rises after ``i``,
``-down`` where it falls, between the two inside a constant segment, and zero at both ends of a row.

A row starts as one part. A part between known forces has the mean level ``v``; unless its solution
is constant, it is cut wherever ``x > v`` changes, which fixes the force there (Chambolle & Darbon
2009, "On total variation minimization and surface evolution using parametric maximum flows"). All
parts are cut at once, in two passes over the row:

- From the left, ``F_i = clip(F_{i-1}, -down, up) + v - y_i``, the derivative of the best cost of
  the entries up to ``i`` at ``x_i = v``. Clipped sums compose, so this is a parallel scan. Where
  ``F_i`` is below ``-down``, ``x_i > v``; from ``up`` on it is not; between, ``x_i`` is on the side
  of its right neighbor.
- From the right, the sides are propagated, parts cut, and the means of the new parts summed up.

The number of rounds is the depth of the recursion: two to ten for normally distributed scores.
The state between passes is kept in the two outputs, so that no other workspace is needed.
"""

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.rows import (
    as_double,
    cells,
    clamped,
    largest_of,
    read,
    rows_of,
    survey_rows,
    write,
)

_KIND = tl.constexpr(3)
"""Mask of the kind of an entry: 0 inside a part; at its start, what fixes the force on its left."""
_FIRST = tl.constexpr(1)
_RISES = tl.constexpr(2)
_FALLS = tl.constexpr(3)
_BELOW = tl.constexpr(4)
"""Bit that marks an entry below the level; without either bit it takes its neighbor's side."""
_ABOVE = tl.constexpr(8)
_SIDES = tl.constexpr(12)
_ROUNDING = tl.constexpr(64 * 2.220446049250313e-16)
"""Tolerance of forces, relative to the level, within which a tie is not cut."""


@triton.jit
def _clipped_sum(shift_a, low_a, high_a, shift_b, low_b, high_b):
    """Compose ``x -> clip(x + shift, low, high)``: first ``a``, then ``b``."""
    low = tl.minimum(tl.maximum(low_a + shift_b, low_b), high_b)
    high = tl.minimum(tl.maximum(high_a + shift_b, low_b), high_b)
    return shift_a + shift_b, low, high


@triton.jit
def _latest(level_a, start_a, level_b, start_b):
    """Combine levels and starts of parts in a scan: the part that began last wins."""
    begins = start_b >= 0
    return tl.where(begins, level_b, level_a), tl.where(begins, start_b, start_a)


@triton.jit
def _sides(a, b):
    """Associative operator of a right-to-left scan of sides.

    Bits 2 and 3 hold the side that arrives from the right, bits 4 and 5 the one passed on to the
    left.
    """
    passed = a >> 2
    arrives = tl.where((b & _SIDES) != 0, b & _SIDES, passed & _SIDES)
    leaves = tl.where((b >> 2 & _SIDES) != 0, b >> 2 & _SIDES, passed & _SIDES)
    return arrives | leaves << 2


@triton.jit
def _segment_sum(sum_a, count_a, closed_a, sum_b, count_b, closed_b):
    """Combine sums in a scan from the right that restarts at the last entry of every part."""
    total = tl.where(closed_b > 0, sum_b, sum_a + sum_b)
    count = tl.where(closed_b > 0, count_b, count_a + count_b)
    return total, count, tl.maximum(closed_a, closed_b)


@triton.jit
def _column(values, columns, at):
    """Return one column of a tile, or zeros if it is not in the tile."""
    return tl.sum(tl.where(columns == at, values, 0), 1)


@triton.jit
def _load(rows, top, lam, start, RANKS: tl.constexpr, N: tl.constexpr):
    """Return ``y`` of a chunk relative to the largest score, its columns, and allowed entries.

    Scores too low to matter are raised, so that sums keep their digits.
    """
    scores = read(rows, start, N, -float("inf"))
    columns = (start + tl.arange(0, N))[None, :]
    present = scores > -float("inf")
    value = tl.minimum(scores, largest_of(scores.dtype)).to(tl.float64) - top[:, None]
    if RANKS:
        value = tl.maximum(value, -2.0 - lam * rows.n) + lam * columns
    else:
        value = tl.maximum(value, -1.0 - 4.0 * lam)
    return tl.where(present, value, 0.0), columns, present


@triton.jit
def _force(kind, up, down):
    """Return the force ``u`` at the left end of a part whose start is of this kind."""
    return tl.where(kind == _RISES, up, tl.where(kind == _FALLS, -down, 0.0))


@triton.jit
def _decide(rows, levels, codes, top, lam, up, down, RANKS: tl.constexpr, N: tl.constexpr):
    """Decide in a pass from the left whether entries are above or below the level of their part."""
    infinite = float("inf")
    level_before, derivative_before = tl.zeros_like(top), tl.zeros_like(top)
    for start in range(0, rows.n, N):
        y, columns, present = _load(rows, top, lam, start, RANKS, N)
        kind = read(codes, start, N, 0) & _KIND
        starts = kind > 0
        level = read(levels, start, N, 0.0)
        level, begun = tl.associative_scan(
            (tl.where(starts, level, 0.0), tl.where(starts, columns, -1)), 1, _latest
        )
        level = tl.where(begun >= 0, level, level_before[:, None])
        moved = tl.where(present, level - y, 0.0)
        fixed = _force(kind, up, down) + moved
        low = tl.where(starts, fixed, tl.where(present, moved - down, -infinite))
        high = tl.where(starts, fixed, tl.where(present, moved + up, infinite))
        shift, low, high = tl.associative_scan((moved, low, high), 1, _clipped_sum)
        derivative = tl.minimum(tl.maximum(derivative_before[:, None] + shift, low), high)
        tie = _ROUNDING * (1.0 + tl.abs(level))
        last = columns == rows.n - 1
        above = derivative < tl.where(last, 0.0, -down) - tie
        below = last | (derivative >= up)
        side = tl.where(above, _ABOVE, tl.where(below, _BELOW, 0))
        side = tl.where(present | last, side, 0)
        write(codes, start, N, kind | side)
        level_before = _column(level, columns, start + N - 1)
        derivative_before = _column(derivative, columns, start + N - 1)


@triton.jit
def _cut(rows, levels, codes, top, lam, up, down, RANKS: tl.constexpr, N: tl.constexpr):
    """Cut parts in a pass from the right where ``x_i - v`` changes sign; return the number of cuts.

    The new parts' means, with the forces at both ends, are the levels of the next round.
    A neighbor's code may be written while it is read, which is harmless: only a start is added,
    which also follows from the sides.
    """
    n = rows.n
    cuts = tl.zeros(top.shape, tl.int32)
    side_after, sum_after = tl.zeros(top.shape, tl.int32), tl.zeros_like(top)
    count_after = sum_after
    chunks = tl.cdiv(n, N)
    for k in range(chunks):
        start = (chunks - 1 - k) * N
        y, columns, present = _load(rows, top, lam, start, RANKS, N)
        code = read(codes, start, N, 0)
        pointers, valid = cells(codes, start, N)
        left = tl.load(pointers - 1, mask=valid & (columns > 0), other=0) & _SIDES
        right_kind = tl.load(pointers + 1, mask=valid & (columns < n - 1), other=0) & _KIND
        kind, side = code & _KIND, code & _SIDES
        forced = tl.where(kind == _RISES, _ABOVE, tl.where(kind == _FALLS, _BELOW, 0))
        passed = tl.where(kind > 0, forced, side)
        arriving = tl.associative_scan(passed << 2, 1, _sides, reverse=True) & _SIDES
        arriving = tl.where(arriving > 0, arriving, side_after[:, None])
        own = tl.where(side > 0, side, arriving)
        new = valid & (kind == 0) & (left > 0) & (left != own)
        kind = tl.where(new, tl.where(left == _ABOVE, _FALLS, _RISES), kind)
        write(codes, start, N, kind | side)
        turns = (right_kind == 0) & (side > 0) & (arriving > 0) & (side != arriving)
        right_kind = tl.where(turns, tl.where(side == _ABOVE, _FALLS, _RISES), right_kind)
        closes = (right_kind > 0) | (columns >= n - 1)
        held = tl.where(columns < n, y + _force(right_kind, up, down), 0.0)
        parts = held, (present & valid).to(tl.float64), closes.to(tl.int32)
        total, count, closed = tl.associative_scan(parts, 1, _segment_sum, reverse=True)
        total = tl.where(closed > 0, total, total + sum_after[:, None])
        count = tl.where(closed > 0, count, count + count_after[:, None])
        mean = (total - _force(kind, up, down)) / tl.maximum(count, 1.0)
        tl.store(levels.base[:, None] + columns, mean, mask=valid & (kind > 0))
        cuts += tl.sum(new.to(tl.int32), 1)
        sum_after, count_after = _column(total, columns, start), _column(count, columns, start)
        leaving = tl.where(passed > 0, passed, arriving)
        side_after = _column(leaving, columns, start)
    return tl.sum(cuts, 0)


@triton.jit(do_not_specialize=["parameter", "count"])
def level_set_kernel(
    scores, levels, groups, places, level_out, group_out, parameter, count, n,
    M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Solve total variation of rows, or given ``places`` isotonic regression of sorted rows.

    Arguments other than those described in ``rows.py``, all matrices of one shape but the last:

        scores: of sorted rows in descending order; ``λ`` times the rank is added to each.
        levels: workspace in double precision.
        groups: workspace of integers.
        places: the column of the outputs for each entry of sorted rows, or None.
        level_out: the solutions, in double precision, ``-inf`` where the score is; may be
            ``levels`` without ``places``.
        group_out: the first entries of constant segments; may be ``groups`` without ``places``.
        parameter: ``λ``.
    """
    RANKS: tl.constexpr = places is not None
    scores, codes = rows_of(scores, count, n, M), rows_of(groups, count, n, M)
    levels, inside = rows_of(levels, count, n, M), scores.inside
    level_out, group_out = rows_of(level_out, count, n, M), rows_of(group_out, count, n, M)
    lam = as_double(parameter)
    up, down = lam, lam
    if RANKS:
        up, down = lam + float("inf"), 0.0 * lam
    _scores, top, bad = survey_rows(scores, N, HELD)
    top = clamped(top, scores.base.dtype.element_ty).to(tl.float64)
    # Cuts are valid at any level: the first is one below the largest score, later ones are means.
    for start in range(0, n, N):
        first = ((start + tl.arange(0, N)) == 0)[None, :] & inside[:, None]
        write(codes, start, N, tl.where(first, _FIRST, 0))
        write(levels, start, N, tl.where(first, -1.0, 0.0))
    cuts, rounds = 1, 0
    while (cuts > 0) | (rounds < 2):
        tl.debug_barrier()
        _decide(scores, levels, codes, top, lam, up, down, RANKS, N)
        tl.debug_barrier()
        cuts = _cut(scores, levels, codes, top, lam, up, down, RANKS, N)
        rounds += 1
    tl.debug_barrier()
    # Write the level of every entry and the first entry of its segment.
    level_before, group_before = tl.zeros([M], tl.float64), tl.zeros([M], tl.int32)
    for start in range(0, n, N):
        columns = (start + tl.arange(0, N))[None, :]
        valid = inside[:, None] & (columns < n)
        starts = (read(codes, start, N, 0) & _KIND) > 0
        level = tl.where(starts, read(levels, start, N, 0.0), 0.0)
        group = tl.where(starts, columns, -1)
        level, group = tl.associative_scan((level, group), 1, _latest)
        level = tl.where(group >= 0, level, level_before[:, None])
        group = tl.where(group >= 0, group, group_before[:, None])
        level_before = _column(level, columns, start + N - 1)
        group_before = _column(group, columns, start + N - 1)
        allowed = read(scores, start, N, 0.0) != -float("inf")
        value = tl.where(bad[:, None], float("nan"), tl.where(allowed, level, -float("inf")))
        at = columns
        if RANKS:
            at = read(rows_of(places, count, n, M), start, N, 0)
        # The outputs may be the workspace, so all threads read before any of them writes.
        tl.debug_barrier()
        tl.store(level_out.base[:, None] + at, value, mask=valid)
        tl.store(group_out.base[:, None] + at, group, mask=valid)
