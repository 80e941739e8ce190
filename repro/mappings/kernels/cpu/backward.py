"""Kernels of the derivatives: ``J g`` with ``J = diag(s) - s sᵀ / Σs`` and ``s = p^{1-r}``."""

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, lean
from repro.mappings.kernels.cpu.exchanges import compress, expand
from repro.mappings.kernels.cpu.lanes import load, load_first, store, store_first
from repro.mappings.kernels.cpu.large_alpha_backward import large_alpha_row
from repro.mappings.kernels.cpu.order_gradient import drift, order_gradient
from repro.mappings.kernels.cpu.scratch import borrowed, give_back
from repro.mappings.kernels.cpu.slopes import slope_of
from repro.mappings.kernels.cpu.support import word_count
from repro.mappings.kernels.cpu.tiles import width_of
from repro.mappings.kernels.cpu.vectors import (
    count,
    either,
    splat,
    total,
    where,
)

SPAN = 64
"""Entries that are skipped together where none has mass; their incoming gradient is not read."""
_LONG = 512
"""Rows longer than this are searched for such spans, others for entries with mass."""
_TOGETHER = 16
"""Short rows whose powers are taken together."""


@lean
def whole_end(row, start, stop):
    """Where the whole vectors of a part of a row end."""
    width = width_of(row)
    return start + (stop - start) // width * width


@lean
def has_mass(probs, start, stop):
    """Whether any entry of a part is positive."""
    whole = whole_end(probs, start, stop)
    positive = load_first(probs, whole, stop - whole, probs.dtype.type(0)) > 0.0
    for j in range(start, whole, width_of(probs)):
        positive = either(positive, load(probs, j) > 0.0)
    return count(positive) > 0


@lean
def weigh(probs, grads, order, slope, start, stop):
    """Write ``s`` of a part of a row but for its last, short vector, which is returned.

    Also returns ``Σ s`` and ``Σ s g`` by lanes; where ``s`` is zero, ``g`` does not count.
    """
    whole, zero = whole_end(probs, start, stop), probs.dtype.type(0)
    last = weights = weighted = splat(zero)
    if whole < stop:
        last = slope_of(load_first(probs, whole, stop - whole, zero), order)
        grad = load_first(grads, whole, stop - whole, zero)
        weights, weighted = last, last * where(last > 0.0, grad, 0.0)
    for j in range(start, whole, width_of(probs)):
        weight, grad = slope_of(load(probs, j), order), load(grads, j)
        store(slope, j, weight)
        weights += weight
        weighted += weight * where(weight > 0.0, grad, 0.0)
    return last, weights, weighted


@lean
def centre(slope, last, grads, mean, start, stop):
    """Replace ``s`` by ``s (g - mean)``; the last, short vector is given."""
    whole, zero = whole_end(slope, start, stop), slope.dtype.type(0)
    for j in range(start, whole, width_of(slope)):
        weight = load(slope, j)
        store(slope, j, where(weight > 0.0, weight * (load(grads, j) - mean), 0.0))
    if whole < stop:
        grad = load_first(grads, whole, stop - whole, zero)
        store_first(slope, whole, stop - whole, where(last > 0.0, last * (grad - mean), 0.0))


@lean
def mean_of(weighted, weights):
    """The weighted mean, zero in a row without mass."""
    return weighted / weights if weights > 0.0 else weights


@lean
def flat_row(probs, grads, out):
    """Write the gradient of a row for sparsemax: on the support ``g`` less its mean."""
    size, width, zero = probs.shape[0], width_of(probs), probs.dtype.type(0)
    whole = whole_end(probs, 0, size)
    last = load_first(probs, whole, size - whole, zero) > 0.0
    last_grad = load_first(grads, whole, size - whole, zero)
    kept, weighted = count(last), where(last, last_grad, 0.0)
    for j in range(0, whole, width):
        positive = load(probs, j) > 0.0
        kept += count(positive)
        weighted += where(positive, load(grads, j), 0.0)
    mean = total(weighted) / probs.dtype.type(max(kept, 1))
    for j in range(0, whole, width):
        store(out, j, where(load(probs, j) > 0.0, load(grads, j) - mean, 0.0))
    store_first(out, whole, size - whole, where(last, last_grad - mean, 0.0))


