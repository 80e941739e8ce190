"""The derivative of α-entmax in its order."""

import math

import numpy as np
from numba import types
from numba.extending import overload

from repro.mappings.kernels.cpu._compile import EXACT, inner, lean
from repro.mappings.kernels.cpu.elementary import logarithm
from repro.mappings.kernels.cpu.lanes import load, load_first
from repro.mappings.kernels.cpu.slopes import slope_of
from repro.mappings.kernels.cpu.tiles import width_of
from repro.mappings.kernels.cpu.vector_types import Vector
from repro.mappings.kernels.cpu.vectors import count, splat, total, where

_SWITCH = 0.25
"""Below, ``(e^θ - 1 - θ) / θ²`` is a series."""


def _curvature(real):
    """Of vectors of ``θ`` in one precision."""
    series = tuple(real(1 / math.factorial(k + 2)) for k in range(9, -1, -1))

    def curvature(theta):
        near = theta * series[0] + series[1]
        for k in range(2, len(series)):
            near = near * theta + series[k]
        return near

    return curvature


_CURVATURES = {
    Vector(types.float32): _curvature(np.float32),
    Vector(types.float64): _curvature(np.float64),
}


def near_curvature(theta):
    """``(e^θ - 1 - θ) / θ²`` for ``θ`` between zero and the switch."""
    raise NotImplementedError("callable from kernels only")


@overload(near_curvature, jit_options=EXACT)
def _near_curvature_of_type(theta):
    return _CURVATURES[theta]


@lean
def drift_of(share, slope, grad, order, mean):
    """What entries add to the gradient of their order.

    With ``θ = -r log p`` the curvature ``p log² p (e^θ - 1 - θ) / θ²`` is ``(s - p - p θ) / r²``,
    where that keeps digits.
    """
    positive = share > 0.0
    share = where(positive, share, 1.0)
    logs = logarithm(share - 1.0, share)
    theta = logs * -order
    near = share * logs * logs * near_curvature(where(theta < _SWITCH, theta, _SWITCH))
    far = (slope - share - share * theta) / (order * order if order > 0.0 else 1.0)
    return where(positive, where(theta < _SWITCH, near, far) * (mean - grad), 0.0)


@lean
def drift(probs, slope, grads, order, mean, start, stop):
    """What whole vectors of a row add to the gradient of its order."""
    order, moved = probs.dtype.type(order), splat(probs.dtype.type(0))
    for j in range(start, stop, width_of(probs)):
        moved += drift_of(load(probs, j), load(slope, j), load(grads, j), order, mean)
    return total(moved)


@inner
def order_gradient(probs, grads, order, mean):
    """``Σ (∂p/∂r) g``, by the drift of ``p`` at a fixed threshold."""
    found, size, zero = 0.0, probs.shape[0], probs.dtype.type(0)
    order = probs.dtype.type(order)
    for start in range(0, size, width_of(probs)):
        share = load_first(probs, start, size - start, zero)
        if count(share > 0.0) > 0:
            grad = load_first(grads, start, size - start, zero)
            found += total(drift_of(share, slope_of(share, order), grad, order, mean))
    return found
