"""Shared steps of the launchers: rows, grids, and numbers in full precision."""

import struct
from typing import Any, NamedTuple

import torch
from torch import Tensor

from repro.mappings.kernels.cuda import policy


def rows_of(tensor: Tensor) -> Tensor:
    """The tensor with vectors along the last axis one after the other in memory.

    Its shape stays: kernels take a pointer and what :func:`extent` returns, and a view of their
    result takes as long as half of a launch.
    """
    return tensor.contiguous()


def extent(rows: Tensor) -> tuple[int, int]:
    """Number of vectors along the last axis, and their length, which is at least one."""
    length = rows.size(-1)
    return rows.numel() // length, length


def bits(number: float) -> int:
    """A number as an integer: scalar arguments that are floating point lose half their digits."""
    (packed,) = struct.unpack("<q", struct.pack("<d", number))
    return int(packed)


def run(
    kernel: Any,
    programs: int | tuple[int, int],
    first: Tensor,
    *arguments: Any,
    warps: int,
    **sizes: Any,
) -> None:
    """Launch a kernel on the device of its first argument; nothing is launched for no rows.

    Multiplications and additions may be fused; no kernel depends on either rounding. Loads are
    never moved before stores, as loops are not pipelined.
    """
    grid = (programs, 1) if isinstance(programs, int) else programs
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
    kernel: Any, tile: policy.Tile, rows: Tensor, *arguments: Any, **flags: bool | int
) -> None:
    """Launch a kernel of tiles for all rows; the extent of the rows is its last argument."""
    count, length = extent(rows)
    run(
        kernel, programs_for(count, tile.rows), rows, *arguments, count, length, **flags,
        M=tile.rows, N=tile.entries, HELD=tile.held, warps=tile.warps,
    )  # fmt: skip


def start(kernel: Any, grid: tuple[int, int], arguments: tuple[Any, ...], named: Any) -> None:
    """Start a kernel on the current device."""
    kernel[grid](*arguments, **named)


def programs_for(count: int, each: int) -> int:
    """Number of programs that ``count`` rows take, ``each`` at a time."""
    return -(-count // each)


class Numbers(NamedTuple):
    """A parameter of the rows: one for each, ``pace`` apart, or the bits of one for all."""

    each: Tensor | None
    pace: int
    bits: int

    def arguments(self, rows: Tensor) -> tuple[Tensor, int, int]:
        """Arguments of a kernel; the rows are in the place of a tensor that is not read."""
        return rows if self.each is None else self.each, self.pace, self.bits


def numbers_of(parameter: float | Tensor) -> Numbers:
    """A parameter for kernels; a tensor has one value, or one for each row."""
    if isinstance(parameter, Tensor):
        return Numbers(parameter.contiguous(), int(parameter.numel() > 1), 0)
    return Numbers(None, 0, bits(parameter))
