"""Launchers and kernels of sq-pnorm-max and of its derivative."""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from repro.mappings.kernels.cuda import policy
from repro.mappings.kernels.cuda.elementary import logarithms, power
from repro.mappings.kernels.cuda.launch import bits, run_tiles
from repro.mappings.kernels.cuda.rows import (
    ScaledRows,
    any_of,
    as_double,
    clamped,
    epsilon,
    normalizer,
    read,
    read_scaled,
    read_where,
    row_parameters,
    rows_of,
    scaled,
    survey_rows,
    write,
)


def sq_pnorm_max_forward(scores: Tensor, p: float) -> Tensor:
    """Compute sq-pnorm-max along the last axis."""
    rows = scores.contiguous()
    probs, dual = torch.empty_like(rows), p / (p - 1)
    run_tiles(pnorm_kernel, policy.POWERS, rows.element_size(), rows, probs, bits(dual))
    return probs


def sq_pnorm_max_backward(probs: Tensor, grad: Tensor, p: float) -> Tensor:
    """Return ``J g`` for the Jacobian ``J`` of sq-pnorm-max."""
    rows = probs.contiguous()
    out, size = torch.empty_like(rows), 2 * rows.element_size()
    run_tiles(pnorm_backward_kernel, policy.POWERS, size, rows, grad.contiguous(), out, bits(p))
    return out


@triton.jit
def _heights(w, near, rest):
    """Return ``w / c`` and ``h = [w / c + 1]_+`` for ``c = near + rest``.

    Entries tied close to the threshold have no digits in ``w / c + 1``. They have in ``w + near``,
    which is exact, so ``c`` is a sum of two numbers.
    """
    growth = (1.0 / (near + rest))[:, None]
    height = tl.maximum((w + near[:, None]) + rest[:, None], 0.0) * growth
    return tl.maximum(w * growth, -1.0), height


@triton.jit
def _sums(held, rows, near, rest, dual, N: tl.constexpr, HELD: tl.constexpr):
    """Return ``Σ h^{q-2}``, ``Σ h^{q-1}`` and ``Σ h^q``; see :func:`_heights`."""
    count = tl.zeros(near.shape, held.dtype)
    first, total = count, count
    for start in range(0, N if HELD else rows.n, N):
        w = held if HELD else read_scaled(rows, start, N, held.dtype)
        below, height = _heights(w, near, rest)
        share = power(below, height, (dual - 2.0).to(w.dtype)[:, None])
        count += tl.sum(share, 1)
        share = share * height
        first += tl.sum(share, 1)
        total += tl.sum(share * height, 1)
    return count, first, total


@triton.jit
def _threshold(held, rows, dual, empty, N: tl.constexpr, HELD: tl.constexpr):
    """Return ``c`` of every row as a number of their precision and a rest, and ``Σ h^{q-1}`` there.

    Newton's step is replaced by bisection if it leaves the bracket of the root or is longer than
    half of the one before, so that in two steps one or the other is halved. The last step is one
    within rounding, but the mass at its end must be right as well: thousands of entries that are
    as close to the threshold may enter with it.
    """
    rounding = 4.0 * epsilon(held.dtype)
    c = tl.zeros(dual.shape, tl.float64) + 1.0
    high, last, total = c, c, (0.0 * c).to(held.dtype)
    near, rest, close = total, total, c < 0.0
    low = 0.5 * tl.exp(-2.0 / dual * tl.log(c * rows.n))
    moves = empty == 0
    while any_of(moves):
        # Mass Σ y at -τ = c, and its derivative in c.
        part = c.to(held.dtype)
        near = tl.where(moves, part, near)
        rest = tl.where(moves, (c - part.to(tl.float64)).to(held.dtype), rest)
        count, total, square = _sums(held, rows, near, rest, dual, N, HELD)
        first = total.to(tl.float64)
        squares = tl.maximum(square.to(tl.float64), 1e-30)
        norm = tl.exp((2.0 / dual - 1.0) * tl.log(squares))
        curved = (dual - 1.0) * count.to(tl.float64) - (dual - 2.0) * first * first / squares
        mass, slope = c * first * norm, tl.maximum(curved * norm, 1e-30)
        newton = (1.0 - mass) / slope
        low, high = tl.where(mass < 1.0, c, low), tl.where(mass < 1.0, high, c)
        settled = close & (tl.abs(mass - 1.0) <= 4.0 * rounding)
        close = tl.abs(newton) <= rounding * c
        moves = moves & (settled == 0) & (high - low > 4.0 * epsilon(tl.float64) * c)
        following = c + newton
        safe = (following >= low) & (following <= high) & (2.0 * tl.abs(newton) <= tl.abs(last))
        step = tl.where(safe, newton, 0.5 * (low + high) - c)
        c, last = tl.where(moves, c + step, c), tl.where(moves, step, last)
    return near, rest, total


