"""Kernels that solve a row in every lane, one entry after the other, in linear time.

Scratch memory is laid out entry by entry, so that the lanes of a warp touch neighbours. A program
of ``LANES`` rows has as many threads, so that every lane reads what it wrote itself.
Floors, beyond reading and writing every entry: the scratch memory stays in the caches for short
rows; what is waited for is the latency of one entry after the other.
"""

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.rows import any_of, as_double, clamped, largest_of


@triton.jit
def _piece(times, heights, knots, place, valid):
    """Time, height and right end of a piece."""
    time = tl.load(times + place, mask=valid, other=0.0)
    height = tl.load(heights + place, mask=valid, other=0.0)
    return time, height, tl.load(knots + place, mask=valid, other=0.0)


@triton.jit
def _height(times, heights, knots, place, valid, taken, total):
    """``f`` at the right end of a piece."""
    time, height, knot = _piece(times, heights, knots, place, valid)
    return (taken - time) * knot - (total - height)


@triton.jit
def _crossing(times, heights, place, taken, total, bound):
    """Where the line of a piece reaches ``bound``."""
    run = taken - tl.load(times + place)
    return (total + bound - tl.load(heights + place)) / tl.maximum(run, 1.0)


@triton.jit
def _tops(base, inside, n):
    """The largest score of every lane, and whether there is a NaN."""
    top = tl.load(base, mask=inside, other=-float("inf"))
    bad = top != top
    top = tl.where(bad, -float("inf"), top)
    for i in range(1, n):
        score = tl.load(base + i, mask=inside, other=-float("inf"))
        nan = score != score
        bad = bad | nan
        top = tl.maximum(top, tl.where(nan, -float("inf"), score))
    return clamped(top, base.dtype.element_ty).to(tl.float64), bad


@triton.jit
def _advance(times, heights, knots, slots, width, first, last, taken, total, lam, present):
    """Cut pieces off at both ends; return the ends that are left and where ``f`` is cut there."""
    cut = present & (first < last)
    cut = cut & (_height(times, heights, knots, first * width + slots, cut, taken, total) <= -lam)
    while any_of(cut):
        first = tl.where(cut, first + 1, first)
        cut = cut & (first < last)
        cut = cut & (
            _height(times, heights, knots, first * width + slots, cut, taken, total) <= -lam
        )
    cut = present & (first < last)
    cut = cut & (
        _height(times, heights, knots, (last - 1) * width + slots, cut, taken, total) >= lam
    )
    while any_of(cut):
        last = tl.where(cut, last - 1, last)
        cut = cut & (first < last)
        cut = cut & (
            _height(times, heights, knots, (last - 1) * width + slots, cut, taken, total) >= lam
        )
    low = _crossing(times, heights, first * width + slots, taken, total, -lam)
    high = _crossing(times, heights, last * width + slots, taken, total, lam)
    return first, last, low, high


@triton.jit
def _sweep(
    base, inside, times, heights, knots, lows, highs, slots, width, top, lam, n,
    LANES: tl.constexpr,
):  # fmt: skip
    """Find the two cuts of every position; return the last level."""
    largest = largest_of(base.dtype.element_ty)
    first = tl.zeros([LANES], tl.int64) + n
    last, zero = first, tl.zeros([LANES], tl.float64)
    taken, total = zero, zero
    tl.store(times + first * width + slots, zero)
    tl.store(heights + first * width + slots, zero)
    for i in range(n):
        score = tl.load(base + i, mask=inside, other=-float("inf"))
        present = score > -float("inf")
        value = tl.minimum(score, largest).to(tl.float64) - top
        value = tl.where(value > -(1.0 + 4.0 * lam), value, -(1.0 + 4.0 * lam))
        taken = tl.where(present, taken + 1.0, taken)
        total = tl.where(present, total + value, total)
        first, last, low, high = _advance(
            times, heights, knots, slots, width, first, last, taken, total, lam, present
        )
        tl.store(lows + i * width + slots, tl.where(present, low, -float("inf")))
        tl.store(highs + i * width + slots, tl.where(present, high, float("inf")))
        tl.store(knots + last * width + slots, high, mask=present)
        first, last = tl.where(present, first - 1, first), tl.where(present, last + 1, last)
        left, right = first * width + slots, last * width + slots
        tl.store(times + left, taken, mask=present)
        tl.store(heights + left, total - lam, mask=present)
        tl.store(knots + left, low, mask=present)
        tl.store(times + right, taken, mask=present)
        tl.store(heights + right, total + lam, mask=present)
    piece = tl.minimum(first + 1, last)
    more = piece < last - 1
    more = more & (_height(times, heights, knots, piece * width + slots, more, taken, total) <= 0.0)
    while any_of(more):
        piece = tl.where(more, piece + 1, piece)
        more = more & (piece < last - 1)
        value = _height(times, heights, knots, piece * width + slots, more, taken, total)
        more = more & (value <= 0.0)
    return _crossing(times, heights, piece * width + slots, taken, total, zero)


