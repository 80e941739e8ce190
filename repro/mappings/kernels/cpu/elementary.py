"""Powers without tables, calls or divisions, of numbers and of vectors, in both precisions.

Relative errors are a few roundings. All constants are computed: coefficients of power series and of
an interpolation.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from repro.mappings.kernels.cpu import simd
from repro.mappings.kernels.cpu.compile import INLINE, inline
from repro.mappings.kernels.cpu.simd import Vector


class _Format(NamedTuple):
    """A floating point format, its integers, and how long the series must be in it."""

    real: Any
    integer: Any
    mantissa: int
    bias: int
    exp_terms: int
    log_terms: int


class _Kind(NamedTuple):
    """Numbers of a format, one or a vector of them: how they are reinterpreted and chosen."""

    format: _Format
    bits_of: Any
    real_of: Any
    rounded: Any
    integer: Any
    where: Any


def _plain(number: _Format) -> _Kind:
    """One number; its integers are kept as short as it is."""
    real, integer = number.real, number.integer

    @inline
    def bits_of(value):
        return real(value).view(integer)

    @inline
    def real_of(bits):
        return integer(bits).view(real)

    @inline
    def where(condition, one, other):
        return one if condition else other

    return _Kind(number, bits_of, real_of, real, integer, where)


@inline
def _itself(value):
    return value


def _side_by_side(number: _Format) -> _Kind:
    """A vector of them."""
    return _Kind(number, simd.bits_of, simd.real_of, simd.rounded, _itself, simd.where)


_ROUGH_LOG_TERMS, _ROUGH_EXP_TERMS = 6, 5
"""How long the series are where steps are taken that others follow."""
_SINGLE = _Format(np.float32, np.int32, 23, 127, 7, 11)
_DOUBLE = _Format(np.float64, np.int64, 52, 1023, 13, 21)


def _halved_log2(real: Any) -> tuple[Any, Any]:
    """``log 2`` as a number of so few bits that its multiples are exact, and the rest."""
    high = round(math.log(2) * 2**15) / 2**15
    return real(high), real(math.log(2) - high)


def _exponential(kind: _Kind) -> Any:
    """``e^x`` for ``x`` between the logarithms of the smallest and the largest number."""
    number, bits_of, real_of, whole_of = kind.format, kind.bits_of, kind.real_of, kind.integer
    real, integer = number.real, number.integer
    bias, shift = integer(number.bias), integer(number.mantissa)
    rounder = real(1.5 * 2.0**number.mantissa)
    log2_e, (high, low) = real(1 / math.log(2)), _halved_log2(real)
    series = tuple(real(1 / math.factorial(k)) for k in range(number.exp_terms, -1, -1))

    @inline
    def exp(x):
        # Added and subtracted again, the rounder leaves an integer in the low bits.
        shifted = x * log2_e + rounder
        whole = shifted - rounder
        rest = (x - whole * high) - whole * low
        value = rest * series[0] + series[1]
        for k in range(2, len(series)):
            value = value * rest + series[k]
        return value * real_of(whole_of(whole_of(bits_of(shifted) + bias) << shift))

    return exp


def _logarithm(kind: _Kind) -> Callable[..., Any]:
    """``log height`` for ``height = 1 + below`` in ``(0, 1]``, accurate also near one."""
    number, bits_of, real_of, whole_of = kind.format, kind.bits_of, kind.real_of, kind.integer
    real, integer, where = number.real, number.integer, kind.where
    zero, one, shift = real(0), real(1), integer(number.mantissa)
    high, low = _halved_log2(real)
    series = tuple(real(value) for value in _log1p_share(number.log_terms))
    # Loops over longer tuples would not be unrolled.
    odd, even = series[::2], series[1::2]
    one_bits, half_root_bits = one.view(integer), real(math.sqrt(0.5)).view(integer)
    to_biased, counter = integer(one_bits - half_root_bits), real(2.0**number.mantissa)
    counter_bits, offset = counter.view(integer), real(counter + number.bias)

    @inline
    def log(below, height):
        bits = bits_of(height)
        biased = whole_of(whole_of(bits + to_biased) >> shift)
        near_one = real_of(whole_of(whole_of(bits + one_bits) - whole_of(biased << shift)))
        exponent = real_of(whole_of(biased + counter_bits)) - offset
        # Above √½ the series takes ``below`` itself, whose digits the rounding of height lost.
        rest = where(exponent == zero, below, near_one - one)
        square = rest * rest
        odds, evens = square * odd[0] + odd[1], square * even[0] + even[1]
        for k in range(2, len(odd)):
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


def _reciprocal(kind: _Kind) -> Any:
    """``1 / x`` for positive ``x``, to five digits."""
    number, bits_of, real_of, whole_of = kind.format, kind.bits_of, kind.real_of, kind.integer
    real, integer = number.real, number.integer
    two, balance = real(2), real(16 / 17)
    mirrored = integer(2 * int(real(1).view(integer)))

    @inline
    def reciprocal(x):
        # Mirrored bits are up to an eighth too much; each step then squares the relative error.
        guess = real_of(whole_of(mirrored - bits_of(x))) * balance
        guess = guess * (two - x * guess)
        return guess * (two - x * guess)

    return reciprocal


def _rough_power(kind: _Kind) -> Callable[..., Any]:
    """``height^exponent`` to five digits: logarithms to base two, no case apart."""
    number, bits_of, real_of, whole_of = kind.format, kind.bits_of, kind.real_of, kind.integer
    real, integer, where, rounded = number.real, number.integer, kind.where, kind.rounded
    shift, bias, one = integer(number.mantissa), integer(number.bias), real(1)
    half_root_bits = real(math.sqrt(0.5)).view(integer)
    rounder, lowest = real(1.5 * 2.0**number.mantissa), real(2 - number.bias)
    logs = tuple(real(value / np.log(2)) for value in _log1p_share(_ROUGH_LOG_TERMS))
    series = tuple(
        real(math.log(2) ** k / math.factorial(k)) for k in range(_ROUGH_EXP_TERMS, -1, -1)
    )

    @inline
    def rough_power(height, exponent):
        bits = bits_of(height)
        exponent_bits = whole_of(whole_of(bits - half_root_bits) >> shift)
        rest = real_of(whole_of(bits - whole_of(exponent_bits << shift))) - one
        value = rest * logs[0] + logs[1]
        for k in range(2, len(logs)):
            value = value * rest + logs[k]
        power = (value * rest + rounded(exponent_bits)) * exponent
        power = where(power > lowest, power, lowest)
        shifted = power + rounder
        rest = power - (shifted - rounder)
        value = rest * series[0] + series[1]
        for k in range(2, len(series)):
            value = value * rest + series[k]
        return value * real_of(whole_of(whole_of(bits_of(shifted) + bias) << shift))

    return rough_power


def _power(kind: _Kind) -> Callable[..., Any]:
    number, exp, log, where = kind.format, _exponential(kind), _logarithm(kind), kind.where
    zero, one = number.real(0), number.real(1)
    lowest = number.real((8 - number.bias) * math.log(2))

    @inline
    def power(below, height, exponent):
        positive = height > zero
        logs = log(below, where(positive, height, one)) * exponent
        high = logs > lowest
        share = where(positive, exp(where(high, logs, lowest)), zero)
        return where(high, share, zero)

    return power


_KINDS = {
    types.float32: _plain(_SINGLE),
    types.float64: _plain(_DOUBLE),
    Vector(types.float32): _side_by_side(_SINGLE),
    Vector(types.float64): _side_by_side(_DOUBLE),
}


def _by_kind(make: Callable[[_Kind], Any]) -> Any:
    """The Python function of what is made for each kind."""
    return {numba_type: make(kind).py_func for numba_type, kind in _KINDS.items()}


_EXPONENTIALS, _LOGARITHMS = _by_kind(_exponential), _by_kind(_logarithm)
_POWERS, _ROUGH_POWERS = _by_kind(_power), _by_kind(_rough_power)
_RECIPROCALS = _by_kind(_reciprocal)


def power(below, height, exponent):
    """``height^exponent``, ``exponent > 0``, ``below = height - 1`` in ``[-1, 0]``; zero at zero.

    Too small a result is zero.
    """
    raise NotImplementedError("callable from kernels only")


@overload(power, jit_options=INLINE)
def _power_of_type(below, height, exponent):
    return _POWERS[below]


def rough_power(height, exponent):
    """``height^exponent`` to five digits, ``exponent > 0``, for positive normal heights.

    Too small a result is next to zero.
    """
    raise NotImplementedError("callable from kernels only")


@overload(rough_power, jit_options=INLINE)
def _rough_power_of_type(height, exponent):
    return _ROUGH_POWERS[height]


def logarithm(below, height):
    """``log height`` for ``height`` in ``(0, 1]`` with ``below = height - 1``."""
    raise NotImplementedError("callable from kernels only")


@overload(logarithm, jit_options=INLINE)
def _logarithm_of_type(below, height):
    return _LOGARITHMS[below]


def exponential(x):
    """``e^x`` for ``x`` between the logarithms of the smallest and the largest number."""
    raise NotImplementedError("callable from kernels only")


@overload(exponential, jit_options=INLINE)
def _exponential_of_type(x):
    return _EXPONENTIALS[x]


def reciprocal(x):
    """``1 / x`` for positive ``x``, to five digits."""
    raise NotImplementedError("callable from kernels only")


@overload(reciprocal, jit_options=INLINE)
def _reciprocal_of_type(x):
    return _RECIPROCALS[x]
