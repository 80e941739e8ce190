"""Powers without tables, calls or divisions, so that loops are vectorised, in both precisions.

Relative errors are a few roundings. All constants are computed: coefficients of power series and of
an interpolation.
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


_ROUGH_LOG_TERMS, _ROUGH_EXP_TERMS = 6, 5
"""How long the series are where steps are taken that others follow."""
_SINGLE = _Format(np.float32, np.int32, np.uint32, 23, 127, 7, 11)
_DOUBLE = _Format(np.float64, np.int64, np.uint64, 52, 1023, 13, 21)


def _halved_log2(real: Any) -> tuple[Any, Any]:
    """``log 2`` as a number of so few bits that its multiples are exact, and the rest."""
    high = round(math.log(2) * 2**15) / 2**15
    return real(high), real(math.log(2) - high)


def _exponential(number: _Format) -> Any:
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
    zero, one, shift = real(0), real(1), natural(number.mantissa)
    high, low = _halved_log2(real)
    series = tuple(real(value) for value in _log1p_share(number.log_terms))
    # Loops over longer tuples would not be unrolled.
    odd, even = series[::2], series[1::2]
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
        square, odds, evens = rest * rest, odd[0], even[0]
        for k in range(1, len(odd)):
            odds = odds * square + odd[k]
            evens = evens * square + even[k]
        value = odds * rest + evens
        return exponent * high + (rest * value + exponent * low)

    return log


def _log1p_share(degree: int) -> np.ndarray:
    """Coefficients of a polynomial close to ``log(1 + x) / x`` for ``1 + x`` in ``[√½, √2]``.

    The highest power comes first. A polynomial, as a division takes longer than all its terms.
    """
    half_root = np.longdouble(0.5) ** np.longdouble(0.5)
    centre, reach = (3 * half_root - 2) / 2, half_root / 2
    angles = np.longdouble(np.pi) * (np.arange(degree + 1) + np.longdouble(0.5)) / (degree + 1)
    places = centre + reach * np.cos(angles)
    # Divided differences keep all digits where a system of equations would lose half of them.
    differences = np.log1p(places) / places
    for k in range(1, degree + 1):
        differences[k:] = (differences[k:] - differences[k - 1 : -1]) / (places[k:] - places[:-k])
    powers = differences[-1:]
    for k in range(degree - 1, -1, -1):
        powers = np.append(powers, differences[k]) - places[k] * np.insert(powers, 0, 0)
    return powers


def _reciprocal(number: _Format) -> Any:
    """``1 / x`` for positive ``x``, to five digits."""
    real, natural = number.real, number.natural
    one_bits, two, balance = real(1).view(natural), real(2), real(16 / 17)
    mirrored = natural(2 * int(one_bits))

    @exact
    def reciprocal(x):
        # Mirrored bits are up to an eighth too much; each step then squares the relative error.
        guess = balance * natural(mirrored - real(x).view(natural)).view(real)
        guess = guess * (two - x * guess)
        return guess * (two - x * guess)

    return reciprocal


def _rough_power(number: _Format) -> Callable[..., Any]:
    """``height^exponent`` to five digits: logarithms to base two, no case apart."""
    real, integer = number.real, number.integer
    shift, bias, one = integer(number.mantissa), integer(number.bias), real(1)
    half_root_bits = real(math.sqrt(0.5)).view(integer)
    rounder, lowest = real(1.5 * 2.0**number.mantissa), real(2 - number.bias)
    logs = tuple(real(value / np.log(2)) for value in _log1p_share(_ROUGH_LOG_TERMS))
    series = tuple(
        real(math.log(2) ** k / math.factorial(k)) for k in range(_ROUGH_EXP_TERMS, -1, -1)
    )

    @exact
    def rough_power(height, exponent):
        bits = real(height).view(integer)
        exponent_bits = integer(integer(bits - half_root_bits) >> shift)
        rest = integer(bits - integer(exponent_bits << shift)).view(real) - one
        value = logs[0]
        for k in range(1, len(logs)):
            value = value * rest + logs[k]
        power = (value * rest + real(exponent_bits)) * exponent
        power = power if power > lowest else lowest
        shifted = power + rounder
        rest = power - (shifted - rounder)
        value = series[0]
        for k in range(1, len(series)):
            value = value * rest + series[k]
        whole = integer(integer(real(shifted).view(integer)) + bias) << shift
        return value * integer(whole).view(real)

    return rough_power


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


_EXPONENTIALS = {
    types.float32: _exponential(_SINGLE).py_func,
    types.float64: _exponential(_DOUBLE).py_func,
}
_RECIPROCALS = {types.float32: _reciprocal(_SINGLE), types.float64: _reciprocal(_DOUBLE)}
_POWERS = {types.float32: _power_of(_SINGLE), types.float64: _power_of(_DOUBLE)}
_ROUGH_POWERS = {types.float32: _rough_power(_SINGLE), types.float64: _rough_power(_DOUBLE)}
_LOGARITHMS = {types.float32: _logarithm(_SINGLE), types.float64: _logarithm(_DOUBLE)}


def power(below, height, exponent):
    """``height^exponent``, ``exponent > 0``, ``below = height - 1`` in ``[-1, 0]``; zero at zero.

    Too small a result is zero.
    """
    raise NotImplementedError("callable from kernels only")


@overload(power, jit_options=EXACT)
def _power_of_type(below, height, exponent):
    return _POWERS[below]


def rough_power(height, exponent):
    """``height^exponent`` to five digits, ``exponent > 0``, for positive normal heights.

    Too small a result is next to zero.
    """
    raise NotImplementedError("callable from kernels only")


@overload(rough_power, jit_options=EXACT)
def _rough_power_of_type(height, exponent):
    return _ROUGH_POWERS[height].py_func


def logarithm(below, height):
    """``log height`` for ``height`` in ``(0, 1]`` with ``below = height - 1``."""
    raise NotImplementedError("callable from kernels only")


@overload(logarithm, jit_options=EXACT)
def _logarithm_of_type(below, height):
    return _LOGARITHMS[below].py_func


def exponential(x):
    """``e^x`` for ``x`` between the logarithms of the smallest and the largest number."""
    raise NotImplementedError("callable from kernels only")


@overload(exponential, jit_options=EXACT)
def _exponential_of_type(x):
    return _EXPONENTIALS[x]


def reciprocal(x):
    """``1 / x`` for positive ``x``, to five digits."""
    raise NotImplementedError("callable from kernels only")


@overload(reciprocal, jit_options=EXACT)
def _reciprocal_of_type(x):
    return _RECIPROCALS[x].py_func
