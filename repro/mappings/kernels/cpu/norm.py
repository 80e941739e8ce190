"""Sq-pnorm-max (Niculae & Blondel 2017): solver, derivative, launchers.

With ``x = z - max z`` and the unknown ``c = -τ`` in ``(0, 1]`` it is ``y ∝ ρ^e`` with
``ρ = [1 + x / c]_+``, ``e = 1 / (p - 1)`` and ``c Σ ρ^e ‖ρ‖_{e+1}^{1-e} = 1``. Entries at or below
-1 have no mass.

Newton's method starts at ``c = 1``, an upper bound, and stops when a step is below ``1e-14 c``; a
step that leaves the bracket, or is longer than half of the one before, is replaced by bisection.
Only entries that can have mass are considered, and all computation is in double precision.
"""

import math

import numpy as np
import torch
from torch import Tensor

from repro.mappings.kernels.cpu import blocks, simd
from repro.mappings.kernels.cpu.compile import inline, kernel, matrix
from repro.mappings.kernels.cpu.elementary import power
from repro.mappings.kernels.cpu.parallel import run

_PASSES = 100
"""Maximum number of iterations; Newton's method needs about six, bisection 53."""
_ROUNDING = 1e-14  # about that of the three sums
_FORWARD, _BACKWARD = 4, 2
"""Cost of an entry, relative to one that is only read and written."""


@inline
def _raised(below, height, exponent):
    """Return ``ρ^e``, ``ρ = 1 + below``; ``e = 2``, of the default ``p = 1.5``, needs no powers."""
    if exponent == 2.0:
        return height * height
    return power(below, height, simd.zeros_like(height) + exponent)


@inline
def _sums(block, columns, c, exponent):
    """Return ``Σ ρ^{e-1}``, ``Σ ρ^e`` and ``Σ ρ^{e+1}``; store ``ρ^e`` in ``shares``."""
    width, growth = blocks.width_of(block.w), 1.0 / c
    lower = first = upper = simd.zeros_like(c)
    for k in range(0, columns * width, width):
        below = simd.maximum(simd.load(block.w, k) * growth, -1.0)
        height = below + 1.0
        share = _raised(below, height, exponent)
        simd.store(block.shares, k, share)
        lower += share / simd.where(height > 0.0, height, 1.0)
        first += share
        upper += share * height
    return (
        blocks.along_row(block, lower),
        blocks.along_row(block, first),
        blocks.along_row(block, upper),
    )


@inline
def _find_root(block, columns, exponent, usual):
    """Return ``c`` of every row, by Newton's method in a bracket, started at its upper end."""
    low = simd.zeros_like(simd.load(block.tops, 0))
    c = high = last = low + 1.0
    moves, share = usual, low + (exponent - 1.0) / (exponent + 1.0)
    for _ in range(_PASSES):
        # The left-hand side of the equation, which is one at the root, and its derivative in c.
        lower, first, upper = _sums(block, columns, c, exponent)
        inverse = 1.0 / simd.maximum(upper, 1.0)
        norm = power(inverse - 1.0, inverse, share)
        curved = exponent * lower - (exponent - 1.0) * first * first / upper
        mass, slope = c * first * norm, curved * norm
        low, high = simd.where(mass < 1.0, c, low), simd.where(mass < 1.0, high, c)
        newton = (1.0 - mass) / slope
        moves &= simd.magnitude(newton) > _ROUNDING * c
        if simd.count(moves) == 0:
            break
        reached = c + newton
        safe = (low <= reached) & (reached <= high) & (2.0 * simd.magnitude(newton) <= last)
        step = simd.where(safe, newton, 0.5 * (low + high) - c)
        last = simd.where(moves, simd.magnitude(step), last)
        c = simd.where(moves, c + step, c)
    return c


