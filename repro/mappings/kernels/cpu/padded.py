"""Copies of rows filled up to whole vectors, so that no loop over them has a remainder.

In a row of fifty entries the remainder would take longer than the rest.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from repro.mappings.kernels.cpu._compile import small

_STRIDE = 32
"""What a loop takes in one go: two to four vectors of single precision."""


@intrinsic
def _copy_bytes(typing_context: Any, target: Any, source: Any, count: Any) -> Any:
    """Copy bytes from one address to another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        to, origin = (builder.inttoptr(address, byte) for address in arguments[:2])
        cgutils.raw_memcpy(builder, to, origin, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(target, source, count), generate


@small
def padded_size(size):
    """The length of a padded row."""
    return (size + _STRIDE - 1) // _STRIDE * _STRIDE


@small
def copy_in(row, padded):
    """Copy a row; what its end was filled up with stays."""
    _copy_bytes(padded.ctypes.data, row.ctypes.data, row.shape[0] * row.itemsize)


@small
def copy_out(padded, row):
    """Copy what is not padding."""
    _copy_bytes(row.ctypes.data, padded.ctypes.data, row.shape[0] * row.itemsize)
