"""Helpers of the launchers: grids, tiles and scalar arguments in double precision."""

import struct
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from repro.mappings.kernels.cuda import policy

Argument = Tensor | int | None


@lru_cache  # called in every launch
def bits(number: float) -> int:
    """Return the bits of a double as an integer: Triton passes scalar floats as float32."""
    (packed,) = struct.unpack("<q", struct.pack("<d", number))
    return int(packed)


def parameter_of(parameter: float | Tensor) -> tuple[Tensor | int, int]:
    """Return the arguments ``parameter`` and ``stride`` of a kernel; see ``rows.py``.

    Args:
        parameter: a number, or a tensor with one value or one for each row.
    """
    if isinstance(parameter, Tensor):
        return parameter.contiguous(), int(parameter.numel() > 1)
    return bits(parameter), 0


def run_tiles(
    kernel: Any, work: policy.Work, itemsize: int, rows: Tensor, *arguments: Argument, **flags: Any
) -> None:
    """Launch a tiled kernel for all rows; their number and length are appended to its arguments.

    Args:
        kernel: the kernel to launch.
        work: kind of kernel.
        itemsize: bytes per entry of all arrays held in registers, in the widest precision.
        rows: contiguous vectors along the last axis, which is not empty; the first argument.
        arguments: the arguments between ``rows`` and the number of rows.
        flags: compile-time constants of the kernel.
    """
    length = rows.size(-1)
    count = rows.numel() // length
    tile = policy.tile(length, itemsize, work)
    run(
        kernel, -(-count // tile.rows), tile.warps, rows, *arguments, count, length,
        M=tile.rows, N=tile.entries, HELD=tile.held, **flags,
    )  # fmt: skip


_compiled: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}
"""Compiled kernels, with the constants that they take after other arguments, by what Triton
compiles anew for. Its own look-up binds arguments by name, which takes most of a launch's time."""


def _kind(argument: Argument) -> object:
    """Return what Triton compiles for: type, alignment, and of integers being one and size."""
    if isinstance(argument, Tensor):
        return argument.dtype, argument.data_ptr() % 16 == 0
    if argument is None:
        return None
    return argument == 1, argument % 16 == 0, -(2**31) <= argument < 2**31


def run(
    kernel: Any, programs: int, warps: int, first: Tensor, *arguments: Argument, **constants: Any
) -> None:
    """Launch a kernel on the device of its first argument, unless the grid is empty.

    Multiplications and additions may be fused; kernels are correct with either rounding. Loops are
    not pipelined, so loads are never moved before stores.
    """
    if programs == 0:
        return
    device = first.get_device()
    # Changing the device takes longer than asking for it.
    if first.is_cuda and device != torch.cuda.current_device():
        with torch.cuda.device(first.device):
            run(kernel, programs, warps, first, *arguments, **constants)
        return
    kinds = (_kind(first), *map(_kind, arguments))
    key = (id(kernel), device, warps, kinds, *constants.values())  # kernels live as modules do
    if key in _compiled:
        compiled, values = _compiled[key]
        compiled[programs, 1, 1](first, *arguments, *values)
        return
    compiled = kernel[programs,](
        first, *arguments, **constants,
        num_warps=warps, num_stages=1, enable_fp_fusion=True, maxnreg=policy.registers(warps),
    )  # fmt: skip
    if compiled is not None:  # by the interpreter
        names = kernel.arg_names[1 + len(arguments) :]
        _compiled[key] = compiled, tuple(constants[name] for name in names)
