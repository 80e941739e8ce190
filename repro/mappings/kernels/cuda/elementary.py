"""Powers and logarithms that stay accurate near one, in both precisions.

Triton's own logarithm in single precision has a fixed absolute error near one, which would dominate
the result when divided by a small ``α - 1``.
"""

import triton
import triton.language as tl


@triton.jit
def _atanh_ratio(square, TERMS: tl.constexpr):
    """Return ``atanh(s) / s``, given ``s²``."""
    value = square * 0.0 + 1.0 / (2 * TERMS + 1)
    for k in tl.static_range(TERMS):
        value = value * square + 1.0 / (2 * (TERMS - 1 - k) + 1)
    return value


@triton.jit
def logarithm(below, height):
    """Return ``log(height)`` for ``height = 1 + below > 0``, a normal number."""
    # The height is 2^exponent times a number from √½, whose bits are subtracted, to √2.
    if height.dtype == tl.float64:
        bits = height.to(tl.int64, bitcast=True)
        exponent = (bits - 0x3FE6A09E667F3BCD) >> 52
        near_one = (bits - (exponent << 52)).to(tl.float64, bitcast=True)
    else:
        bits = height.to(tl.int32, bitcast=True)
        exponent = (bits - 0x3F3504F3) >> 23
        near_one = (bits - (exponent << 23)).to(tl.float32, bitcast=True)
    # From √½ on the series takes `below` itself, some of whose digits are rounded off in `height`.
    rest = tl.where(exponent == 0, below, near_one - 1.0)
    slope = rest / (rest + 2.0)
    if height.dtype == tl.float64:
        value = _atanh_ratio(slope * slope, 10)
    else:
        value = _atanh_ratio(slope * slope, 4)
    whole = exponent.to(height.dtype)
    # log 2 rounded to 15 binary places, so that its multiples are exact, and the rest.
    return whole * 0.693145751953125 + (2.0 * slope * value + whole * 1.4286068202862268e-06)


@triton.jit
def logarithms(probs):
    """Return ``log p`` where ``p`` is positive, zero elsewhere."""
    held = tl.where(probs > 0.0, probs, 1.0)
    return logarithm(held - 1.0, held)


@triton.jit
def power(below, height, exponent):
    """Return ``height^exponent``, ``exponent >= 0``, of ``height = 1 + below`` in [0, 1]."""
    positive = height > 0.0
    logs = logarithm(below, tl.where(positive, height, 1.0)) * exponent
    return tl.where(positive, tl.exp(tl.where(logs < 0.0, logs, 0.0)), 0.0)


@triton.jit
def _exp_series(x, SKIP: tl.constexpr):
    """Return ``SKIP! Σ x^k / (k + SKIP)!`` for ``|x| < 0.5``; the first term left out is 1e-21."""
    value = x * 0.0 + 1.0
    for k in tl.static_range(16):
        value = value * (x * (1.0 / (16 - k + SKIP))) + 1.0
    return value


@triton.jit
def expm1(x):
    """Return ``e^x - 1``, accurate also near zero."""
    near = tl.abs(x) < 0.5  # where the subtraction of one loses digits
    series = tl.where(near, x, 0.0)
    return tl.where(near, series * _exp_series(series, 1), tl.exp(x) - 1.0)


@triton.jit
def growth_curvature(theta):
    """Return ``(e^θ - 1 - θ) / θ²`` for ``θ >= 0``, accurate also near zero."""
    near = theta < 0.5
    far = tl.where(near, 1.0, theta)
    series = 0.5 * _exp_series(tl.where(near, theta, 0.0), 2)
    return tl.where(near, series, (tl.exp(far) - 1.0 - far) / (far * far))