@lean
def root_row(probs, grads, out):
    """The same for 1.5-entmax, with ``s = √p``."""
    size = probs.shape[0]
    last, weights, weighted = weigh(probs, grads, 0.5, out, 0, size)
    mean = mean_of(total(weighted), total(weights))
    centre(out, last, grads, mean, 0, size)


@inner
def long_row(probs, grads, order, found, out):
    """The same at any order, span by span; only spans with mass are computed; returns the mean."""
    size, spans = probs.shape[0], 0
    weights = weighted = 0.0
    for start in range(0, size, SPAN):
        stop = min(start + SPAN, size)
        if has_mass(probs, start, stop):
            last, part, tilt = weigh(probs, grads, order, out, start, stop)
            if stop % SPAN > 0:
                whole = whole_end(out, start, stop)
                store_first(out, whole, stop - whole, last)
            weights, weighted = weights + total(part), weighted + total(tilt)
            found[spans] = start
            spans += 1
        else:
            out[start:stop] = 0.0
    mean = out.dtype.type(mean_of(weighted, weights))
    for k in range(spans):
        start, stop = found[k], min(found[k] + SPAN, size)
        whole = whole_end(out, start, stop)
        last = load_first(out, whole, stop - whole, out.dtype.type(0))
        centre(out, last, grads, mean, start, stop)
    return mean


@lean
def gather(probs, grads, shares, listed, start):
    """List the entries with mass and their incoming gradients from a place on; return the end.

    Lists are filled up to whole vectors with entries without mass.
    """
    width, zero, end = width_of(probs), probs.dtype.type(0), start
    whole = whole_end(probs, 0, probs.shape[0])
    for j in range(0, whole, width):
        share = load(probs, j)
        positive = share > 0.0
        store(shares, end, compress(share, positive))
        store(listed, end, compress(load(grads, j), positive))
        end += count(positive)
    left = probs.shape[0] - whole
    share, grad = load_first(probs, whole, left, zero), load_first(grads, whole, left, zero)
    positive = share > 0.0
    store(shares, end, compress(share, positive))
    store(listed, end, compress(grad, positive))
    end += count(positive)
    store(shares, end, splat(zero))
    store(listed, end, splat(zero))
    return (end + width - 1) // width * width


@lean
def scatter(probs, listed, start, out):
    """Write what is listed where the entries with mass are, and zeros."""
    width, whole = width_of(probs), whole_end(probs, 0, probs.shape[0])
    for j in range(0, whole, width):
        positive = load(probs, j) > 0.0
        store(out, j, expand(listed, start, positive))
        start += count(positive)
    left = probs.shape[0] - whole
    positive = load_first(probs, whole, left, probs.dtype.type(0)) > 0.0
    store_first(out, whole, left, expand(listed, start, positive))


@lean
def closed_rows(probs, grads, order, out, start, stop):
    """Gradients of short rows of one order that needs no powers."""
    if order == 1.0:
        for i in range(start, stop):
            flat_row(probs[i], grads[i], out[i])
    else:
        for i in range(start, stop):
            root_row(probs[i], grads[i], out[i])


@lean
def company(probs, grads, order, orders, closed, out, order_grads, desk, start, stop):
    """Gradients of a few short rows; of closed ones of their orders only."""
    shares, listed, slope, starts = desk
    end = 0
    for i in range(start, stop):
        starts[i - start] = end
        end = gather(probs[i], grads[i], shares, listed, end)
    starts[stop - start] = end
    for i in range(start, stop):
        first, end = starts[i - start], starts[i - start + 1]
        order = orders[i] if orders.shape[0] > 0 else order
        last, weights, weighted = weigh(shares, listed, order, slope, first, end)
        mean = mean_of(total(weighted), total(weights))
        if order_grads.shape[0] > 0:
            order_grads[i] = drift(shares, slope, listed, order, mean, first, end)
        if not closed:
            centre(slope, last, listed, mean, first, end)
            scatter(probs[i], slope, first, out[i])


