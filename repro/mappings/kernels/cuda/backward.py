"""Kernels of the derivatives of α-entmax and of its losses.

Floor: two reads and one write of every entry, 12 bytes in single precision; the incoming gradient
is read only where there is mass.
"""

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.elementary import growth_curvature, logarithm
from repro.mappings.kernels.cuda.rows import read, row_numbers, row_parameters, write


@triton.jit
def read_where(base, wanted, start, n, N: tl.constexpr):
    """Entries that are wanted, zero elsewhere; memory without any is not read."""
    columns = start + tl.arange(0, N)
    return tl.load(base[:, None] + columns[None, :], mask=wanted, other=0.0)


@triton.jit
def logarithms(probs):
    """``log p`` where ``p`` is positive, zero elsewhere."""
    held = tl.where(probs > 0.0, probs, 1.0)
    return logarithm(held - 1.0, held)


@triton.jit
def _slopes(probs, order, RULE: tl.constexpr):
    """``s = p^{1-r}`` on the support; rules are those of ``thresholds.py``."""
    if RULE == 1:
        slope = (probs > 0.0).to(probs.dtype)
    elif RULE == 2:
        slope = tl.sqrt(tl.maximum(probs, 0.0))
    else:
        power = tl.exp((1.0 - order).to(probs.dtype)[:, None] * logarithms(probs))
        slope = tl.where(probs > 0.0, power, 0.0)
    return slope


@triton.jit
def _means(
    probs, grads, base, grad_base, inside, n, order,
    RULE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """The mean of ``g`` weighted by ``s``, zero in a row without mass."""
    slope = _slopes(probs, order, RULE)
    total, weighted = tl.sum(slope, 1), tl.sum(slope * grads, 1)
    if not HELD:
        for start in range(N, n, N):
            share = read(base, inside, start, n, N, 0.0)
            slope = _slopes(share, order, RULE)
            grad = read_where(grad_base, share > 0.0, start, n, N)
            total, weighted = total + tl.sum(slope, 1), weighted + tl.sum(slope * grad, 1)
    return weighted / tl.where(total > 0.0, total, 1.0)


@triton.jit
def _drift(probs, grads, mean, order):
    """``Σ (∂p/∂r) g``, by the drift of ``p`` at a fixed threshold."""
    logs = logarithms(probs)
    curve = probs * logs * logs * growth_curvature(-order.to(probs.dtype)[:, None] * logs)
    return tl.sum(tl.where(probs > 0.0, curve * (mean[:, None] - grads), 0.0), 1)


@triton.jit(do_not_specialize=["pace", "number", "count"])
def backward_kernel(
    probs, grads, out, numbers, pace, number, drifts, count, n,
    RULE: tl.constexpr, ROWS: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """``J g`` with ``J = diag(s) - s sᵀ / Σs``; with ``ROWS`` also the gradients of the orders.

    Beside the arguments that ``rows.py`` describes:

        probs: a matrix.
        grads: the same shape.
        out: the same shape, written.
        drifts: gradients of ``r``, one per row, written with ``ROWS``.
        RULE: see ``thresholds.py``.
    """
    rows = row_numbers(M)
    inside = rows < count
    base, grad_base, out_base = probs + rows * n, grads + rows * n, out + rows * n
    order = row_parameters(numbers, pace, number, rows, inside, ROWS, M)
    share = read(base, inside, 0, n, N, 0.0)
    grad = read_where(grad_base, share > 0.0, 0, n, N)
    mean = _means(share, grad, base, grad_base, inside, n, order, RULE, N, HELD)
    drift = tl.zeros([M], probs.dtype.element_ty)
    for start in range(0, n, N):
        if not HELD:
            share = read(base, inside, start, n, N, 0.0)
            grad = read_where(grad_base, share > 0.0, start, n, N)
        moved = _slopes(share, order, RULE) * (grad - mean[:, None])
        moved = tl.where(share > 0.0, moved, 0.0)
        write(out_base, inside, start, n, N, moved)
        if ROWS:
            drift += _drift(share, grad, mean, order)
    if ROWS:
        tl.store(drifts + rows, drift, mask=inside)


@triton.jit(do_not_specialize=["ignored"])
def loss_backward_kernel(probs, targets, grads, out, ignored, n, N: tl.constexpr):
    """``g (p - e_y)``, zero where the target is ignored; one row and chunk per program."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    valid = columns < n
    target = tl.load(targets + row)
    grad = tl.load(grads + row)
    share = tl.load(probs + row * n + columns, mask=valid, other=0.0)
    hot = (columns == target).to(share.dtype)
    moved = tl.where(target == ignored, 0.0, grad * (share - hot))
    tl.store(out + row * n + columns, moved, mask=valid)
