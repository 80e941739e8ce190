"""The threshold of softmax under upper bounds, without sorting; conventions of ``boxes.py``."""

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.boxes import capped, load_bounds
from repro.mappings.kernels.cuda.rows import any_of, clamped, largest_of, read


@triton.jit
def capped_shares(score, bound, anchor, offset):
    """``exp(z - τ)`` where the bound is not zero, zero elsewhere, and whether the bound is met."""
    distance = (score - anchor[:, None]) - offset[:, None]
    share = tl.where(bound > 0.0, tl.exp(tl.minimum(distance, 80.0)), 0.0)
    return share, (bound > 0.0) & (share >= bound)


@triton.jit
def _leaders(score, bound, anchor, offset):
    """Mass that is full, entries that are full, and the largest score of the others."""
    _share, full = capped_shares(score, bound, anchor, offset)
    free = (bound > 0.0) & (full == 0)
    top = tl.max(tl.where(free, score, -float("inf")), 1)
    return tl.sum(tl.where(full, bound, 0.0), 1), tl.sum(full.to(tl.int32), 1), top


@triton.jit
def _free_sum(score, bound, anchor, offset, top):
    """``Σ exp(z - top)`` over the entries that are not full."""
    _share, full = capped_shares(score, bound, anchor, offset)
    free = (bound > 0.0) & (full == 0)
    return tl.sum(tl.where(free, tl.exp(tl.minimum(score - top[:, None], 0.0)), 0.0), 1)


@triton.jit
def _softmax_pass(
    held, bounds, base, uppers, inside, n, limit, anchor, offset,
    MODE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """The next threshold, and how many entries were full at this one."""
    score, bound = capped(held, bounds, limit, MODE)
    spent, count, top = _leaders(score, bound, anchor, offset)
    if not HELD:
        for start in range(N, n, N):
            more = read(base, inside, start, n, N, -float("inf"))
            upper = load_bounds(uppers, more, inside, start, n, MODE, N)
            score, bound = capped(more, upper, limit, MODE)
            a, b, c = _leaders(score, bound, anchor, offset)
            spent, count, top = spent + a, count + b, tl.maximum(top, c)
    top = clamped(top, held.dtype)
    score, bound = capped(held, bounds, limit, MODE)
    total = _free_sum(score, bound, anchor, offset, top)
    if not HELD:
        for start in range(N, n, N):
            more = read(base, inside, start, n, N, -float("inf"))
            upper = load_bounds(uppers, more, inside, start, n, MODE, N)
            score, bound = capped(more, upper, limit, MODE)
            total += _free_sum(score, bound, anchor, offset, top)
    left = tl.maximum((limit - spent).to(tl.float64), 1e-300)
    moved = top.to(tl.float64) + tl.log(tl.maximum(total.to(tl.float64), 1e-300)) - tl.log(left)
    idle = (total == 0.0) | (limit - spent <= 0.0)
    return moved, count, idle


@triton.jit
def softmax_threshold(
    held, bounds, base, uppers, inside, n, limit,
    MODE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """``τ = a + δ`` with ``Σ min(exp(z - τ), u)`` equal to the limit.

    ``τ`` for a set of full entries is that of softmax over the others. It falls as entries become
    full, and none ever stops being full, so it is final once their number is.
    """
    largest = largest_of(held.dtype)
    anchor = tl.full(limit.shape, largest, held.dtype)
    offset = tl.zeros(limit.shape, held.dtype)
    before = tl.full(limit.shape, -1, tl.int32)
    moves = limit > 0.0
    passes = 0
    while (passes <= n + 1) & any_of(moves):
        moved, count, idle = _softmax_pass(
            held, bounds, base, uppers, inside, n, limit, anchor, offset, MODE, N, HELD
        )
        moves = moves & (idle == 0) & ((count > before) | (passes == 0))
        near = moved.to(held.dtype)
        anchor = tl.where(moves, near, anchor)
        offset = tl.where(moves, (moved - near.to(tl.float64)).to(held.dtype), offset)
        before = tl.where(moves, count, before)
        passes += 1
    return anchor, offset