@triton.jit(do_not_specialize=["parameter", "count"])
def pnorm_kernel(
    scores, probs, parameter, count, n, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr
):
    """Write sq-pnorm-max at ``γ = 1``: ``y ∝ [z - τ]_+^{q-1}``; see ``_norm.py``.

    ``parameter`` is the dual order ``q = p / (p - 1)``; others are described in ``rows.py``.
    """
    NARROW: tl.constexpr = scores.dtype.element_ty
    rows, out = rows_of(scores, count, n, M), rows_of(probs, count, n, M)
    chunk, top, bad = survey_rows(rows, N, HELD)
    empty = (top == -float("inf")) & (bad == 0)
    shift, one = clamped(top, NARROW), tl.full([M], 1.0, tl.float64)
    rows = ScaledRows(rows.base, rows.inside, n, shift, one)
    dual, held = row_parameters(parameter, 0, count, M), scaled(chunk, shift, one, NARROW)
    near, rest, total = _threshold(held, rows, dual, empty, N, HELD)
    factor = normalizer(total, top, bad)
    for start in range(0, n, N):
        w = held if HELD else read_scaled(rows, start, N, NARROW)
        below, height = _heights(w, near, rest)
        share = power(below, height, (dual - 1.0).to(NARROW)[:, None])
        write(out, start, N, share * factor[:, None])


@triton.jit
def _load_pair(probs, grads, start, N: tl.constexpr):
    """Read the shares of a chunk, NaN as zero, and the gradients where there is mass."""
    share = read(probs, start, N, 0.0)
    share = tl.where(share > 0.0, share, 0.0)
    return share, read_where(grads, share > 0.0, start, N)


class _PnormSums(NamedTuple):
    """Sums over a row of ``y^p``, ``y^{2-p}``, ``y^{2-p} g`` and ``y g``."""

    powers: Any
    slopes: Any
    tilted: Any
    inner: Any


@triton.jit
def _pnorm_sums(share, grad, p):
    """Return the :class:`_PnormSums` of a chunk."""
    support, logs = share > 0.0, logarithms(share)
    powers = tl.sum(tl.where(support, tl.exp(p * logs), 0.0), 1)
    slope = tl.where(support, tl.exp((2.0 - p) * logs), 0.0)
    return _PnormSums(powers, tl.sum(slope, 1), tl.sum(slope * grad, 1), tl.sum(share * grad, 1))


@triton.jit(do_not_specialize=["parameter", "count"])
def pnorm_backward_kernel(
    probs, grads, out, parameter, count, n, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr
):
    """Write ``K g - w <w, g> / Σw``, ``K = diag(s) - κ y yᵀ`` and ``w = K 1``; see ``_norm.py``.

    ``parameter`` is ``p``; other arguments are described in ``rows.py``.
    """
    p = as_double(parameter).to(probs.dtype.element_ty)
    probs, grads = rows_of(probs, count, n, M), rows_of(grads, count, n, M)
    out = rows_of(out, count, n, M)
    share, grad = _load_pair(probs, grads, 0, N)
    sums = _pnorm_sums(share, grad, p)
    if not HELD:
        for start in range(N, n, N):
            share, grad = _load_pair(probs, grads, start, N)
            more = _pnorm_sums(share, grad, p)
            sums = _PnormSums(
                sums.powers + more.powers, sums.slopes + more.slopes,
                sums.tilted + more.tilted, sums.inner + more.inner,
            )  # fmt: skip
    logs = tl.log(tl.where(sums.powers > 0.0, sums.powers, 1.0)) / p
    scale = tl.exp((p - 2.0) * logs) / (p - 1.0)
    kappa = (2.0 - p) / (p - 1.0) * tl.exp(-2.0 * logs)
    total = scale * sums.slopes - kappa
    mean = (scale * sums.tilted - kappa * sums.inner) / tl.where(total > 0.0, total, 1.0)
    inner = sums.inner - mean
    for start in range(0, n, N):
        if not HELD:
            share, grad = _load_pair(probs, grads, start, N)
        slope = scale[:, None] * tl.exp((2.0 - p) * logarithms(share))
        moved = slope * (grad - mean[:, None]) - kappa[:, None] * share * inner[:, None]
        write(out, start, N, tl.where(share > 0.0, moved, 0.0))
