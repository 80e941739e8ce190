"""Total variation and isotonic regression of rows, in linear time.

Total variation, ``min ½ Σ counts_i (x_i - values_i)² + lam Σ |x_i - x_{i+1}|``, is solved by the
dynamic program of Johnson (2013). The derivative ``f`` of the least cost of the entries so far,
with respect to the level of the last one, is increasing and piecewise linear; it is clipped to
``[-lam, lam]``. Its piece ``k`` is ``(count - times[k]) x - (total - heights[k])``, up to
``knots[k]``. Isotonic regression is solved by pool-adjacent-violators. Arguments and results are
those of the PyTorch versions in :mod:`repro.mappings._segments`. Do not reorder sums: where two
pieces meet, rounding decides whether they merge.
"""

import numpy as np
import torch
from torch import Tensor

from repro.mappings.kernels.cpu.compile import inline, kernel


@inline
def _height(times, heights, knots, piece, count, total):
    """Return ``f`` at the right end of a piece."""
    return (count - times[piece]) * knots[piece] - (total - heights[piece])


@inline
def _crossing(times, heights, piece, count, total, bound):
    """Return where the line of a piece reaches ``bound``."""
    return (total + bound - heights[piece]) / max(count - times[piece], 1.0)


@inline
def sweep(values, counts, size, lam, times, heights, knots, lows, highs):
    """Find where ``f`` reaches ``-lam`` and ``lam`` at every position; return the last level.

    ``counts[i]`` is how many equal entries ``values[i]`` stands for; 0 skips the position.
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
    """Clip levels from last to first; write 1, -1 or 0 where the next is higher, lower or equal."""
    jumps[size - 1] = 0
    for i in range(size - 2, -1, -1):
        jumps[i] = 0
        if level < lows[i]:
            level, jumps[i] = lows[i], -1
        elif level > highs[i]:
            level, jumps[i] = highs[i], 1


@inline
def pool(values, size, totals, sizes):
    """Write totals and sizes of the blocks of equal, decreasing levels; return their number."""
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
    """Write the jumps of the total variation solution of every row; see :func:`trace_back`."""
    count, n = scores.shape
    times, heights, knots = np.empty(2 * n + 1), np.empty(2 * n + 1), np.empty(2 * n + 1)
    lows, highs = np.empty(n), np.empty(n)
    for k in range(count):
        level = sweep(scores[k], present[k], n, lam, times, heights, knots, lows, highs)
        trace_back(level, n, lows, highs, jumps[k])


@kernel
def pool_rows(values, blocks):
    """Write the block index of every entry in the decreasing isotonic regression of its row."""
    count, n = values.shape
    totals, sizes = np.empty(n), np.empty(n)
    for k in range(count):
        i = 0
        for block in range(pool(values[k], n, totals, sizes)):
            for _ in range(int(sizes[block])):
                blocks[k, i] = block
                i += 1


def saturated(scores: Tensor, present: Tensor, lam: float) -> Tensor:
    """Return the jumps (-1, 0, 1) of total variation along the last axis, as ``int8``."""
    jumps = torch.empty(scores.shape, dtype=torch.int8)
    saturate_rows(_rows(scores), _rows(present), lam, _rows(jumps))
    return jumps


def decreasing_blocks(values: Tensor) -> Tensor:
    """Return block indices of the decreasing isotonic regression along the last axis."""
    blocks = torch.empty(values.shape, dtype=torch.long)
    pool_rows(_rows(values), _rows(blocks))
    return blocks


def _rows(tensor: Tensor) -> np.ndarray:
    return tensor.detach().contiguous().view(-1, tensor.size(-1)).numpy()
