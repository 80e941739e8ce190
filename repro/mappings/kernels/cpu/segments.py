"""Total variation and isotonic regression of rows, in linear time.

Total variation is the taut-string method of Johnson (2013), isotonic regression
pool-adjacent-violators; both as in PyTorch, one piece or block at a time. Sums are taken in the
order that is written: where two pieces meet, rounding says whether they are one.
"""

import numpy as np
import torch
from torch import Tensor

from repro.mappings.kernels.cpu.compile import inline, kernel


@inline
def _height(times, heights, knots, piece, count, total):
    """``f`` at the right end of a piece."""
    return (count - times[piece]) * knots[piece] - (total - heights[piece])


@inline
def _crossing(times, heights, piece, count, total, bound):
    """Where the line of a piece reaches ``bound``."""
    return (total + bound - heights[piece]) / max(count - times[piece], 1.0)


@inline
def sweep(values, counts, size, lam, times, heights, knots, lows, highs):
    """Find the two cuts of every position; return the last level.

    A value may stand for several equal neighbours, or for none: its position is then left out.
    """
    first = last = size
    times[first] = heights[first] = count = total = 0.0
    for i in range(size):
        lows[i], highs[i] = -np.inf, np.inf
        if counts[i] == 0:
            continue
        count, total = count + counts[i], total + counts[i] * values[i]
        while first < last and _height(times, heights, knots, first, count, total) <= -lam:
            first += 1
        while first < last and _height(times, heights, knots, last - 1, count, total) >= lam:
            last -= 1
        lows[i] = _crossing(times, heights, first, count, total, -lam)
        highs[i] = _crossing(times, heights, last, count, total, lam)
        first, last = first - 1, last + 1
        times[first], heights[first], knots[first] = count, total - lam, lows[i]
        times[last], heights[last], knots[last - 1] = count, total + lam, highs[i]
    piece = first + 1
    while piece < last - 1 and _height(times, heights, knots, piece, count, total) <= 0:
        piece += 1
    return _crossing(times, heights, min(piece, last), count, total, 0.0)


@inline
def trace_back(level, size, lows, highs, jumps):
    """Write where the level rises and falls, from the last position to the first."""
    jumps[size - 1] = 0
    for i in range(size - 2, -1, -1):
        jumps[i] = 0
        if level < lows[i]:
            level, jumps[i] = lows[i], -1
        elif level > highs[i]:
            level, jumps[i] = highs[i], 1


@inline
def pool(values, size, totals, sizes):
    """Decreasing isotonic regression by pool-adjacent-violators; return how many blocks."""
    top = -1
    for i in range(size):
        total, count = values[i], 1.0
        while top >= 0 and totals[top] * count <= total * sizes[top]:
            total, count = total + totals[top], count + sizes[top]
            top -= 1
        top += 1
        totals[top], sizes[top] = total, count
    return top + 1


@kernel
def saturate_rows(scores, present, lam, jumps):
    """Total variation of every row."""
    count, n = scores.shape
    times, heights, knots = np.empty(2 * n + 1), np.empty(2 * n + 1), np.empty(2 * n + 1)
    lows, highs = np.empty(n), np.empty(n)
    for k in range(count):
        level = sweep(scores[k], present[k], n, lam, times, heights, knots, lows, highs)
        trace_back(level, n, lows, highs, jumps[k])


@kernel
def pool_rows(values, blocks):
    """Decreasing isotonic regression of every row."""
    count, n = values.shape
    totals, sizes = np.empty(n), np.empty(n)
    for k in range(count):
        i = 0
        for block in range(pool(values[k], n, totals, sizes)):
            for _ in range(int(sizes[block])):
                blocks[k, i] = block
                i += 1


def saturated(scores: Tensor, present: Tensor, lam: float) -> Tensor:
    """Total variation along the last axis; arguments and result as in PyTorch."""
    jumps = torch.empty(scores.shape, dtype=torch.int8)
    saturate_rows(_rows(scores), _rows(present), lam, _rows(jumps))
    return jumps


def decreasing_blocks(values: Tensor) -> Tensor:
    """Isotonic regression along the last axis; argument and result as in PyTorch."""
    blocks = torch.empty(values.shape, dtype=torch.long)
    pool_rows(_rows(values), _rows(blocks))
    return blocks


def _rows(tensor: Tensor) -> np.ndarray:
    return tensor.detach().contiguous().view(-1, tensor.size(-1)).numpy()
