"""Kernels of the derivatives of α-entmax and of its losses.

Floor: two reads and one write of every entry, 12 bytes in single precision; the incoming gradient
is read only where there is mass.

Above ``α = 2`` the slopes ``s = p^{2-α}`` overflow, and where one of them dominates, a gradient
less its mean weighted by ``s`` loses all digits. There, in double precision, slopes in the mean are
relative to that of the smallest share, gradients to the gradient of its entry, and ``s`` is
multiplied by its root twice; what exceeds the largest number of the type is set to it.
"""

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.elementary import growth_curvature, logarithm
from repro.mappings.kernels.cuda.rows import (
    any_of,
    largest_of,
    read,
    row_numbers,
    row_parameters,
    write,
)

_HIGHEST = tl.constexpr(700.0)
"""Keeps the root of a slope finite in double precision."""


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
def _slopes(probs, order, floor, RULE: tl.constexpr, RELATIVE: tl.constexpr):
    """``s = p^{1-r}`` on the support, or ``(p / floor)^{1-r}``; rules as in ``thresholds.py``."""
    if RULE == 1:
        slope = (probs > 0.0).to(probs.dtype)
    elif RULE == 2:
        slope = tl.sqrt(tl.maximum(probs, 0.0))
    else:
        if RELATIVE:
            least = floor[:, None]
            held = tl.where(probs > 0.0, probs, least)
            logs = logarithm((held - least) / least, held / least)
        else:
            logs = logarithms(probs)
        power = tl.exp((1.0 - order).to(probs.dtype)[:, None] * logs)
        slope = tl.where(probs > 0.0, power, 0.0)
    return slope


@triton.jit
def _smallest(probs, grads):
    """The smallest positive share of every row, infinite without mass, and its gradient."""
    held = tl.where(probs > 0.0, probs, float("inf"))
    floor = tl.min(held, 1)
    # Among equal shares any will do: they have the same slope.
    return floor, tl.max(tl.where(held == floor[:, None], grads, -float("inf")), 1)


@triton.jit
def _references(
    probs, grads, base, grad_base, inside, n, order, N: tl.constexpr, HELD: tl.constexpr
):
    """Reference of slopes and gradients: above ``r = 1`` the smallest share."""
    floor, reference = _smallest(probs, grads)
    if not HELD:
        for start in range(N, n, N):
            share = read(base, inside, start, n, N, 0.0).to(probs.dtype)
            grad = read_where(grad_base, share > 0.0, start, n, N).to(probs.dtype)
            lower, other = _smallest(share, grad)
            reference = tl.where(lower < floor, other, reference)
            floor = tl.minimum(floor, lower)
    relative = (order > 1.0) & (floor < float("inf"))
    return tl.where(relative, floor, 1.0), tl.where(relative, reference, 0.0)


