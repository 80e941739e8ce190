"""Launchers and kernels of sq-pnorm-max, and of the derivatives of α-normmax and sq-pnorm-max.

Memory traffic is at least one read and one write of every entry forward, two reads and one write
backward; 8 and 12 bytes in single precision. For the forward pass of α-normmax see
``entmax_solver.py``, whose equation for the threshold it shares.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from repro.mappings.kernels.cuda import policy
from repro.mappings.kernels.cuda.elementary import logarithm, logarithms, power
from repro.mappings.kernels.cuda.entmax import solve
from repro.mappings.kernels.cuda.launch import bits, numbers_of, run_tiles
from repro.mappings.kernels.cuda.rows import (
    Rows,
    ScaledRows,
    any_of,
    as_double,
    clamped,
    epsilon,
    normaliser,
    read,
    read_scaled,
    read_where,
    row_parameters,
    scaled,
    survey_rows,
    write,
)

_PASSES = tl.constexpr(100)


def normmax_forward(scores: Tensor, alpha: float | Tensor) -> Tensor:
    """Compute α-normmax along the last axis; a tensor holds ``α`` for each row, or one for all.

    For ``α > 2`` double precision is used, as powers are not Lipschitz there.
    """
    return solve(scores, alpha, norm=True)


normmax_forward_rows = normmax_forward


def normmax_backward(probs: Tensor, grad: Tensor, alpha: float) -> Tensor:
    """Return ``J g`` for the Jacobian ``J`` of α-normmax."""
    return normmax_backward_rows(probs, grad, alpha)[0]


def normmax_backward_rows(
    probs: Tensor, grad: Tensor, alpha: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Return ``J g`` and, if ``alpha`` is a tensor, the gradient of ``α`` for each row."""
    rows, by_row = probs.contiguous(), isinstance(alpha, Tensor)
    out = torch.empty_like(rows)
    drifts = rows.new_empty(rows.numel() // rows.size(-1) if by_row else 0)
    run_tiles(
        normmax_backward_kernel, policy.POWERS, 2 * rows.element_size(), rows,
        grad.contiguous(), out, *numbers_of(alpha, rows), drifts, ROWS=by_row,
    )  # fmt: skip
    return out, drifts


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
def _tile_sums(w, growth, dual):
    """Return ``Σ h^{q-2}``, ``Σ h^{q-1}`` and ``Σ h^q`` of a tile, ``h = [w / c + 1]_+``."""
    below = tl.maximum(w * growth[:, None], -1.0)
    height = below + 1.0
    share = power(below, height, (dual - 2.0).to(w.dtype)[:, None])
    count = tl.sum(share, 1)
    share = share * height
    return count, tl.sum(share, 1), tl.sum(share * height, 1)


@triton.jit
def _sums(held, rows, growth, dual, N: tl.constexpr, HELD: tl.constexpr):
    """Return three power sums over whole rows; see :func:`_tile_sums`."""
    if HELD:
        count, first, total = _tile_sums(held, growth, dual)
    else:
        count, first = tl.zeros(growth.shape, held.dtype), tl.zeros(growth.shape, held.dtype)
        total = count
        for start in range(0, rows.n, N):
            a, b, c = _tile_sums(read_scaled(rows, start, N, held.dtype), growth, dual)
            count, first, total = count + a, first + b, total + c
    return count, first, total


@triton.jit
def _threshold(held, rows, dual, empty, N: tl.constexpr, HELD: tl.constexpr):
    """Return ``c`` of every row, by Newton's method in a bracket.

    A step that leaves the bracket, or is longer than half of the one before, is replaced by
    bisection.
    """
    rounding = 4.0 * epsilon(held.dtype)
    c = tl.zeros(dual.shape, tl.float64) + 1.0
    high, last = c, c
    low = 0.5 * tl.exp(-2.0 / dual * tl.log(c * rows.n))
    moves = empty == 0
    passes = 0
    while (passes < _PASSES) & any_of(moves):
        # Mass Σ y at -τ = c, and its derivative in c.
        count, first, total = _sums(held, rows, (1.0 / c).to(held.dtype), dual, N, HELD)
        count, first = count.to(tl.float64), first.to(tl.float64)
        total = tl.maximum(total.to(tl.float64), 1e-30)
        norm = tl.exp((2.0 / dual - 1.0) * tl.log(total))
        curved = (dual - 1.0) * count - (dual - 2.0) * first * first / total
        mass, slope = c * first * norm, tl.maximum(curved * norm, 1e-30)
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
    """Write sq-pnorm-max at ``γ = 1``: ``y ∝ [z - τ]_+^{q-1}``; see ``_norm.py``.

    ``number`` is the dual order ``q = p / (p - 1)``; other arguments are described in ``rows.py``.
    """
    numbers = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    inside = numbers < count
    NARROW: tl.constexpr = scores.dtype.element_ty
    base, out = scores + numbers * n, Rows(probs + numbers * n, inside, n)
    chunk, top, bad = survey_rows(Rows(base, inside, n), N, HELD)
    empty = (top == -float("inf")) & (bad == 0)
    top = clamped(top, NARROW)
    one = tl.full([M], 1.0, tl.float64)
    rows = ScaledRows(base, inside, n, top, one)
    dual = one * as_double(number)
    held = scaled(chunk, top, one, NARROW)
    growth = (1.0 / _threshold(held, rows, dual, empty, N, HELD)).to(held.dtype)
    _count, total, _square = _sums(held, rows, growth, dual, N, HELD)
    factor = normaliser(total, empty, bad)
    for start in range(0, n, N):
        w = held if HELD else read_scaled(rows, start, N, NARROW)
        below = tl.maximum(w * growth[:, None], -1.0)
        share = power(below, below + 1.0, (dual - 1.0).to(NARROW)[:, None])
        write(out, start, N, share * factor[:, None])


@triton.jit
def _load_pair(probs, grads, start, N: tl.constexpr):
    """Read the shares of a chunk, NaN as zero, and the gradients where there is mass."""
    share = read(probs, start, N, 0.0)
    share = tl.where(share > 0.0, share, 0.0)
    return share, read_where(grads, share > 0.0, start, N)


@triton.jit
def _pnorm_sums(share, grad, p):
    """Return ``Σ y^p``, ``Σ y^{2-p}``, ``Σ y^{2-p} g`` and ``<y, g>`` of a tile."""
    support, logs = share > 0.0, logarithms(share)
    powers = tl.sum(tl.where(support, tl.exp(p * logs), 0.0), 1)
    slope = tl.where(support, tl.exp((2.0 - p) * logs), 0.0)
    return powers, tl.sum(slope, 1), tl.sum(slope * grad, 1), tl.sum(share * grad, 1)


@triton.jit(do_not_specialize=["number", "count"])
def pnorm_backward_kernel(
    probs, grads, out, number, count, n, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr
):
    """Write ``K g - w <w, g> / Σw``, ``K = diag(s) - κ y yᵀ`` and ``w = K 1``; see ``_norm.py``.

    ``number`` is ``p``; other arguments are described in ``rows.py``.
    """
    rows = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    inside = rows < count
    p = as_double(number).to(probs.dtype.element_ty)
    probs, grads = Rows(probs + rows * n, inside, n), Rows(grads + rows * n, inside, n)
    out = Rows(out + rows * n, inside, n)
    share, grad = _load_pair(probs, grads, 0, N)
    powers, slopes, tilted, inner = _pnorm_sums(share, grad, p)
    if not HELD:
        for start in range(N, n, N):
            share, grad = _load_pair(probs, grads, start, N)
            a, b, c, d = _pnorm_sums(share, grad, p)
            powers, slopes, tilted, inner = powers + a, slopes + b, tilted + c, inner + d
    logs = tl.log(tl.where(powers > 0.0, powers, 1.0)) / p
    scale = tl.exp((p - 2.0) * logs) / (p - 1.0)
    kappa = (2.0 - p) / (p - 1.0) * tl.exp(-2.0 * logs)
    total = scale * slopes - kappa
    mean = (scale * tilted - kappa * inner) / tl.where(total > 0.0, total, 1.0)
    for start in range(0, n, N):
        if not HELD:
            share, grad = _load_pair(probs, grads, start, N)
        slope = scale[:, None] * tl.exp((2.0 - p) * logarithms(share))
        moved = slope * (grad - mean[:, None]) - kappa[:, None] * share * (inner - mean)[:, None]
        write(out, start, N, tl.where(share > 0.0, moved, 0.0))


@triton.jit
def _relative(share, size):
    """Return the support, and on it ``log(p / max p)``, zero elsewhere; ``size`` is ``max p``."""
    support = share > 0.0
    ratio = tl.where(support, share / size[:, None], 1.0)
    below = tl.where(support, (share - size[:, None]) / size[:, None], 0.0)
    return support, logarithm(below, ratio)


@triton.jit
def _normmax_sums(share, grad, size, alpha):
    """Compute sums over a tile for the derivative of α-normmax, with ``t = p / max p``.

    Returns:
        ``Σ t^α``, ``Σ t^{2-α}``, ``Σ t^{2-α} g``, ``<p, g>``, and for the gradient of ``α``
        ``Σ p log t``, ``Σ p g log t``, ``Σ t^α log t``.
    """
    support, logs = _relative(share, size)
    a = alpha[:, None]
    powers = tl.where(support, tl.exp(a * logs), 0.0)
    slope = tl.where(support, tl.exp((2.0 - a) * logs), 0.0)
    weighted = share * logs
    return (
        tl.sum(powers, 1),
        tl.sum(slope, 1),
        tl.sum(slope * grad, 1),
        tl.sum(share * grad, 1),
        tl.sum(weighted, 1),
        tl.sum(weighted * grad, 1),
        tl.sum(powers * logs, 1),
    )


@triton.jit(do_not_specialize=["stride", "number", "count"])
def normmax_backward_kernel(
    probs, grads, out, numbers, stride, number, drifts, count, n,
    ROWS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Write ``(I - p 1ᵀ) diag(d) (I - 1 pᵀ) g``; with ``ROWS`` also the gradients of ``α``.

    Arguments are described in ``rows.py``.
    """
    rows = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    inside = rows < count
    exact = row_parameters(numbers, stride, number, rows, inside, ROWS)
    alpha = exact.to(probs.dtype.element_ty)
    probs, grads = Rows(probs + rows * n, inside, n), Rows(grads + rows * n, inside, n)
    out = Rows(out + rows * n, inside, n)
    share, grad = _load_pair(probs, grads, 0, N)
    # The largest share of every row, or one if the row has no mass.
    size = tl.max(share, 1)
    if not HELD:
        for start in range(N, n, N):
            size = tl.maximum(size, tl.max(read(probs, start, N, 0.0), 1))
    size = tl.where(size > 0.0, size, 1.0)
    powers, slopes, tilted, inner, logs, tilted_logs, power_logs = _normmax_sums(
        share, grad, size, alpha
    )
    if not HELD:
        for start in range(N, n, N):
            share, grad = _load_pair(probs, grads, start, N)
            a, b, c, d, e, f, g = _normmax_sums(share, grad, size, alpha)
            powers, slopes, tilted, inner = powers + a, slopes + b, tilted + c, inner + d
            logs, tilted_logs, power_logs = logs + e, tilted_logs + f, power_logs + g
    log_norm = tl.log(tl.where(powers > 0.0, powers, 1.0)) / alpha
    scale = size * tl.exp((alpha - 1.0) * log_norm) / (alpha - 1.0)
    moved_sum = scale * (tilted - inner * slopes)
    for start in range(0, n, N):
        if not HELD:
            share, grad = _load_pair(probs, grads, start, N)
        _support, relative = _relative(share, size)
        slope = scale[:, None] * tl.exp((2.0 - alpha)[:, None] * relative)
        moved = slope * (grad - inner[:, None]) - share * moved_sum[:, None]
        write(out, start, N, tl.where(share > 0.0, moved, 0.0))
    if ROWS:
        # With h = t / ‖t‖, `lowered` is Σ p h^{α-1} log h, which gives the shift of the threshold.
        lowered = size * tl.exp((1.0 - alpha) * log_norm) * (power_logs - log_norm * powers)
        drift = lowered / alpha * moved_sum - (tilted_logs - inner * logs) / (alpha - 1.0)
        tl.store(drifts + rows, drift, mask=inside)
