"""Kernels of the derivatives: ``J g`` with ``J = diag(s) - s sᵀ / Σs`` and ``s = p^{1-r}``."""

import math

import numpy as np
from numba import types
from numba.extending import overload

from repro.mappings.kernels.cpu._compile import EXACT, inner, small, wide
from repro.mappings.kernels.cpu.elementary import logarithm, power
from repro.mappings.kernels.cpu.padded import copy_in, copy_out, padded_size
from repro.mappings.kernels.cpu.scratch import borrowed, give_back

SPAN = 64
"""Entries that are skipped together where none has mass; their incoming gradient is not read."""
_LONG = 512
"""Rows longer than this are searched for such spans; others are filled up to whole vectors."""
_SWITCH = 0.25
"""Below, ``(e^θ - 1 - θ) / θ²`` is a series."""


@small
def has_mass(probs):
    """Whether any entry is positive."""
    zero, positive = probs.dtype.type(0), 0
    for j in range(probs.shape[0]):
        positive += probs[j] > zero
    return positive > 0


@wide
def slopes(probs, order, out):
    """Write ``s``."""
    zero, one = probs.dtype.type(0), probs.dtype.type(1)
    exponent = probs.dtype.type(1.0 - order)
    if order == 1.0:
        for j in range(probs.shape[0]):
            out[j] = one if probs[j] > zero else zero
    elif order == 0.5:
        for j in range(probs.shape[0]):
            share = probs[j]
            out[j] = math.sqrt(share if share > zero else zero)
    elif order < 1.0:
        for j in range(probs.shape[0]):
            out[j] = power(probs[j] - one, probs[j], exponent)
    else:
        for j in range(probs.shape[0]):
            share = power(probs[j] - one, probs[j], -exponent)
            out[j] = one / share if probs[j] > zero else zero


@small
def weigh(slope, grads):
    """``Σ s`` and ``Σ s g``; where ``s`` is zero, ``g`` does not count."""
    zero = slope.dtype.type(0)
    total = weighted = zero
    for j in range(slope.shape[0]):
        weight, grad = slope[j], grads[j]
        grad = grad if weight > zero else zero
        total += weight
        weighted += weight * grad
    return total, weighted


@small
def centre(slope, grads, mean):
    """Replace ``s`` by ``s (g - mean)``."""
    zero = slope.dtype.type(0)
    for j in range(slope.shape[0]):
        weight = slope[j]
        moved = weight * (grads[j] - mean)
        slope[j] = moved if weight > zero else zero


@small
def mean_of(weighted, total):
    """The weighted mean, zero in a row without mass."""
    return weighted / total if total > 0.0 else total


@small
def flat_row(probs, grads, out):
    """The gradient of a row for sparsemax: on the support ``g`` less its mean."""
    zero, size = probs.dtype.type(0), 0
    weighted = zero
    for j in range(np.uint64(probs.shape[0])):
        size += np.int32(probs[j] > zero)
        weighted += grads[j] if probs[j] > zero else zero
    mean = probs.dtype.type(mean_of(weighted, size))
    for j in range(np.uint64(probs.shape[0])):
        moved = grads[j] - mean
        out[j] = moved if probs[j] > zero else zero
    return mean


@small
def root_row(probs, grads, out):
    """The gradient of a row for 1.5-entmax, with ``s = √p``."""
    zero = probs.dtype.type(0)
    total = weighted = zero
    for j in range(np.uint64(probs.shape[0])):
        slope = np.sqrt(probs[j])
        out[j] = slope
        total += slope
        weighted += slope * (grads[j] if slope > zero else zero)
    mean = mean_of(weighted, total)
    centre(out, grads, mean)
    return mean


@small
def closed_row(probs, grads, order, out):
    """Write the gradient of a row whose order needs no powers; return the mean of ``g``."""
    if order == 1.0:
        return flat_row(probs, grads, out)
    return root_row(probs, grads, out)


@inner
def long_row(probs, grads, order, found, out):
    """The same, span by span; only spans with mass are computed."""
    size, count = probs.shape[0], 0
    total = weighted = 0.0
    for start in range(0, size, SPAN):
        stop = min(start + SPAN, size)
        if has_mass(probs[start:stop]):
            slopes(probs[start:stop], order, out[start:stop])
            part, tilt = weigh(out[start:stop], grads[start:stop])
            total, weighted = total + part, weighted + tilt
            found[count] = start
            count += 1
        else:
            out[start:stop] = 0.0
    mean = out.dtype.type(mean_of(weighted, total))
    for k in range(count):
        start, stop = found[k], min(found[k] + SPAN, size)
        centre(out[start:stop], grads[start:stop], mean)
    return mean


