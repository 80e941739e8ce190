"""Normmax and sq-pnorm-max: solver, derivatives, launchers.

With ``x = z - max z`` and the unknown ``c = -τ`` in ``(0, 1]`` both are ``p ∝ ρ^e`` with
``ρ = [1 + x / c]_+``. Normmax (Blondel et al. 2020) has ``e = 1 / (α - 1)`` and
``c ‖ρ‖_{e+1} = 1``; sq-pnorm-max (Niculae & Blondel 2017) has ``e = 1 / (p - 1)`` and
``c Σ ρ^e ‖ρ‖_{e+1}^{1-e} = 1``. Entries at or below -1 have no mass.

Newton's method starts at ``c = 1``, an upper bound, and stops when a step is below ``1e-14 c``; a
step that leaves the bracket, or is longer than half of the one before, is replaced by bisection.
Only entries that can have mass are considered, and all computation is in double precision.
"""

import math

import numpy as np
import torch
from torch import Tensor

from repro.mappings.kernels.cpu.blocks import (
    TILED,
    along_row,
    fill,
    new_block,
    new_support,
    number_of_row,
    pack,
    rows_in,
    scatter,
    set_limits,
    stride_of,
    take_candidates,
    take_lane_maxima,
    take_support,
    width_of,
)
from repro.mappings.kernels.cpu.compile import inline, kernel, matrix, vector
from repro.mappings.kernels.cpu.elementary import power
from repro.mappings.kernels.cpu.parallel import run
from repro.mappings.kernels.cpu.simd import (
    count,
    load,
    magnitude,
    maximum,
    store,
    where,
    zeros_like,
)

_PASSES = 100
"""Maximum number of iterations; Newton's method needs about six, bisection 53."""
_ROUNDING = 1e-14
_FORWARD, _BACKWARD = 4, 2
"""Cost of an entry, relative to one that is only read and written."""


@inline
def _raised(below, height, exponent, plain):
    """Return ``ρ^e``, ``ρ = 1 + below``; ``plain`` is 1 or 2 if ``e`` is that in all rows."""
    if plain == 1.0:
        return height
    if plain == 2.0:
        return height * height
    return power(below, height, exponent)


@inline
def _sums(block, columns, c, exponent, plain):
    """Return ``Σ ρ^{e-1}``, ``Σ ρ^e`` and ``Σ ρ^{e+1}``; store ``ρ^e`` in ``shares``."""
    width, growth = width_of(block.w), 1.0 / c
    lower = first = upper = zeros_like(c)
    for k in range(0, columns * width, width):
        below = maximum(load(block.w, k) * growth, -1.0)
        height = below + 1.0
        share = _raised(below, height, exponent, plain)
        store(block.shares, k, share)
        lower += share / where(height > 0.0, height, 1.0)
        first += share
        upper += share * height
    return along_row(block, lower), along_row(block, first), along_row(block, upper)


@inline
def _find_root(block, columns, exponent, plain, squared, usual):
    """Return ``c`` of every row, by Newton's method in a bracket, started at its upper end."""
    low = zeros_like(exponent)
    c = high = last = low + 1.0
    moves = usual
    for _ in range(_PASSES):
        # The left-hand side of the equation, which is one at the root, and its derivative in c.
        lower, first, upper = _sums(block, columns, c, exponent, plain)
        inverse = 1.0 / maximum(upper, 1.0)
        if squared:
            norm = power(inverse - 1.0, inverse, (exponent - 1.0) / (exponent + 1.0))
            curved = exponent * lower - (exponent - 1.0) * first * first / upper
            mass, slope = c * first * norm, curved * norm
        else:
            norm = 1.0 / power(inverse - 1.0, inverse, 1.0 / (exponent + 1.0))
            mass, slope = c * norm, norm * first / upper
        low, high = where(mass < 1.0, c, low), where(mass < 1.0, high, c)
        newton = (1.0 - mass) / slope
        moves &= magnitude(newton) > _ROUNDING * c
        if count(moves) == 0:
            break
        reached = c + newton
        safe = (low <= reached) & (reached <= high) & (2.0 * magnitude(newton) <= last)
        step = where(safe, newton, 0.5 * (low + high) - c)
        last = where(moves, magnitude(step), last)
        c = where(moves, c + step, c)
    return c


