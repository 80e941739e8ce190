"""Kernels of the derivatives of α-entmax for ``α > 2``, in double precision.

The slopes ``s = p^{2-α}`` grow without bound as ``p`` falls, overflow, and are so far apart that
``g - <s, g> / Σ s`` loses all digits where one of them dominates. Two rewritings avoid both:

- slopes are relative to the largest, that of the smallest share, and the factor that is left is
  applied last, in two halves; what exceeds the largest number of the type is set to it;
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
"""Keeps half of a factor finite in double precision."""


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
def large_alpha_row(probs, grads, order, desk, out):
    """Write ``J g`` of a row for ``r > 1``; return ``<∂p/∂r, g>``."""
    out[:] = 0.0
    count, floor = list_support(probs, grads, desk)
    if count == 0:
        return 0.0
    centre_gradients(count, floor, order, desk)
    _, vector, slopes, places, _ = desk
    limit = np.float64(np.finfo(out.dtype).max)
    half = math.exp(min(0.5 * (1.0 - order) * math.log(floor), _HIGHEST))
    for k in range(count):
        moved = slopes[k] * vector[k] * half
        out[places[k]] = min(max(moved * half, -limit), limit)
    return order_drift(count, order, desk)