@triton.jit
def _means(
    probs, grads, base, grad_base, inside, n, order, floor, reference,
    RULE: tl.constexpr, RELATIVE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """The mean of ``g`` less its reference, weighted by ``s``; zero in a row without mass."""
    slope = _slopes(probs, order, floor, RULE, RELATIVE)
    total = tl.sum(slope, 1)
    weighted = tl.sum(slope * (grads - reference[:, None]), 1)
    if not HELD:
        for start in range(N, n, N):
            share = read(base, inside, start, n, N, 0.0).to(probs.dtype)
            slope = _slopes(share, order, floor, RULE, RELATIVE)
            grad = read_where(grad_base, share > 0.0, start, n, N).to(probs.dtype)
            total += tl.sum(slope, 1)
            weighted += tl.sum(slope * (grad - reference[:, None]), 1)
    return weighted / tl.where(total > 0.0, total, 1.0)


@triton.jit
def _drift(probs, centred, order, RELATIVE: tl.constexpr):
    """``Σ (∂p/∂r) g`` from gradients less their mean, by the drift of ``p`` at a fixed threshold.

    Above ``r = 1`` its part in ``s``, which may overflow, is left out: ``Σ s`` times these
    gradients is zero.
    """
    logs = logarithms(probs)
    theta = -order.to(probs.dtype)[:, None] * logs
    if RELATIVE:
        large = (order > 1.0)[:, None]
        curve = logs * logs * growth_curvature(tl.where(large, 0.0, theta))
        curve = tl.where(large, -(1.0 + theta) / (order * order)[:, None], curve)
    else:
        curve = logs * logs * growth_curvature(theta)
    return tl.sum(tl.where(probs > 0.0, -probs * curve * centred, 0.0), 1)


@triton.jit
def _within(values, NARROW: tl.constexpr):
    """Values with those that exceed the largest number of a type set to it; NaN is kept."""
    largest = largest_of(NARROW)
    values = tl.where(values > largest, largest, values)
    return tl.where(values < -largest, -largest, values)


@triton.jit
def _differentiate(
    share, grad, base, grad_base, out, drifts, inside, n, order,
    RULE: tl.constexpr, ROWS: tl.constexpr, RELATIVE: tl.constexpr, M: tl.constexpr,
    N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Write the gradients of the rows of a program, in the precision of ``share``."""
    floor = tl.full([M], 1.0, share.dtype)
    reference = floor - 1.0
    if RELATIVE:
        floor, reference = _references(share, grad, base, grad_base, inside, n, order, N, HELD)
    mean = _means(
        share, grad, base, grad_base, inside, n, order, floor, reference, RULE, RELATIVE, N, HELD
    )
    drift = tl.zeros([M], share.dtype)
    for start in range(0, n, N):
        if not HELD:
            share = read(base, inside, start, n, N, 0.0).to(floor.dtype)
            grad = read_where(grad_base, share > 0.0, start, n, N).to(floor.dtype)
        centred = (grad - reference[:, None]) - mean[:, None]
        if RELATIVE:
            root = 0.5 * (1.0 - order)[:, None] * logarithms(share)
            root = tl.exp(tl.minimum(root, _HIGHEST))
            moved = _within(centred * root * root, out.dtype.element_ty)
        else:
            moved = _slopes(share, order, floor, RULE, RELATIVE) * centred
        write(out, inside, start, n, N, tl.where(share > 0.0, moved, 0.0))
        if ROWS:
            drift += _drift(share, centred, order, RELATIVE)
    if ROWS:
        tl.store(drifts, drift.to(drifts.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["pace", "number", "count"])
def backward_kernel(
    probs, grads, out, numbers, pace, number, drifts, count, n,
    RULE: tl.constexpr, ROWS: tl.constexpr, LARGE: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """``J g`` with ``J = diag(s) - s sᵀ / Σs``; with ``ROWS`` also the gradients of the orders.

    Beside the arguments that ``rows.py`` describes:

        probs: a matrix.
        grads: the same shape.
        out: the same shape, written.
        drifts: gradients of ``r``, one per row, written with ``ROWS``.
        RULE: see ``thresholds.py``.
        LARGE: the order of all rows is above one; not used with ``ROWS``.
    """
    rows = row_numbers(M)
    inside = rows < count
    base, grad_base, out_base = probs + rows * n, grads + rows * n, out + rows * n
    order = row_parameters(numbers, pace, number, rows, inside, ROWS, M)
    share = read(base, inside, 0, n, N, 0.0)
    grad = read_where(grad_base, share > 0.0, 0, n, N)
    large = any_of(order > 1.0) if ROWS else LARGE
    if large:
        _differentiate(
            share.to(tl.float64), grad.to(tl.float64), base, grad_base, out_base, drifts + rows,
            inside, n, order, RULE, ROWS, True, M, N, HELD,
        )  # fmt: skip
    else:
        _differentiate(
            share, grad, base, grad_base, out_base, drifts + rows,
            inside, n, order, RULE, ROWS, False, M, N, HELD,
        )  # fmt: skip


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