@inline
def _solve_rows(rows, exponent, probs, block, start, stop):
    """Compute sq-pnorm-max of rows, given the exponent ``e``."""
    simd.store(block.r_of_rows, 0, simd.splat(1.0))
    for first in range(start, stop, blocks.rows_in(block)):
        last = min(first + blocks.rows_in(block), stop) - 1
        blocks.take_lane_maxima(block, rows, first, last)
        one = simd.zeros_like(simd.load(block.tops, 0)) + 1.0
        blocks.set_limits(block, one, one, np.finfo(rows.dtype).eps)
        columns = blocks.take_candidates(block, rows, first, last)
        usual = (simd.load(block.invalid, 0) == 0.0) & (simd.load(block.peaks, 0) > -np.inf)
        c = _find_root(block, columns, exponent, usual)
        _, total, _ = _sums(block, columns, c, exponent)
        simd.store(block.scales, 0, 1.0 / total)
        blocks.pack(block, columns, blocks.stride_of(rows))
        for i in range(first, last + 1):
            k = i - first
            if block.invalid[k] > 0.0 or block.peaks[k] == -np.inf:
                blocks.fill(probs[i], math.nan if block.invalid[k] > 0.0 else 0.0)
            else:
                blocks.scatter(
                    rows[i], block.limits[k], block.packed, k * blocks.stride_of(rows), probs[i]
                )


@kernel
def _pnorm_rows(kind, scores, exponent, probs, size, start, stop):
    rows = matrix(scores, kind, stop, size)
    block = blocks.new_block(rows, np.empty(0), size <= blocks.TILED)
    _solve_rows(rows, exponent, matrix(probs, kind, stop, size), block, start, stop)
    return 0


# The derivative is computed for entries with mass only, in double precision.


@inline
def _raise_share(share, exponent):
    """Return ``share^exponent`` for a share in ``(0, 1]``."""
    if exponent == 0.5:
        return math.sqrt(share)
    return share**exponent


@inline
def _differentiate_row(support, p):
    """Write ``J v`` on the support, which is not empty.

    ``J v = K v - w <w, v> / Σ w``, the inverse Hessian ``K = diag(s) - κ y yᵀ`` and ``w = K 1``.
    """
    shares, vector, slopes = support.shares, support.grads, support.slopes
    count = support.sizes[0]
    total = along = 0.0
    for k in range(count):
        total += shares[k] * _raise_share(shares[k], p - 1.0)
        along += shares[k] * vector[k]
    norm = total ** (1.0 / p)
    curve = (2.0 - p) / ((p - 1.0) * norm * norm)
    weight = weighted = 0.0
    for k in range(count):
        slopes[k] = _raise_share(shares[k] / norm, 2.0 - p) / (p - 1.0)
        one = slopes[k] - curve * shares[k]
        weight += one
        weighted += one * vector[k]
    mean = weighted / weight
    for k in range(count):
        one = slopes[k] - curve * shares[k]
        support.results[k] = slopes[k] * vector[k] - curve * shares[k] * along - one * mean


@inline
def _differentiate(probs, grads, p, out, support, start, stop):
    for i in range(start, stop):
        blocks.take_support(support, 0, probs[i], grads[i])
        if support.sizes[0] > 0:
            _differentiate_row(support, p)
        blocks.scatter(probs[i], 0.0, support.results, 0, out[i])


@kernel
def _pnorm_backward_rows(kind, probs, grads, p, out, size, start, stop):
    rows = matrix(probs, kind, stop, size)
    _differentiate(
        rows, matrix(grads, kind, stop, size), p, matrix(out, kind, stop, size),
        blocks.new_support(rows, np.empty(0)), start, stop,
    )  # fmt: skip
    return 0


def sq_pnorm_max_forward(scores: Tensor, p: float) -> Tensor:
    """Compute sq-pnorm-max along the last axis."""
    scores = scores.contiguous()
    probs = torch.empty_like(scores)
    run(_pnorm_rows, scores, _FORWARD, scores, 1.0 / (p - 1.0), probs)
    return probs


def sq_pnorm_max_backward(probs: Tensor, grad: Tensor, p: float) -> Tensor:
    """Return ``J g`` for the Jacobian ``J`` of sq-pnorm-max."""
    probs, grad = probs.contiguous(), grad.contiguous()
    out = torch.empty_like(probs)
    run(_pnorm_backward_rows, probs, _BACKWARD, probs, grad, p, out)
    return out
