"""Sparsemax and 1.5-entmax of the rows of a tile."""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import lean
from repro.mappings.kernels.cpu.lanes import load, load_first, store, store_first
from repro.mappings.kernels.cpu.tiles import LINE, width_of
from repro.mappings.kernels.cpu.vectors import both, count, maximum, splat, sqrt, where

_PASSES = 64
COARSE = 1e-2
"""Excess mass that may be left where ``c`` is only a bound."""


@lean
def linear_sums(tile, columns, c):
    """``Σ [w + c]_+`` and how many are positive."""
    zero, one = splat(tile.dtype.type(0)), splat(tile.dtype.type(1))
    width, total, size, others, more = width_of(tile), zero, zero, zero, zero
    for k in range(0, columns * width, LINE * width):
        a, b = maximum(load(tile, k) + c, zero), maximum(load(tile, k + width) + c, zero)
        total += a + b
        size += where(a > zero, one, zero) + where(b > zero, one, zero)
        a = maximum(load(tile, k + 2 * width) + c, zero)
        b = maximum(load(tile, k + 3 * width) + c, zero)
        others += a + b
        more += where(a > zero, one, zero) + where(b > zero, one, zero)
    return total + others, size + more


@lean
def square_sums(tile, columns, c):
    """``Σ [w + c]_+`` and the sum of the squares."""
    zero = splat(tile.dtype.type(0))
    width, total, second, others, more = width_of(tile), zero, zero, zero, zero
    for k in range(0, columns * width, LINE * width):
        a, b = maximum(load(tile, k) + c, zero), maximum(load(tile, k + width) + c, zero)
        total += a + b
        second += a * a + b * b
        a = maximum(load(tile, k + 2 * width) + c, zero)
        b = maximum(load(tile, k + 3 * width) + c, zero)
        others += a + b
        more += a * a + b * b
    return total + others, second + more


@lean
def newton_step(tile, columns, c, order):
    """By how much Newton lowers ``c``, and how far the norm exceeds one."""
    if order == 1.0:
        total, size = linear_sums(tile, columns, c)
        return (total - 1.0) / size, total - 1.0
    total, second = square_sums(tile, columns, c)
    norm = sqrt(second)
    return norm * (norm - 1.0) / total, norm - 1.0


@lean
def last_excess(tile):
    """Excess mass from which one more step leaves no more than rounding, but where it has kinks."""
    return math.sqrt(np.finfo(tile.dtype).eps) / 10.0


@lean
def descend(tile, columns, c, order, enough):
    """``c`` of every lane up to an excess mass, from above, and the step that is left to take.

    ``c`` stays above the root by more than its rounding: just below it, entries tied at the
    threshold would be out of the support, and nothing would bring them back.
    """
    step, above = c - c, 2.0 * np.finfo(tile.dtype).eps
    for _ in range(_PASSES):
        step, residual = newton_step(tile, columns, c, order)
        lower = (c - step) + above
        moves = both(residual > enough, lower < c)
        if count(moves) == 0:
            break
        c = where(moves, lower, c)
    return c, step


@lean
def share_of(w, c, step, linear):
    """What a candidate gets before it is normalised.

    The last step acts on the small differences ``w + c``, whose digits are finer than those of
    ``c``: they matter where many entries are tied close to the threshold.
    """
    lowered = maximum((w + c) - step, 0.0)
    return lowered if linear else lowered * lowered


@lean
def total_of(tile, columns, c, step, order):
    """``Σ p`` before it is one, and ``Σ p w``.

    What the first sum loses to rounding is added up as well, as it is compared with one.
    """
    width, linear = width_of(tile), order == 1.0
    total = moment = lost = c - c
    for k in range(0, columns * width, width):
        w = load(tile, k)
        share = share_of(w, c, step, linear)
        following = total + share
        lost += (total - following) + share
        total = following
        moment += share * w
    return total + lost, moment


@lean
def write_row(row, top, order, c, step, scale, out):
    """Write the distribution of a row."""
    size, width, linear = row.shape[0], width_of(row), order == 1.0
    whole = size // width * width
    for j in range(0, whole, width):
        store(out, j, share_of((load(row, j) - top) * order, c, step, linear) * scale)
    rest = load_first(row, whole, size - whole, -np.inf)
    share = share_of((rest - top) * order, c, step, linear) * scale
    store_first(out, whole, size - whole, share)