@inner
def short_rows(probs, grads, order, orders, out, order_grads, start, stop):
    """Gradients of short rows."""
    closed = orders.shape[0] == 0 and order in (0.5, 1.0)
    if closed:
        closed_rows(probs, grads, order, out, start, stop)
        if order_grads.shape[0] == 0:
            return
    width = width_of(probs)
    room = _TOGETHER * (probs.shape[1] + 2 * width)
    memory, starts = np.zeros((3, room), probs.dtype), np.zeros((1, _TOGETHER + 1), np.int64)
    desk = borrowed(memory, 0), borrowed(memory, 1), borrowed(memory, 2), borrowed(starts, 0)
    for first in range(start, stop, _TOGETHER):
        last = min(first + _TOGETHER, stop)
        company(probs, grads, order, orders, closed, out, order_grads, desk, first, last)
    give_back(memory), give_back(starts)


@inner
def large_alpha_rows(probs, grads, order, orders, out, order_grads, start, stop):
    """Gradients of rows whose orders are above one."""
    size = probs.shape[1]
    reals, integers = np.empty((3, size)), np.empty((1, size + 1), np.int32)
    word_memory = np.empty((1, word_count(size)), np.uint64)
    desk = (
        borrowed(reals, 0), borrowed(reals, 1), borrowed(reals, 2), borrowed(integers, 0),
        borrowed(word_memory, 0),
    )  # fmt: skip
    for i in range(start, stop):
        order = orders[i] if orders.shape[0] > 0 else order
        drift_of_row = large_alpha_row(probs[i], grads[i], order, desk, out[i])
        if order_grads.shape[0] > 0:
            order_grads[i] = drift_of_row
    give_back(reals), give_back(integers), give_back(word_memory)


@inner
def rows_up_to_two(probs, grads, order, orders, out, order_grads, start, stop):
    """Gradients of rows whose orders are at most one."""
    size = probs.shape[1]
    if size <= _LONG:
        short_rows(probs, grads, order, orders, out, order_grads, start, stop)
        return
    memory = np.empty((1, (size + SPAN - 1) // SPAN), np.int64)
    found = borrowed(memory, 0)
    for i in range(start, stop):
        order = orders[i] if orders.shape[0] > 0 else order
        mean = long_row(probs[i], grads[i], order, found, out[i])
        if order_grads.shape[0] > 0:
            order_grads[i] = order_gradient(probs[i], grads[i], order, mean)
    give_back(memory)


@inner
def backward_rows(probs, grads, order, orders, out, order_grads, start, stop):
    """Gradients of rows ``start`` to ``stop``; of the orders where there is room for them.

    Consecutive rows up to ``α = 2``, or above, are differentiated together.
    """
    if orders.shape[0] == 0:
        if order > 1.0:
            large_alpha_rows(probs, grads, order, orders, out, order_grads, start, stop)
        else:
            rows_up_to_two(probs, grads, order, orders, out, order_grads, start, stop)
        return
    first = start
    while first < stop:
        large, last = orders[first] > 1.0, first + 1
        while last < stop and (orders[last] > 1.0) == large:
            last += 1
        if large:
            large_alpha_rows(probs, grads, order, orders, out, order_grads, first, last)
        else:
            rows_up_to_two(probs, grads, order, orders, out, order_grads, first, last)
        first = last


@lean
def weighted_row(probs, grad, out):
    """Write ``g p``."""
    size, zero = probs.shape[0], probs.dtype.type(0)
    whole = whole_end(probs, 0, size)
    for j in range(0, whole, width_of(probs)):
        store(out, j, load(probs, j) * grad)
    store_first(out, whole, size - whole, load_first(probs, whole, size - whole, zero) * grad)


@inner
def loss_backward_rows(probs, targets, ignored, grads, out, start, stop):
    """``g (p - e_y)`` for rows ``start`` to ``stop``, zero where the target is ignored."""
    for i in range(start, stop):
        if targets[i] == ignored:
            out[i, :] = 0.0
        else:
            weighted_row(probs[i], grads[i], out[i])
            out[i, targets[i]] -= grads[i]
