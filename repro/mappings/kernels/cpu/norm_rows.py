"""The kernels of normmax and sq-pnorm-max: Newton's method on the entries that can have mass.

With centred scores ``x`` and ``c = -τ`` in ``(0, 1]`` both are ``p ∝ ρ^e``, ``ρ = [1 + x / c]_+``:
normmax with ``e = 1 / (α - 1)`` and ``c ‖ρ‖_{e+1} = 1``, sq-pnorm-max with ``e = 1 / (p - 1)`` and
``c Σ ρ^e ‖ρ‖_{e+1}^{1-e} = 1``. Entries at or below ``-1`` have no mass. A row is read from memory
once and written once, as by softmax.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.box import finite
from repro.mappings.kernels.cpu.elementary import power
from repro.mappings.kernels.cpu.extremes import largest
from repro.mappings.kernels.cpu.scratch import borrowed, give_back
from repro.mappings.kernels.cpu.support import reaching, with_mass, word_count

_PASSES = 100
_ROUNDING = 1e-14
_LANES = 8
"""Lists are filled up to multiples of this."""
_LOWEST = -2.0
"""Stands for an entry without mass."""


@small
def _raised(below, height, exponent):
    """``ρ^e`` for ``ρ = 1 + below``, without logarithms where possible."""
    if exponent == 1.0:
        return height
    if exponent == 2.0:
        return height * height
    return power(below, height, exponent)


@small
def _sums(heights, count, c, exponent):
    """``Σ ρ^{e-1}``, ``Σ ρ^e`` and ``Σ ρ^{e+1}``."""
    lower = first = upper = 0.0
    scale = 1.0 / c
    for j in range(count):
        below = heights[j] * scale
        below = below if below > -1.0 else -1.0
        height = below + 1.0
        share = _raised(below, height, exponent)
        lower += share / (height if height > 0.0 else 1.0)
        first += share
        upper += share * height
    return lower, first, upper


@small
def _residual(heights, count, c, exponent, squared):
    """What is to be one, and its derivative in ``c``."""
    lower, first, upper = _sums(heights, count, c, exponent)
    if not squared:
        norm = math.sqrt(upper) if exponent == 1.0 else upper ** (1.0 / (exponent + 1.0))
        return c * norm, norm * first / upper
    norm = upper ** ((1.0 - exponent) / (1.0 + exponent))
    curved = exponent * lower - (exponent - 1.0) * first * first / upper
    return c * first * norm, curved * norm


@small
def _root(heights, count, exponent, squared):
    """``c``, by Newton's method in a bracket from its upper end."""
    low, high, c, step = 0.0, 1.0, 1.0, 1.0
    for _ in range(_PASSES):
        mass, slope = _residual(heights, count, c, exponent, squared)
        low, high = (c, high) if mass < 1.0 else (low, c)
        newton = (1.0 - mass) / slope
        if not abs(newton) > _ROUNDING * c:
            break
        safe = low <= c + newton and c + newton <= high and 2.0 * abs(newton) <= abs(step)
        step = newton if safe else 0.5 * (low + high) - c
        c += step
    return c


@small
def _write(heights, places, count, c, exponent, probs):
    """The normalised distribution."""
    total, scale = 0.0, 1.0 / c
    for k in range(count):
        below = heights[k] * scale
        below = below if below > -1.0 else -1.0
        heights[k] = _raised(below, below + 1.0, exponent)
        total += heights[k]
    for k in range(count):
        probs[places[k]] = heights[k] / total


@inner
def norm_rows(scores, exponent, exponents, squared, limit, probs, start, stop):
    """Distributions of rows ``start`` to ``stop``; ``exponents``, if not empty, has one for each.

    A row whose exponent is NaN is NaN.
    """
    size = scores.shape[1]
    reals, integers = np.empty((1, size + _LANES)), np.empty((1, size + _LANES), np.int32)
    word_memory = np.empty((1, word_count(size)), np.uint64)
    heights, places, words = borrowed(reals, 0), borrowed(integers, 0), borrowed(word_memory, 0)
    for i in range(start, stop):
        e = exponents[i] if exponents.shape[0] > 0 else exponent
        top, bad = largest(scores[i])
        fill = probs.dtype.type(math.nan if bad or not e > 0.0 else 0.0)
        for j in range(size):
            probs[i, j] = fill
        if bad or not e > 0.0 or top == -math.inf:
            continue
        count = reaching(scores[i], finite(top, limit), limit, -1.0, heights, words, places)
        padded = (count + _LANES - 1) // _LANES * _LANES
        for k in range(count, padded):
            heights[k] = _LOWEST
        c = _root(heights, padded, e, squared)
        _write(heights, places, count, c, e, probs[i])
    give_back(reals)
    give_back(integers)
    give_back(word_memory)


