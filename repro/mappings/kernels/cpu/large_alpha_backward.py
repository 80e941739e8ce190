"""Kernels of the derivatives of α-entmax for ``α > 2``, in double precision.

The slopes ``s = p^{2-α}`` grow without bound as ``p`` falls, overflow, and are so far apart that
``g - <s, g> / Σ s`` loses all digits where one of them dominates. Two rewritings avoid both:

- slopes are relative to the largest, that of the smallest share, and the factor that is left is
  applied last, or if it overflows, by logarithms; what exceeds the largest number of the type is
  set to it;
- gradients are relative to that of the entry with the largest slope, which leaves its differences
  exact. A common shift of the gradients of a row changes nothing.

With ``r = α - 1`` the derivative of ``p`` in ``r`` at a fixed threshold is
``(p - s - r p log p) / r²``. Since ``Σ s (g - mean) = 0``, its part in ``s`` adds nothing.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.elementary import logarithm, power
from repro.mappings.kernels.cpu.support import with_mass

_HIGHEST = 700.0
"""Logarithm of the largest slope that is a factor; its inverse is a normal number, too."""


@small
def list_support(probs, grads, desk):
    """List shares and gradients of the entries with mass; return how many, and the smallest share.

    The gradient of the first entry with the smallest share is taken from all.
    """
    shares, vector, _, places, words = desk
    count, floor, reference = with_mass(probs, words, places), math.inf, 0.0
    for k in range(count):
        shares[k], vector[k] = np.float64(probs[places[k]]), np.float64(grads[places[k]])
        reference = vector[k] if shares[k] < floor else reference
        floor = shares[k] if shares[k] < floor else floor
    for k in range(count):
        vector[k] -= reference
    return count, floor


@small
def centre_gradients(count, floor, order, desk):
    """Write relative slopes, and take their weighted mean from the gradients."""
    shares, vector, slopes, _, _ = desk
    weights = weighted = 0.0
    for k in range(count):
        ratio, below = floor / shares[k], (floor - shares[k]) / shares[k]
        slopes[k] = power(below, ratio, order - 1.0)
        weights += slopes[k]
        weighted += slopes[k] * vector[k]
    mean = weighted / weights
    for k in range(count):
        vector[k] -= mean


@small
def order_drift(count, order, desk):
    """``<∂p/∂r, g>`` from shares and centred gradients."""
    shares, vector, _, _, _ = desk
    total = 0.0
    for k in range(count):
        share = shares[k]
        total += share * (1.0 - order * logarithm(share - 1.0, share)) * vector[k]
    return total / (order * order)


@inner
def multiply_logarithms(count, order, desk, limit, out):
    """Write ``s`` times centred gradients where ``s`` may overflow, by logarithms."""
    shares, vector, _, places, _ = desk
    log_limit = math.log(limit)
    for k in range(count):
        log_size = math.log(abs(vector[k])) + (1.0 - order) * math.log(shares[k])
        size = limit if log_size >= log_limit else math.exp(log_size)
        out[places[k]] = math.copysign(size, vector[k])


@inner
def large_alpha_row(probs, grads, order, desk, out):
    """Write ``J g`` of a row for ``r > 1``; return ``<∂p/∂r, g>``."""
    out[:] = 0.0
    count, floor = list_support(probs, grads, desk)
    if count == 0:
        return 0.0
    centre_gradients(count, floor, order, desk)
    _, vector, slopes, places, _ = desk
    limit = np.float64(np.finfo(out.dtype).max)
    log_factor = (1.0 - order) * math.log(floor)
    if log_factor < _HIGHEST:
        factor = math.exp(log_factor)
        for k in range(count):
            out[places[k]] = min(max(slopes[k] * (vector[k] * factor), -limit), limit)
    else:
        multiply_logarithms(count, order, desk, limit, out)
    return order_drift(count, order, desk)