@triton.jit(do_not_specialize=["number", "count"])
def taut_string_kernel(scores, levels, groups, scratch, number, count, n, LANES: tl.constexpr):
    """Total variation of every row; see ``_total_variation.py`` for the algorithm.

    Beside the arguments that ``rows.py`` describes:

        scores: a matrix.
        levels: the same shape, double precision, written; ``-inf`` where nothing is allowed.
        groups: the same shape, written: numbers of the segments from the end.
        scratch: double precision, ``8 n + 3`` numbers for every lane of the grid.
        number: the bits of ``λ``.
    """
    lanes = tl.arange(0, LANES)
    width = tl.num_programs(0).to(tl.int64) * LANES
    slots = tl.program_id(0).to(tl.int64) * LANES + lanes
    area = (2 * n + 1) * width
    times, heights, knots = scratch, scratch + area, scratch + 2 * area
    lows = scratch + 3 * area
    highs = lows + n * width
    lam = tl.zeros([LANES], tl.float64) + as_double(number)
    for block in range(tl.program_id(0), tl.cdiv(count, LANES), tl.num_programs(0)):
        rows = block * LANES + lanes.to(tl.int64)
        inside = rows < count
        base = scores + rows * n
        top, bad = _tops(base, inside, n)
        level = _sweep(
            base, inside, times, heights, knots, lows, highs, slots, width, top, lam, n, LANES
        )
        group = tl.zeros([LANES], tl.int32)
        for step in range(n):
            i = n - 1 - step
            low = tl.load(lows + i * width + slots)
            high = tl.load(highs + i * width + slots)
            clips = (step > 0) & ((level < low) | (level > high))
            level = tl.where(clips, tl.where(level < low, low, high), level)
            group = tl.where(clips, group + 1, group)
            allowed = tl.load(base + i, mask=inside, other=0.0) != -float("inf")
            value = tl.where(allowed, level, -float("inf"))
            value = tl.where(bad, float("nan"), value)
            tl.store(levels + rows * n + i, value, mask=inside)
            tl.store(groups + rows * n + i, group, mask=inside)


@triton.jit(do_not_specialize=["number", "count"])
def pool_kernel(ordered, order, levels, groups, scratch, number, count, n, LANES: tl.constexpr):
    """Decreasing isotonic regression of sorted scores plus ``λ`` times their ranks.

    Beside the arguments that ``rows.py`` describes:

        ordered: a matrix, every row with the largest score first.
        order: the same shape: where they stood.
        levels, groups: written where the scores stood: values, and blocks from the end.
        scratch: double precision, ``2 n`` numbers for every lane of the grid.
        number: the bits of ``λ``.
    """
    lanes = tl.arange(0, LANES)
    width = tl.num_programs(0).to(tl.int64) * LANES
    slots = tl.program_id(0).to(tl.int64) * LANES + lanes
    totals, sizes = scratch, scratch + n * width
    lam = tl.zeros([LANES], tl.float64) + as_double(number)
    for block in range(tl.program_id(0), tl.cdiv(count, LANES), tl.num_programs(0)):
        rows = block * LANES + lanes.to(tl.int64)
        inside = rows < count
        base, places = ordered + rows * n, order + rows * n
        top = tl.load(base, mask=inside, other=0.0)
        bad = top != top
        top = clamped(tl.where(bad, 0.0, top), base.dtype.element_ty).to(tl.float64)
        total, size, depth = _pool(base, inside, totals, sizes, slots, width, top, lam, n, LANES)
        left, group = size, tl.zeros([LANES], tl.int32)
        for step in range(n):
            i = n - 1 - step
            ended = left < 0.5
            depth = tl.where(ended, depth - 1, depth)
            place = depth * width + slots
            total = tl.where(ended, tl.load(totals + place, mask=ended, other=0.0), total)
            size = tl.where(ended, tl.load(sizes + place, mask=ended, other=1.0), size)
            left = tl.where(ended, size, left) - 1.0
            group = tl.where(ended, group + 1, group)
            score = tl.load(base + i, mask=inside, other=0.0)
            value = tl.where(score == -float("inf"), -float("inf"), total / size)
            value = tl.where(bad, float("nan"), value)
            target = rows * n + tl.load(places + i, mask=inside, other=0)
            tl.store(levels + target, value, mask=inside)
            tl.store(groups + target, group, mask=inside)


@triton.jit
def _pool(base, inside, totals, sizes, slots, width, top, lam, n, LANES: tl.constexpr):
    """Pool adjacent violators; return the last block and how many are stacked below it."""
    largest = largest_of(base.dtype.element_ty)
    depth = tl.zeros([LANES], tl.int64)
    total, size = tl.zeros([LANES], tl.float64), tl.zeros([LANES], tl.float64)
    for i in range(n):
        score = tl.minimum(tl.load(base + i, mask=inside, other=0.0), largest).to(tl.float64) - top
        value = tl.where(score > -2.0 - lam * n, score, -2.0 - lam * n) + lam * i
        keeps = (size > 0.0) & (total > value * size)
        place = depth * width + slots
        tl.store(totals + place, total, mask=keeps)
        tl.store(sizes + place, size, mask=keeps)
        depth = tl.where(keeps, depth + 1, depth)
        total, size = tl.where(keeps, 0.0, total) + value, tl.where(keeps, 0.0, size) + 1.0
        pools = (keeps == 0) & (depth > 0)
        while any_of(pools):
            place = (depth - 1) * width + slots
            before = tl.load(totals + place, mask=pools, other=0.0)
            length = tl.load(sizes + place, mask=pools, other=1.0)
            pools = pools & (before * size <= total * length)
            total, size = (
                tl.where(pools, total + before, total),
                tl.where(pools, size + length, size),
            )
            depth = tl.where(pools, depth - 1, depth)
            pools = pools & (depth > 0)
    return total, size, depth
