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


def run(
    kernel: Any, programs: int, warps: int, first: Tensor, *arguments: Argument, **constants: Any
) -> None:
    """Launch a kernel on the device of its first argument, unless the grid is empty.

    Multiplications and additions may be fused; kernels are correct with either rounding. Loops are
    not pipelined, so loads are never moved before stores.
    """
    if programs == 0:
        return
    # Changing the device takes longer than asking for it.
    if first.is_cuda and first.get_device() != torch.cuda.current_device():
        with torch.cuda.device(first.device):
            run(kernel, programs, warps, first, *arguments, **constants)
    else:
        kernel[programs,](
            first, *arguments, **constants,
            num_warps=warps, num_stages=1, enable_fp_fusion=True, maxnreg=policy.registers(warps),
        )  # fmt: skip