@small
def _raise_share(share, exponent):
    """``share^exponent`` for a share in ``(0, 1]``."""
    if exponent == 0.0:
        return 1.0
    if exponent == 0.5:
        return math.sqrt(share)
    return share**exponent


@small
def _squared_row(shares, vector, count, order, slopes):
    """``J v`` of sq-pnorm-max on the support, written over ``v``.

    ``K v - w <w, v> / Σ w`` with the inverse Hessian ``K = diag(s) - κ y yᵀ`` and ``w = K 1``.
    """
    total = along = 0.0
    for k in range(count):
        total += shares[k] * _raise_share(shares[k], order - 1.0)
        along += shares[k] * vector[k]
    norm = total ** (1.0 / order)
    curve = (2.0 - order) / ((order - 1.0) * norm * norm)
    weight = weighted = 0.0
    for k in range(count):
        slopes[k] = _raise_share(shares[k] / norm, 2.0 - order) / (order - 1.0)
        one = slopes[k] - curve * shares[k]
        weight += one
        weighted += one * vector[k]
    mean = weighted / weight
    for k in range(count):
        one = slopes[k] - curve * shares[k]
        vector[k] = slopes[k] * vector[k] - curve * shares[k] * along - one * mean


@small
def _slopes(shares, count, alpha, slopes):
    """Write ``p^{2-α} ‖p‖_α^{α-1} / (α - 1)``; return the largest share and ``Σ (p / max p)^α``."""
    top = total = 0.0
    for k in range(count):
        top = max(top, shares[k])
    for k in range(count):
        relative = shares[k] / top
        slopes[k] = _raise_share(relative, 2.0 - alpha)
        total += relative * relative / slopes[k]
    scale = top * total ** ((alpha - 1.0) / alpha) / (alpha - 1.0)
    for k in range(count):
        slopes[k] *= scale
    return top, total


@small
def _normed_row(shares, vector, count, slopes):
    """``J v`` of normmax on the support, ``(I - p 1ᵀ) diag(d) (I - 1 pᵀ) v``."""
    along = moved = 0.0
    for k in range(count):
        along += shares[k] * vector[k]
    for k in range(count):
        vector[k] = slopes[k] * (vector[k] - along)
        moved += vector[k]
    for k in range(count):
        vector[k] -= shares[k] * moved


@inner
def _order_gradient(shares, vector, count, alpha, slopes, top, total):
    """``<∂p/∂α, v>`` of normmax: drift, the threshold's move, normalisation."""
    size, lowered = top * total ** (1.0 / alpha), 0.0
    for k in range(count):
        height = shares[k] / size
        lowered += shares[k] * height ** (alpha - 1.0) * math.log(height) / alpha
    along = moved = drift = 0.0
    for k in range(count):
        logs = math.log(shares[k] / size)
        change = slopes[k] * lowered - shares[k] * logs / (alpha - 1.0)
        along += shares[k] * vector[k]
        moved += change
        drift += change * vector[k]
    return drift - moved * along


@inner
def norm_backward_rows(probs, grads, order, orders, squared, out, order_grads, start, stop):
    """Gradients of rows ``start`` to ``stop``; of normmax's orders where there is room for them."""
    size = probs.shape[1]
    reals, integers = np.empty((3, size)), np.empty((1, size + 1), np.int32)
    shares, vector, slopes = borrowed(reals, 0), borrowed(reals, 1), borrowed(reals, 2)
    word_memory = np.empty((1, word_count(size)), np.uint64)
    places, words = borrowed(integers, 0), borrowed(word_memory, 0)
    for i in range(start, stop):
        for j in range(size):
            out[i, j] = 0.0
        count, moved = with_mass(probs[i], words, places), 0.0
        for k in range(count):
            shares[k], vector[k] = probs[i, places[k]], grads[i, places[k]]
        if count > 0 and squared:
            _squared_row(shares, vector, count, order, slopes)
        elif count > 0:
            alpha = orders[i] if orders.shape[0] > 0 else order
            top, total = _slopes(shares, count, alpha, slopes)
            if order_grads.shape[0] > 0:
                moved = _order_gradient(shares, vector, count, alpha, slopes, top, total)
            _normed_row(shares, vector, count, slopes)
        for k in range(count):
            out[i, places[k]] = vector[k]
        if order_grads.shape[0] > 0:
            order_grads[i] = moved
    give_back(reals)
    give_back(integers)
    give_back(word_memory)
