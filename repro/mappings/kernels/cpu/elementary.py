"""Powers without tables or calls, so that loops over them are vectorised, in both precisions.

Relative errors are a few roundings. All constants are coefficients of power series.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from repro.mappings.kernels.cpu._compile import EXACT, exact


class _Format(NamedTuple):
    """A floating point format, its integers, and how long the series must be in it."""

    real: Any
    integer: Any
    natural: Any
    mantissa: int
    bias: int
    exp_terms: int
    log_terms: int


_SINGLE = _Format(np.float32, np.int32, np.uint32, 23, 127, 7, 4)
_DOUBLE = _Format(np.float64, np.int64, np.uint64, 52, 1023, 13, 10)


def _halved_log2(real: Any) -> tuple[Any, Any]:
    """``log 2`` as a number of so few bits that its multiples are exact, and the rest."""
    high = round(math.log(2) * 2**15) / 2**15
    return real(high), real(math.log(2) - high)


def _exponential(number: _Format) -> Callable[..., Any]:
    """``e^x`` for ``x`` between the logarithms of the smallest and the largest number."""
    real, integer = number.real, number.integer
    bias, shift = integer(number.bias), integer(number.mantissa)
    rounder = real(1.5 * 2.0**number.mantissa)
    log2_e, (high, low) = real(1 / math.log(2)), _halved_log2(real)
    series = tuple(real(1 / math.factorial(k)) for k in range(number.exp_terms, -1, -1))

    @exact
    def exp(x):
        # Added and subtracted again, the rounder leaves an integer in the low bits.
        shifted = x * log2_e + rounder
        whole = shifted - rounder
        rest = (x - whole * high) - whole * low
        value = series[0]
        for k in range(1, len(series)):
            value = value * rest + series[k]
        exponent = integer(integer(real(shifted).view(integer)) + bias) << shift
        return value * integer(exponent).view(real)

    return exp


def _logarithm(number: _Format) -> Callable[..., Any]:
    """``log height`` for ``height = 1 + below`` in ``(0, 1]``, accurate also near one."""
    real, natural = number.real, number.natural
    zero, one, two, shift = real(0), real(1), real(2), natural(number.mantissa)
    high, low = _halved_log2(real)
    series = tuple(real(1 / (2 * k + 1)) for k in range(number.log_terms, -1, -1))
    one_bits, half_root_bits = one.view(natural), real(math.sqrt(0.5)).view(natural)
    to_biased, counter = one_bits - half_root_bits, real(2.0**number.mantissa)
    counter_bits, offset = counter.view(natural), real(counter + number.bias)

    @exact
    def log(below, height):
        bits = real(height).view(natural)
        biased = natural(natural(bits + to_biased) >> shift)
        near_one = natural(natural(bits + one_bits) - natural(biased << shift)).view(real)
        exponent = natural(biased | counter_bits).view(real) - offset
        # Above √½ the series takes ``below`` itself, whose digits the rounding of height lost.
        rest = below if exponent == zero else near_one - one
        slope = rest / (rest + two)
        square = slope * slope
        value = series[0]
        for k in range(1, len(series)):
            value = value * square + series[k]
        return exponent * high + (two * slope * value + exponent * low)

    return log


def _power_of(number: _Format) -> Callable[..., Any]:
    real, exp, log = number.real, _exponential(number), _logarithm(number)
    zero, one = real(0), real(1)
    lowest = real((8 - number.bias) * math.log(2))

    def power(below, height, exponent):
        logs = log(below, height if height > zero else one) * exponent
        share = exp(logs if logs > lowest else lowest)
        share = share if height > zero else zero
        return share if logs > lowest else zero

    return power


_POWERS = {types.float32: _power_of(_SINGLE), types.float64: _power_of(_DOUBLE)}
logarithm = _logarithm(_DOUBLE)
"""``log height`` in double precision, called as ``logarithm(height - 1, height)``."""


def power(below, height, exponent):
    """``height^exponent``, ``exponent > 0``, ``below = height - 1`` in ``[-1, 0]``; zero at zero.

    Too small a result is zero.
    """
    raise NotImplementedError("callable from kernels only")


@overload(power, jit_options=EXACT)
def _power_of_type(below, height, exponent):
    return _POWERS[below]
