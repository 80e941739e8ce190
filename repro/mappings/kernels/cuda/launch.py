"""Shared steps of the launchers: grids, tiles, and numbers in full precision."""

import struct
from typing import Any

import torch
from torch import Tensor

from repro.mappings.kernels.cuda import policy


def bits(number: float) -> int:
    """A number as an integer: scalar arguments that are floating point lose half their digits."""
    (packed,) = struct.unpack("<q", struct.pack("<d", number))
    return int(packed)


def numbers_of(parameter: float | Tensor, rows: Tensor) -> tuple[Tensor, int, int]:
    """Arguments ``numbers``, ``stride`` and ``number`` of a kernel; see ``rows.py``.

    Args:
        parameter: a number, or a tensor with one value or one for each row.
        rows: in the place of a tensor that is not read.
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
    """Launch a kernel on the device of its first argument; nothing is launched for no rows.

    Multiplications and additions may be fused; no kernel depends on either rounding. Loads are
    never moved before stores, as loops are not pipelined.
    """
    if 0 in grid:
        return
    options = {
        "num_warps": warps,
        "num_stages": 1,
        "enable_fp_fusion": True,
        "maxnreg": policy.registers(warps),
    }
    with torch.cuda.device_of(first):
        start(kernel, grid, (first, *arguments), sizes | options)


def run_tiles(
    kernel: Any,
    work: policy.Work,
    itemsize: int,
    rows: Tensor,
    *arguments: Any,
    single: bool = False,
    **flags: bool | int,
) -> None:
    """Launch a kernel of tiles for all rows, whose number and length are its last arguments.

    Args:
        kernel: to launch.
        work: kind of kernel.
        itemsize: bytes of an entry of all arrays that are held, in the widest precision.
        rows: contiguous vectors along the last axis, which is not empty.
        arguments: further arguments before the number of rows.
        single: one row per program, whatever its length.
        flags: constants of the kernel.
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
