"""Kernels of sq-pnorm-max, and of the derivatives of α-normmax and sq-pnorm-max.

Floors: forward one read and one write, backward two reads and one write of every entry; 8 and 12
bytes in single precision. α-normmax has the same thresholds as α-entmax: see ``forward.py``.
"""

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.backward import logarithms, read_where
from repro.mappings.kernels.cuda.elementary import logarithm, power
from repro.mappings.kernels.cuda.rows import (
    any_of,
    as_double,
    clamped,
    normaliser,
    read,
    row_numbers,
    row_parameters,
    scaled,
    survey_rows,
    write,
)
from repro.mappings.kernels.cuda.thresholds import epsilon

_PASSES = tl.constexpr(100)


@triton.jit
def _masses(w, growth, dual):
    """``Σ h^{q-2}``, ``Σ h^{q-1}`` and ``Σ h^q`` of a tile, ``h = [w / c + 1]_+``."""
    below = tl.maximum(w * growth[:, None], -1.0)
    height = below + 1.0
    share = power(below, height, (dual - 2.0).to(w.dtype)[:, None])
    count = tl.sum(share, 1)
    share = share * height
    return count, tl.sum(share, 1), tl.sum(share * height, 1)


@triton.jit
def _mass_of_rows(held, base, inside, n, top, one, c, dual, N: tl.constexpr, HELD: tl.constexpr):
    """``Σ y`` for ``-τ = c``, and its derivative in ``c``."""
    growth = (1.0 / c).to(held.dtype)
    if HELD:
        count, first, total = _masses(held, growth, dual)
    else:
        count, first = tl.zeros(top.shape, held.dtype), tl.zeros(top.shape, held.dtype)
        total = count
        for start in range(0, n, N):
            w = scaled(read(base, inside, start, n, N, -float("inf")), top, one, held.dtype)
            a, b, d = _masses(w, growth, dual)
            count, first, total = count + a, first + b, total + d
    count, first = count.to(tl.float64), first.to(tl.float64)
    total = tl.maximum(total.to(tl.float64), 1e-30)
    norm = tl.exp((2.0 / dual - 1.0) * tl.log(total))
    curved = (dual - 1.0) * count - (dual - 2.0) * first * first / total
    return c * first * norm, tl.maximum(curved * norm, 1e-30)


@triton.jit
def _threshold(held, base, inside, n, top, one, dual, empty, N: tl.constexpr, HELD: tl.constexpr):
    """``c`` of every row by Newton's method in a bracket.

    A step that leaves the bracket, or is not at most half the one before, is replaced by
    bisection.
    """
    rounding = 4.0 * epsilon(held.dtype)
    c = tl.zeros(top.shape, tl.float64) + 1.0
    high, last = c, c
    low = 0.5 * tl.exp(-2.0 / dual * tl.log(c * n))
    moves = empty == 0
    passes = 0
    while (passes < _PASSES) & any_of(moves):
        mass, slope = _mass_of_rows(held, base, inside, n, top, one, c, dual, N, HELD)
        low, high = tl.where(mass < 1.0, c, low), tl.where(mass < 1.0, high, c)
        newton = (1.0 - mass) / slope
        following = c + newton
        safe = (following >= low) & (following <= high) & (2.0 * tl.abs(newton) <= tl.abs(last))
        step = tl.where(safe, newton, 0.5 * (low + high) - c)
        c, last = tl.where(moves, c + step, c), tl.where(moves, step, last)
        moves = moves & (tl.abs(newton) > rounding * c)
        passes += 1
    return c