def _curvature(real):
    """Of ``θ`` in one precision, without branches."""
    series = tuple(real(1 / math.factorial(k + 2)) for k in range(9, -1, -1))

    def curvature(theta):
        near = series[0]
        for k in range(1, len(series)):
            near = near * theta + series[k]
        return near

    return curvature


_CURVATURES = {types.float32: _curvature(np.float32), types.float64: _curvature(np.float64)}


def near_curvature(theta):
    """``(e^θ - 1 - θ) / θ²`` for ``θ`` between zero and the switch."""
    raise NotImplementedError("callable from kernels only")


@overload(near_curvature, jit_options=EXACT)
def _near_curvature_of_type(theta):
    return _CURVATURES[theta]


@wide
def drift(probs, slope, grads, order, mean):
    """What a part of a row adds to the gradient of its order.

    With ``θ = -r log p`` the curvature ``p log² p (e^θ - 1 - θ) / θ²`` is ``(s - p - p θ) / r²``,
    where that keeps digits.
    """
    zero, one, switch = probs.dtype.type(0), probs.dtype.type(1), probs.dtype.type(_SWITCH)
    order, total = probs.dtype.type(order), zero
    scale = one / (order * order if order > zero else one)
    for j in range(probs.shape[0]):
        share = probs[j] if probs[j] > zero else one
        logs = logarithm(share - one, share)
        theta = -order * logs
        near = share * logs * logs * near_curvature(theta if theta < switch else switch)
        far = (slope[j] - share - share * theta) * scale
        moved = (far if theta >= switch else near) * (mean - grads[j])
        total += moved if probs[j] > zero else zero
    return total


@inner
def order_gradient(probs, grads, order, mean, room):
    """``Σ (∂p/∂r) g``, by the drift of ``p`` at a fixed threshold."""
    total = 0.0
    for start in range(0, probs.shape[0], SPAN):
        part = probs[start : start + SPAN]
        if has_mass(part):
            slope = room[: part.shape[0]]
            slopes(part, order, slope)
            total += drift(part, slope, grads[start : start + SPAN], order, mean)
    return total


@inner
def short_rows(probs, grads, order, orders, out, order_grads, start, stop):
    """Gradients of short rows; where powers are needed they are filled up."""
    memory = np.zeros((3, padded_size(probs.shape[1])), probs.dtype)
    learns = order_grads.shape[0] > 0
    share, grad, slope = borrowed(memory, 0), borrowed(memory, 1), borrowed(memory, 2)
    for i in range(start, stop):
        order = orders[i] if orders.shape[0] > 0 else order
        closed = order in (0.5, 1.0)
        mean = closed_row(probs[i], grads[i], order, out[i]) if closed else probs.dtype.type(0)
        if closed and not learns:
            continue
        copy_in(probs[i], share)
        copy_in(grads[i], grad)
        slopes(share, order, slope)
        if not closed:
            total, weighted = weigh(slope, grad)
            mean = mean_of(weighted, total)
        if learns:
            order_grads[i] = drift(share, slope, grad, order, mean)
        if not closed:
            centre(slope, grad, mean)
            copy_out(slope, out[i])
    give_back(memory)


@inner
def backward_rows(probs, grads, order, orders, out, order_grads, start, stop):
    """Gradients of rows ``start`` to ``stop``; of the orders where there is room for them."""
    size = probs.shape[1]
    if size <= _LONG:
        short_rows(probs, grads, order, orders, out, order_grads, start, stop)
        return
    memory = np.empty((1, (size + SPAN - 1) // SPAN), np.int64)
    rooms = np.empty((1, SPAN), probs.dtype)
    found, room = borrowed(memory, 0), borrowed(rooms, 0)
    for i in range(start, stop):
        order = orders[i] if orders.shape[0] > 0 else order
        mean = long_row(probs[i], grads[i], order, found, out[i])
        if order_grads.shape[0] > 0:
            order_grads[i] = order_gradient(probs[i], grads[i], order, mean, room)
    give_back(memory)
    give_back(rooms)


@small
def weighted_row(probs, grad, out):
    """Write ``g p``."""
    for j in range(probs.shape[0]):
        out[j] = grad * probs[j]


@inner
def loss_backward_rows(probs, targets, ignored, grads, out, start, stop):
    """``g (p - e_y)`` for rows ``start`` to ``stop``, zero where the target is ignored."""
    for i in range(start, stop):
        if targets[i] == ignored:
            out[i, :] = 0.0
        else:
            weighted_row(probs[i], grads[i], out[i])
            out[i, targets[i]] -= grads[i]