@inline
def _solve_rows(rows, exponent, exponents, squared, probs, block, start, stop):
    """Compute normmax or sq-pnorm-max of rows, given the exponents ``e``."""
    block.orders[:] = 1.0
    for first in range(start, stop, rows_in(block)):
        last, plain = min(first + rows_in(block), stop) - 1, exponent
        for k in range(block.leads.shape[0]):
            e = number_of_row(exponent, exponents, min(first + k, last))
            plain = e if k == 0 or plain == e else math.nan
            block.leads[k] = e if e > 0.0 else 1.0
        take_lane_maxima(block, rows, first, last)
        e = load(block.leads, 0)
        one = zeros_like(e) + 1.0
        set_limits(block, one, one, np.finfo(rows.dtype).eps)
        columns = take_candidates(block, rows, first, last)
        usual = (load(block.bads, 0) == 0.0) & (load(block.peaks, 0) > -np.inf)
        c = _find_root(block, columns, e, plain, squared, usual)
        _, total, _ = _sums(block, columns, c, e, plain)
        store(block.scales, 0, 1.0 / total)
        pack(block, block.shares, columns, stride_of(rows))
        for i in range(first, last + 1):
            k = i - first
            bad = block.bads[k] > 0.0 or not number_of_row(exponent, exponents, i) > 0.0
            if bad or block.peaks[k] == -np.inf:
                fill(probs[i], math.nan if bad else 0.0)
            else:
                scatter(rows[i], block.limits[k], block.packed, k * stride_of(rows), probs[i])


@kernel
def _norm_rows(kind, scores, exponent, exponents, squared, probs, size, start, stop):
    rows = matrix(scores, kind, stop, size)
    _solve_rows(
        rows, exponent, vector(exponents, np.float64(0), stop), squared,
        matrix(probs, kind, stop, size), new_block(rows, np.empty(0), size <= TILED), start, stop,
    )  # fmt: skip
    return 0


# Derivatives are computed for entries with mass only, in double precision.


@inline
def _raise_share(share, exponent):
    """Return ``share^exponent`` for a share in ``(0, 1]``."""
    if exponent == 0.0:
        return 1.0
    if exponent == 0.5:
        return math.sqrt(share)
    return share**exponent


@inline
def _squared_row(shares, vector, count, order, slopes):
    """Overwrite ``v`` by ``J v`` for sq-pnorm-max, on the support.

    ``J v = K v - w <w, v> / Σ w``, the inverse Hessian ``K = diag(s) - κ y yᵀ`` and ``w = K 1``.
    """
    total = along = 0.0
    for k in range(count):
        total += shares[k] * _raise_share(shares[k], order - 1.0)
        along += shares[k] * vector[k]
    norm = total ** (1.0 / order)
    curve = (2.0 - order) / ((order - 1.0) * norm * norm)
    weight = weighted = 0.0
    for k in range(count):
        slopes[k] = _raise_share(shares[k] / norm, 2.0 - order) / (order - 1.0)
        one = slopes[k] - curve * shares[k]
        weight += one
        weighted += one * vector[k]
    mean = weighted / weight
    for k in range(count):
        one = slopes[k] - curve * shares[k]
        vector[k] = slopes[k] * vector[k] - curve * shares[k] * along - one * mean


@inline
def _normmax_row(shares, vector, count, alpha, slopes, wants_alpha):
    """Overwrite ``v`` by ``J v`` for normmax, on the support; return ``<∂p/∂α, v>`` if requested.

    ``J = (I - p 1ᵀ) diag(d) (I - 1 pᵀ)`` with ``d = p^{2-α} ‖p‖_α^{α-1} / (α - 1)``.
    """
    top = total = along = moved = alpha_grad = 0.0
    for k in range(count):
        top = max(top, shares[k])
        along += shares[k] * vector[k]
    for k in range(count):
        relative = shares[k] / top
        slopes[k] = _raise_share(relative, 2.0 - alpha)
        total += relative * relative / slopes[k]
    scale = top * total ** ((alpha - 1.0) / alpha) / (alpha - 1.0)
    for k in range(count):
        slopes[k] *= scale
    if wants_alpha:
        # The derivative at a fixed threshold, then of the threshold and of the normalization.
        norm, lowered, drift = top * total ** (1.0 / alpha), 0.0, 0.0
        for k in range(count):
            height = shares[k] / norm
            lowered += shares[k] * height ** (alpha - 1.0) * math.log(height) / alpha
        for k in range(count):
            logs = math.log(shares[k] / norm)
            change = slopes[k] * lowered - shares[k] * logs / (alpha - 1.0)
            moved += change
            drift += change * vector[k]
        alpha_grad, moved = drift - moved * along, 0.0
    for k in range(count):
        vector[k] = slopes[k] * (vector[k] - along)
        moved += vector[k]
    for k in range(count):
        vector[k] -= shares[k] * moved
    return alpha_grad