@triton.jit(do_not_specialize=["number", "count"])
def pnorm_kernel(
    scores, probs, number, count, n, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr
):
    """Sq-pnorm-max at ``γ = 1``: ``y ∝ [z - τ]_+^{q-1}``; see ``_pnorm.py``.

    Beside the arguments that ``rows.py`` describes:

        scores: a matrix.
        probs: the same shape, written.
        number: the bits of the dual order ``q = p / (p - 1)``.
    """
    rows = row_numbers(M)
    inside = rows < count
    base, out = scores + rows * n, probs + rows * n
    chunk, top, bad = survey_rows(base, inside, n, N, HELD)
    empty = (top == -float("inf")) & (bad == 0)
    top = clamped(top, scores.dtype.element_ty)
    one = tl.full([M], 1.0, tl.float64)
    dual = one * as_double(number)
    held = scaled(chunk, top, one, scores.dtype.element_ty)
    c = _threshold(held, base, inside, n, top, one, dual, empty, N, HELD)
    if HELD:
        _count, total, _square = _masses(held, (1.0 / c).to(held.dtype), dual)
    else:
        total = tl.zeros(top.shape, held.dtype)
        for start in range(0, n, N):
            w = scaled(read(base, inside, start, n, N, -float("inf")), top, one, held.dtype)
            _count, more, _square = _masses(w, (1.0 / c).to(held.dtype), dual)
            total += more
    factor = normaliser(total, empty, bad)
    for start in range(0, n, N):
        if not HELD:
            held = scaled(read(base, inside, start, n, N, -float("inf")), top, one, held.dtype)
        below = tl.maximum(held * (1.0 / c).to(held.dtype)[:, None], -1.0)
        share = power(below, below + 1.0, (dual - 1.0).to(held.dtype)[:, None])
        write(out, inside, start, n, N, share * factor[:, None])


@triton.jit
def _load_pair(base, grad_base, inside, start, n, N: tl.constexpr):
    """Shares of a chunk, zero where they are NaN, and gradients where there is mass."""
    share = read(base, inside, start, n, N, 0.0)
    share = tl.where(share > 0.0, share, 0.0)
    return share, read_where(grad_base, share > 0.0, start, n, N)


@triton.jit
def _pnorm_sums(probs, grads, p):
    """``Σ y^p``, ``Σ y^{2-p}``, ``Σ y^{2-p} g`` and ``<y, g>`` of a tile."""
    support, logs = probs > 0.0, logarithms(probs)
    powers = tl.sum(tl.where(support, tl.exp(p * logs), 0.0), 1)
    slope = tl.where(support, tl.exp((2.0 - p) * logs), 0.0)
    return powers, tl.sum(slope, 1), tl.sum(slope * grads, 1), tl.sum(probs * grads, 1)


@triton.jit(do_not_specialize=["number", "count"])
def pnorm_backward_kernel(
    probs, grads, out, number, count, n, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr
):
    """``K g - w <w, g> / Σw`` with ``K = diag(s) - κ y yᵀ`` and ``w = K 1``; see ``_pnorm.py``.

    Beside the arguments that ``rows.py`` describes:

        probs: a matrix.
        grads: the same shape.
        out: the same shape, written.
        number: the bits of ``p``.
    """
    rows = row_numbers(M)
    inside = rows < count
    base, grad_base = probs + rows * n, grads + rows * n
    p = as_double(number).to(probs.dtype.element_ty)
    share, grad = _load_pair(base, grad_base, inside, 0, n, N)
    powers, slopes, tilted, inner = _pnorm_sums(share, grad, p)
    if not HELD:
        for start in range(N, n, N):
            share, grad = _load_pair(base, grad_base, inside, start, n, N)
            a, b, c, d = _pnorm_sums(share, grad, p)
            powers, slopes, tilted, inner = powers + a, slopes + b, tilted + c, inner + d
    logs = tl.log(tl.where(powers > 0.0, powers, 1.0)) / p
    scale = tl.exp((p - 2.0) * logs) / (p - 1.0)
    kappa = (2.0 - p) / (p - 1.0) * tl.exp(-2.0 * logs)
    total = scale * slopes - kappa
    mean = (scale * tilted - kappa * inner) / tl.where(total > 0.0, total, 1.0)
    for start in range(0, n, N):
        if not HELD:
            share, grad = _load_pair(base, grad_base, inside, start, n, N)
        slope = scale[:, None] * tl.exp((2.0 - p) * logarithms(share))
        moved = slope * (grad - mean[:, None]) - kappa[:, None] * share * (inner - mean)[:, None]
        write(out + rows * n, inside, start, n, N, tl.where(share > 0.0, moved, 0.0))


@triton.jit
def _relative(probs, size):
    """``log(p / max p)`` on the support, zero elsewhere."""
    support = probs > 0.0
    share = tl.where(support, probs / size[:, None], 1.0)
    below = tl.where(support, (probs - size[:, None]) / size[:, None], 0.0)
    return support, logarithm(below, share)


