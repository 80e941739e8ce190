"""Powers of vectors without tables, calls or divisions, in both precisions.

Relative errors are a few units in the last place. All constants are computed: coefficients of power
series and of an interpolation polynomial.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types

from repro.mappings.kernels.cpu import simd
from repro.mappings.kernels.cpu.compile import chosen_by_type, inline
from repro.mappings.kernels.cpu.simd import Vector


class Format(NamedTuple):
    """Floating-point format, with the numbers of terms that series need for its precision."""

    real: Any
    mantissa: int
    bias: int
    exp_terms: int
    log_terms: int

    def bits(self, number: float) -> int:
        """Return the bits of a number in this format as an integer."""
        return int(self.real(number).view(f"i{self.real().itemsize}"))


_FORMATS = {
    types.float32: Format(np.float32, 23, 127, 7, 11),
    types.float64: Format(np.float64, 52, 1023, 13, 21),
}
_ROUGH_LOG_TERMS, _ROUGH_EXP_TERMS = 6, 5
"""Degrees of the series in :func:`rough_power`, for steps whose errors later steps correct."""
_LOG2_HIGH = round(math.log(2) * 2**15) / 2**15
_LOG2_LOW = math.log(2) - _LOG2_HIGH
"""``log 2`` less ``_LOG2_HIGH``, which has so few bits that its multiples are exact."""


def for_each_format(make: Callable[[Format], Any]) -> Any:
    """Return a function of vectors for kernels; ``make`` creates it for one format."""
    functions = {Vector(real): make(number) for real, number in _FORMATS.items()}
    return chosen_by_type(lambda *kinds: functions[kinds[0]])


def polynomial(real: Any, coefficients: Sequence[float]) -> Any:
    """Return a function that evaluates a polynomial; the highest coefficient comes first."""
    series = tuple(real(value) for value in coefficients)

    @inline
    def evaluate(x):
        value = x * series[0] + series[1]
        for k in range(2, len(series)):
            value = value * x + series[k]
        return value

    return evaluate


@for_each_format
def exponential(number):
    """Return ``e^x`` for ``x`` between the logarithms of the smallest and largest normal number."""
    log2_e, rounder = 1 / math.log(2), 1.5 * 2.0**number.mantissa
    bias, shift = number.bias, number.mantissa
    factorials = [math.factorial(k) for k in range(number.exp_terms, -1, -1)]
    series = polynomial(number.real, [1 / factorial for factorial in factorials])

    def exponential(x):
        # Adding the rounder rounds to an integer, which is then in the low bits.
        shifted = x * log2_e + rounder
        whole = shifted - rounder
        rest = (x - whole * _LOG2_HIGH) - whole * _LOG2_LOW
        return series(rest) * simd.real_of((simd.bits_of(shifted) + bias) << shift)

    return exponential


def _log1p_share(degree: int) -> np.ndarray:
    """Return coefficients of a polynomial close to ``log(1 + x) / x``, ``1 + x`` in ``[√½, √2]``.

    The highest power comes first. A rational function would need a division, which takes longer
    than all terms of the polynomial.
    """
    half_root = np.longdouble(0.5) ** np.longdouble(0.5)
    center, reach = (3 * half_root - 2) / 2, half_root / 2
    angles = np.longdouble(np.pi) * (np.arange(degree + 1) + np.longdouble(0.5)) / (degree + 1)
    places = center + reach * np.cos(angles)
    # Divided differences are accurate; solving a system of equations would lose half the digits.
    differences = np.log1p(places) / places
    for k in range(1, degree + 1):
        differences[k:] = (differences[k:] - differences[k - 1 : -1]) / (places[k:] - places[:-k])
    powers = differences[-1:]
    for k in range(degree - 1, -1, -1):
        powers = np.append(powers, differences[k]) - places[k] * np.insert(powers, 0, 0)
    return powers


@for_each_format
def logarithm(number):
    """Return ``log(height)`` for ``height = 1 + below`` in ``(0, 1]``, accurate also near one."""
    shift, one_bits = number.mantissa, number.bits(1.0)
    to_biased, counter = one_bits - number.bits(math.sqrt(0.5)), 2.0**number.mantissa
    counter_bits, offset = number.bits(counter), counter + number.bias
    series = _log1p_share(number.log_terms)
    # Odd and even terms are summed separately: one loop over all terms would not be unrolled.
    odd, even = (polynomial(number.real, series[start::2]) for start in range(2))

    def logarithm(below, height):
        bits = simd.bits_of(height)
        biased = (bits + to_biased) >> shift
        near_one = simd.real_of((bits + one_bits) - (biased << shift))
        exponent = simd.real_of(biased + counter_bits) - offset
        # From √½ on, use `below` itself, some of whose digits are rounded off in `height`.
        rest = simd.where(exponent == 0.0, below, near_one - 1.0)
        square = rest * rest
        value = odd(square) * rest + even(square)
        return exponent * _LOG2_HIGH + (rest * value + exponent * _LOG2_LOW)

    return logarithm


@for_each_format
def power(number):
    """Return ``height^exponent`` for ``exponent > 0`` and ``below = height - 1`` in ``[-1, 0]``.

    The result is zero if the height is zero, or if it would underflow.
    """
    lowest = (8 - number.bias) * math.log(2)

    def power(below, height, exponent):
        positive = height > 0.0
        logs = logarithm(below, simd.where(positive, height, 1.0)) * exponent
        high = logs > lowest
        share = simd.where(positive, exponential(simd.where(high, logs, lowest)), 0.0)
        return simd.where(high, share, 0.0)

    return power


@for_each_format
def rough_power(number):
    """Return ``height^exponent`` to five digits, for ``exponent > 0`` and positive normal heights.

    Logarithms are to base two, without special cases. Results that would underflow are tiny.
    """
    bias, shift, half_root_bits = number.bias, number.mantissa, number.bits(math.sqrt(0.5))
    rounder, lowest = 1.5 * 2.0**number.mantissa, 2.0 - number.bias
    terms = [math.log(2) ** k / math.factorial(k) for k in range(_ROUGH_EXP_TERMS, -1, -1)]
    log2 = polynomial(number.real, _log1p_share(_ROUGH_LOG_TERMS) / np.log(2))
    exp2 = polynomial(number.real, terms)

    def rough_power(height, exponent):
        bits = simd.bits_of(height)
        exponent_bits = (bits - half_root_bits) >> shift
        rest = simd.real_of(bits - (exponent_bits << shift)) - 1.0
        power = (log2(rest) * rest + simd.rounded(exponent_bits)) * exponent
        power = simd.where(power > lowest, power, lowest)
        shifted = power + rounder
        value = exp2(power - (shifted - rounder))
        return value * simd.real_of((simd.bits_of(shifted) + bias) << shift)

    return rough_power


@for_each_format
def reciprocal(number):
    """Return ``1 / x`` for positive ``x``, to five digits."""
    mirrored, balance = 2 * number.bits(1.0), 16 / 17

    def reciprocal(x):
        # The mirrored bits are up to an eighth too large; each step squares the relative error.
        guess = simd.real_of(mirrored - simd.bits_of(x)) * balance
        guess = guess * (2.0 - x * guess)
        return guess * (2.0 - x * guess)

    return reciprocal
