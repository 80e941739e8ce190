"""The largest entry of a row, compared as integers: maxima of floats are not vectorised."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from repro.mappings.kernels.cpu._compile import EXACT, exact, small
from repro.mappings.kernels.cpu.search import is_nan


def _keys(real: Any, integer: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """From a number to an integer of the same order, and back."""
    sign = integer(8 * real(0).itemsize - 1)
    rest = np.iinfo(integer).max

    @exact
    def key(value):
        bits = real(value).view(integer)
        return integer(bits ^ integer(integer(bits >> sign) & integer(rest)))

    @exact
    def value(key):
        return integer(key ^ integer(integer(key >> sign) & integer(rest))).view(real)

    return key.py_func, value.py_func


_SINGLE, _DOUBLE = _keys(np.float32, np.int32), _keys(np.float64, np.int64)
_KEYS = {types.float32: _SINGLE[0], types.float64: _DOUBLE[0]}
_VALUES = {types.int32: _SINGLE[1], types.int64: _DOUBLE[1]}
_INTEGERS = {types.float32: np.int32, types.float64: np.int64}


def key_of(value):
    """An integer of the same order; NaN is next to an infinity."""
    raise NotImplementedError("callable from kernels only")


@overload(key_of, jit_options=EXACT)
def _key_of_type(value):
    return _KEYS[value]


def value_of(key):
    """The number of a key."""
    raise NotImplementedError("callable from kernels only")


@overload(value_of, jit_options=EXACT)
def _value_of_type(key):
    return _VALUES[key]


@small
def largest(row):
    """The largest entry of a row, and whether there is a NaN; the entry is then of no use."""
    best, bad = key_of(row[0]), False
    for j in range(row.shape[0]):
        key = key_of(row[j])
        best = key if key > best else best
        bad |= is_nan(row[j])
    return value_of(best), bad


@small
def largest_open(row, uppers):
    """The largest of the entries whose bound is positive; ``-inf`` if there is none."""
    lowest, zero = key_of(row.dtype.type(-np.inf)), row.dtype.type(0)
    best = lowest
    for j in range(np.uint64(row.shape[0])):
        key = key_of(row[j])
        key = key if uppers[j] > zero else lowest
        best = key if key > best else best
    return value_of(best)


def keys_like(rows, count, size):
    """Room for the keys of so many rows."""
    raise NotImplementedError("callable from kernels only")


@overload(keys_like, jit_options=EXACT)
def _keys_like_type(rows, count, size):
    integer = _INTEGERS[rows.dtype]

    def empty(rows, count, size):
        return np.empty((count, size), integer)

    return empty