@triton.jit
def _normmax_sums(probs, grads, size, alpha):
    """Sums over a tile; ``t = p / max p``.

    Returns:
        ``Σ t^α``, ``Σ t^{2-α}``, ``Σ t^{2-α} g``, ``<p, g>``, and for the gradient of ``α``
        ``Σ p log t``, ``Σ p g log t``, ``Σ t^α log t``.
    """
    support, logs = _relative(probs, size)
    a = alpha[:, None]
    powers = tl.where(support, tl.exp(a * logs), 0.0)
    slope = tl.where(support, tl.exp((2.0 - a) * logs), 0.0)
    weighted = probs * logs
    return (
        tl.sum(powers, 1),
        tl.sum(slope, 1),
        tl.sum(slope * grads, 1),
        tl.sum(probs * grads, 1),
        tl.sum(weighted, 1),
        tl.sum(weighted * grads, 1),
        tl.sum(powers * logs, 1),
    )


@triton.jit
def _sizes(held, base, inside, n, N: tl.constexpr, HELD: tl.constexpr):
    """``max p`` of every row, one where there is no mass."""
    size = tl.max(held, 1)
    if not HELD:
        for start in range(N, n, N):
            size = tl.maximum(size, tl.max(read(base, inside, start, n, N, 0.0), 1))
    return tl.where(size > 0.0, size, 1.0)


@triton.jit
def _normmax_sums_of_rows(
    held, grads, base, grad_base, inside, n, size, alpha, N: tl.constexpr, HELD: tl.constexpr
):
    """Sums of :func:`_normmax_sums` over whole rows."""
    powers, slopes, tilted, inner, logs, tilted_logs, power_logs = _normmax_sums(
        held, grads, size, alpha
    )
    if not HELD:
        for start in range(N, n, N):
            more, slant = _load_pair(base, grad_base, inside, start, n, N)
            a, b, c, d, e, f, g = _normmax_sums(more, slant, size, alpha)
            powers, slopes, tilted, inner = powers + a, slopes + b, tilted + c, inner + d
            logs, tilted_logs, power_logs = logs + e, tilted_logs + f, power_logs + g
    return powers, slopes, tilted, inner, logs, tilted_logs, power_logs


@triton.jit(do_not_specialize=["pace", "number", "count"])
def normmax_backward_kernel(
    probs, grads, out, numbers, pace, number, drifts, count, n,
    ROWS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """``(I - p 1ᵀ) diag(d) (I - 1 pᵀ) g``; with ``ROWS`` also the gradients of the ``α``.

    Beside the arguments that ``rows.py`` describes:

        probs: a matrix.
        grads: the same shape.
        out: the same shape, written.
        drifts: gradients of ``α``, one per row, written with ``ROWS``.
    """
    rows = row_numbers(M)
    inside = rows < count
    base, grad_base = probs + rows * n, grads + rows * n
    exact = row_parameters(numbers, pace, number, rows, inside, ROWS, M)
    alpha = exact.to(probs.dtype.element_ty)
    share, grad = _load_pair(base, grad_base, inside, 0, n, N)
    size = _sizes(share, base, inside, n, N, HELD)
    powers, slopes, tilted, inner, logs, tilted_logs, power_logs = _normmax_sums_of_rows(
        share, grad, base, grad_base, inside, n, size, alpha, N, HELD
    )
    log_norm = tl.log(tl.where(powers > 0.0, powers, 1.0)) / alpha
    scale = size * tl.exp((alpha - 1.0) * log_norm) / (alpha - 1.0)
    moved_sum = scale * (tilted - inner * slopes)
    for start in range(0, n, N):
        if not HELD:
            share, grad = _load_pair(base, grad_base, inside, start, n, N)
        _support, relative = _relative(share, size)
        slope = scale[:, None] * tl.exp((2.0 - alpha)[:, None] * relative)
        moved = slope * (grad - inner[:, None]) - share * moved_sum[:, None]
        write(out + rows * n, inside, start, n, N, tl.where(share > 0.0, moved, 0.0))
    if ROWS:
        # With h = t / ‖t‖: Σ p h^{α-1} log h, by which the threshold moves.
        lowered = size * tl.exp((1.0 - alpha) * log_norm) * (power_logs - log_norm * powers)
        drift = lowered / alpha * moved_sum - (tilted_logs - inner * logs) / (alpha - 1.0)
        tl.store(drifts + rows, drift, mask=inside)