@inline
def _differentiate(probs, grads, order, orders, squared, out, order_grads, support, start, stop):
    shares, vector, slopes = support.shares, support.grads, support.slopes
    for i in range(start, stop):
        take_support(support, 0, probs[i], grads[i])
        size, moved = support.sizes[0], 0.0
        if size > 0 and squared:
            _squared_row(shares, vector, size, order, slopes)
        elif size > 0:
            alpha = number_of_row(order, orders, i)
            moved = _normmax_row(shares, vector, size, alpha, slopes, order_grads.shape[0] > 0)
        for k in range(size):
            support.results[k] = vector[k]
        scatter(probs[i], 0.0, support.results, 0, out[i])
        if order_grads.shape[0] > 0:
            order_grads[i] = moved


@kernel
def _norm_backward_rows(
    kind, probs, grads, order, orders, squared, out, order_grads, size, start, stop
):
    rows = matrix(probs, kind, stop, size)
    _differentiate(
        rows, matrix(grads, kind, stop, size), order, vector(orders, np.float64(0), stop), squared,
        matrix(out, kind, stop, size), vector(order_grads, kind, stop),
        new_support(rows, np.empty(0)), start, stop,
    )  # fmt: skip
    return 0


def normmax_forward(scores: Tensor, alpha: float) -> Tensor:
    """Compute normmax along the last axis."""
    return _forward(scores, 1.0 / (alpha - 1.0), None, False)


def normmax_forward_rows(scores: Tensor, alphas: Tensor) -> Tensor:
    """Compute normmax along the last axis, with ``α`` for each row, or one for all."""
    return _forward(scores, 0.0, 1.0 / (_each(alphas, scores) - 1.0), False)


def normmax_backward(probs: Tensor, grad: Tensor, alpha: float) -> Tensor:
    """Return ``J g`` for the Jacobian ``J`` of normmax."""
    return _backward(probs, grad, alpha, None, False, None)


def normmax_backward_rows(probs: Tensor, grad: Tensor, alphas: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``J g`` for the Jacobian ``J`` of normmax, and the gradient of each row's ``α``."""
    alpha_grads = probs.new_empty(probs.numel() // probs.size(-1))
    return _backward(probs, grad, 0.0, _each(alphas, probs), False, alpha_grads), alpha_grads


def sq_pnorm_max_forward(scores: Tensor, p: float) -> Tensor:
    """Compute sq-pnorm-max along the last axis."""
    return _forward(scores, 1.0 / (p - 1.0), None, True)


def sq_pnorm_max_backward(probs: Tensor, grad: Tensor, p: float) -> Tensor:
    """Return ``J g`` for the Jacobian ``J`` of sq-pnorm-max."""
    return _backward(probs, grad, p, None, True, None)


def _each(orders: Tensor, rows: Tensor) -> Tensor:
    """Expand parameters to one for each row, in double precision."""
    count = rows.numel() // rows.size(-1)
    return orders.detach().double().reshape(-1).expand(count).contiguous()


def _forward(scores: Tensor, exponent: float, exponents: Tensor | None, squared: bool) -> Tensor:
    scores = scores.contiguous()
    probs = torch.empty_like(scores)
    run(_norm_rows, scores, _FORWARD, scores, exponent, exponents, squared, probs)
    return probs


def _backward(
    probs: Tensor, grad: Tensor, order: float, orders: Tensor | None, squared: bool,
    order_grads: Tensor | None,
) -> Tensor:  # fmt: skip
    """Return the gradients of the scores; write those of the orders to ``order_grads``."""
    probs, grad = probs.contiguous(), grad.contiguous()
    out = torch.empty_like(probs)
    run(
        _norm_backward_rows, probs, _BACKWARD, probs, grad, order, orders, squared, out,
        order_grads,
    )  # fmt: skip
    return out
