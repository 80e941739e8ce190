"""Helpers of the launchers: grids, tiles and scalar arguments in double precision."""

import struct
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from repro.mappings.kernels.cuda import policy


@lru_cache  # called in every launch
def bits(number: float) -> int:
    """Return the bits of a double as an integer: Triton passes scalar floats as float32."""
    (packed,) = struct.unpack("<q", struct.pack("<d", number))
    return int(packed)


def numbers_of(parameter: float | Tensor, rows: Tensor) -> tuple[Tensor, int, int]:
    """Return the arguments ``numbers``, ``stride`` and ``number`` of a kernel; see ``rows.py``.

    Args:
        parameter: a number, or a tensor with one value or one for each row.
        rows: returned as ``numbers``, which the kernel does not read, if there is no tensor.
    """
    if isinstance(parameter, Tensor):
        return parameter.contiguous(), int(parameter.numel() > 1), 0
    return rows, 0, bits(parameter)


def run(
    kernel: Any,
    grid: tuple[int, int],
    first: Tensor,
    *arguments: Any,
    warps: int,
    **sizes: Any,
) -> None:
    """Launch a kernel on the device of its first argument, unless the grid is empty.

    Multiplications and additions may be fused; kernels are correct with either rounding. Loops are
    not pipelined, so loads are never moved before stores.
    """
    if 0 in grid:
        return
    options = {
        "num_warps": warps,
        "num_stages": 1,
        "enable_fp_fusion": True,
        "maxnreg": policy.registers(warps),
    }
    given, named = (first, *arguments), sizes | options
    # Changing the device takes longer than asking for it.
    if first.is_cuda and first.get_device() != torch.cuda.current_device():
        with torch.cuda.device(first.device):
            start(kernel, grid, given, named)
    else:
        start(kernel, grid, given, named)


def run_tiles(
    kernel: Any,
    work: policy.Work,
    itemsize: int,
    rows: Tensor,
    *arguments: Any,
    single: bool = False,
    **flags: bool | int,
) -> None:
    """Launch a tiled kernel for all rows; their number and length are appended to its arguments.

    Args:
        kernel: the kernel to launch.
        work: kind of kernel.
        itemsize: bytes per entry of all arrays held in registers, in the widest precision.
        rows: contiguous vectors along the last axis, which is not empty; the first argument.
        arguments: the arguments between ``rows`` and the number of rows.
        single: use one row per program, whatever its length.
        flags: compile-time constants of the kernel.
    """
    length = rows.size(-1)
    count = rows.numel() // length
    tile = policy.tile(length, itemsize, work, single=single)
    run(
        kernel, (-(-count // tile.rows), 1), rows, *arguments, count, length, **flags,
        M=tile.rows, N=tile.entries, HELD=tile.held, warps=tile.warps,
    )  # fmt: skip


def start(kernel: Any, grid: tuple[int, int], arguments: tuple[Any, ...], named: Any) -> None:
    """Start a kernel on the current device."""
    kernel[grid](*arguments, **named)
