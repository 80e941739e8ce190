"""The kernel of the derivatives of α-entmax.

The incoming gradient is read only where there is mass.

Above ``α = 2`` the slopes ``s = p^{2-α}`` overflow, and where one of them dominates, a gradient
less its mean weighted by ``s`` loses all digits. There, in double precision, slopes in the mean are
relative to that of the smallest share, gradients to the gradient of that entry, and the result is
multiplied by ``√s`` twice; it is clipped to the largest finite number of the type.
"""

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.elementary import growth_curvature, logarithm, logarithms
from repro.mappings.kernels.cuda.rows import (
    any_of,
    largest_of,
    read,
    read_where,
    row_numbers,
    row_parameters,
    rows_of,
    write,
)


@triton.jit
def _load(probs, grads, start, N: tl.constexpr, COMPUTE: tl.constexpr):
    """Read the shares of a chunk, and gradients where there is mass, and cast to ``COMPUTE``."""
    share = read(probs, start, N, 0.0).to(COMPUTE)
    return share, read_where(grads, share > 0.0, start, N).to(COMPUTE)


@triton.jit
def _slopes(share, r, floor, RULE: tl.constexpr, RELATIVE: tl.constexpr):
    """Return ``s = p^{1-r}`` on the support, or ``(p / floor)^{1-r}`` if ``RELATIVE``."""
    if RULE == "sparsemax":
        slope = (share > 0.0).to(share.dtype)
    elif RULE == "entmax15":
        slope = tl.sqrt(tl.maximum(share, 0.0))
    else:
        if RELATIVE:
            least = floor[:, None]
            held = tl.where(share > 0.0, share, least)
            logs = logarithm((held - least) / least, held / least)
        else:
            logs = logarithms(share)
        power = tl.exp((1.0 - r).to(share.dtype)[:, None] * logs)
        slope = tl.where(share > 0.0, power, 0.0)
    return slope


@triton.jit
def _smallest(share, grad):
    """Return the smallest positive share of every row, infinite without mass, and its gradient."""
    held = tl.where(share > 0.0, share, float("inf"))
    floor = tl.min(held, 1)
    # The gradient of any of several smallest shares will do: they have the same slope.
    return floor, tl.max(tl.where(held == floor[:, None], grad, -float("inf")), 1)


@triton.jit
def _references(share, grad, probs, grads, r, N: tl.constexpr, HELD: tl.constexpr):
    """Return the smallest share and its gradient as references; one and zero if ``r <= 1``."""
    floor, reference = _smallest(share, grad)
    if not HELD:
        for start in range(N, probs.n, N):
            share, grad = _load(probs, grads, start, N, floor.dtype)
            lower, other = _smallest(share, grad)
            reference = tl.where(lower < floor, other, reference)
            floor = tl.minimum(floor, lower)
    relative = (r > 1.0) & (floor < float("inf"))
    return tl.where(relative, floor, 1.0), tl.where(relative, reference, 0.0)


@triton.jit
def _differentiate(
    share, grad, probs, grads, out, drifts, r,
    RULE: tl.constexpr, RELATIVE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Write the gradients of the rows of a program; in double precision if slopes are relative."""
    if RELATIVE:
        share, grad = share.to(tl.float64), grad.to(tl.float64)
    floor = tl.full(r.shape, 1.0, share.dtype)
    reference = floor - 1.0
    if RELATIVE:
        floor, reference = _references(share, grad, probs, grads, r, N, HELD)
    # The mean of g less its reference, weighted by s; zero in a row without mass.
    slope = _slopes(share, r, floor, RULE, RELATIVE)
    total = tl.sum(slope, 1)
    weighted = tl.sum(slope * (grad - reference[:, None]), 1)
    if not HELD:
        for start in range(N, probs.n, N):
            share, grad = _load(probs, grads, start, N, floor.dtype)
            slope = _slopes(share, r, floor, RULE, RELATIVE)
            total += tl.sum(slope, 1)
            weighted += tl.sum(slope * (grad - reference[:, None]), 1)
    mean = weighted / tl.where(total > 0.0, total, 1.0)
    drift = tl.zeros(r.shape, floor.dtype)
    for start in range(0, probs.n, N):
        if not HELD:
            share, grad = _load(probs, grads, start, N, floor.dtype)
        centered = (grad - reference[:, None]) - mean[:, None]
        if RELATIVE:
            root = 0.5 * (1.0 - r)[:, None] * logarithms(share)
            root = tl.exp(tl.minimum(root, 700.0))  # finite
            moved = centered * root * root
            # Unlike tl.clamp, this keeps NaN.
            largest = largest_of(out.base.dtype.element_ty)
            moved = tl.where(moved > largest, largest, moved)
            moved = tl.where(moved < -largest, -largest, moved)
        else:
            moved = _slopes(share, r, floor, RULE, RELATIVE) * centered
        write(out, start, N, tl.where(share > 0.0, moved, 0.0))
        if drifts is not None:
            # Σ (∂p/∂r) (g - m), by the drift of p at a fixed threshold. Above r = 1 its part in s,
            # which may overflow, is left out: Σ s times these gradients is zero.
            logs = logarithms(share)
            theta = -r.to(share.dtype)[:, None] * logs
            if RELATIVE:
                above = (r > 1.0)[:, None]
                curve = logs * logs * growth_curvature(tl.where(above, 0.0, theta))
                curve = tl.where(above, -(1.0 + theta) / (r * r)[:, None], curve)
            else:
                curve = logs * logs * growth_curvature(theta)
            drift += tl.sum(tl.where(share > 0.0, -share * curve * centered, 0.0), 1)
    if drifts is not None:
        tl.store(drifts, drift.to(drifts.dtype.element_ty), mask=probs.inside)


@triton.jit(do_not_specialize=["parameter", "stride", "count"])
def backward_kernel(
    probs, grads, out, drifts, parameter, stride, count, n,
    RULE: tl.constexpr, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Write ``J g`` with ``J = diag(s) - s sᵀ / Σs``, and unless None the gradients of ``r``.

    Arguments other than those described in ``rows.py``:

        drifts: gradients of ``r``, one for each row.
        parameter: ``r``.
        RULE: see ``entmax_solver.py``.
    """
    r = row_parameters(parameter, stride, count, M)
    if drifts is not None:
        drifts += row_numbers(count, M)[0]
    NARROW: tl.constexpr = probs.dtype.element_ty
    probs, grads = rows_of(probs, count, n, M), rows_of(grads, count, n, M)
    out = rows_of(out, count, n, M)
    share, grad = _load(probs, grads, 0, N, NARROW)
    large = any_of(r > 1.0) if RULE == "by_row" else RULE == "above_2"
    if large:
        _differentiate(share, grad, probs, grads, out, drifts, r, RULE, True, N, HELD)
    else:
        _differentiate(share, grad, probs, grads, out, drifts, r, RULE, False, N, HELD)
