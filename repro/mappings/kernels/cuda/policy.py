"""Division of kernels into programs: all block sizes and numbers of warps.

Mappings are limited by memory: the floor of a forward pass is one read and one write of every
entry. A row that fits is held in registers, so that it is read once however often the solver looks
at it; short rows share a program. Longer rows are read again in every pass, from the caches.
"""

from functools import cache
from typing import NamedTuple

TILE_ENTRIES = 256
"""Entries of a program that holds several short rows."""
SHORT_THREAD_BYTES, THREAD_BYTES = 16, 32
"""Bytes of one array that a thread holds, given enough threads: for several rows, for one row."""
MOST_WARPS = 32
REGISTERS = 2**16
"""Registers of 4 bytes of a multiprocessor."""
STREAM_ENTRIES, STREAM_WARPS = 2048, 4
"""Entries and warps of a program that only streams."""

WORKSPACE_BYTES = 2**28
"""Most global memory of a call beside its arguments and results, however many rows there are."""
PAIRWISE_ENTRIES = 256
"""Length of rows up to which all pairs of entries are compared."""
PAIRWISE_TILE, PAIRWISE_WARPS = 4096, 4
"""Pairs that are compared at a time, and the warps that compare them."""


class Work(NamedTuple):
    """Work of a kernel per entry, which decides how many registers it needs beside its own.

    Attributes:
        held: size of the longest row that is held.
        chunk: part of a longer row that is looked at in one piece.
    """

    held: int
    chunk: int


RATIONAL = Work(held=2**15, chunk=2**14)
"""Sums and products: up to 32 warps, which leave 64 registers to a thread."""
POWERS = Work(held=2**14, chunk=2**14)
"""Exponentials and logarithms, or many sums at a time: up to 16 warps.

They leave 128 registers to a thread.
"""
SCANS = Work(held=2**13, chunk=2**13)
"""Scans of several numbers along the row: up to 8 warps."""


class Tile(NamedTuple):
    """Rows and entries of a program, whether it holds whole rows, and its warps."""

    rows: int
    entries: int
    held: bool
    warps: int


def _warps(size: int, each: int) -> int:
    return min(MOST_WARPS, max(1, size // (32 * each)))


def next_power_of_2(number: int) -> int:
    """The smallest power of two that is at least a positive number; faster than that of triton."""
    return 1 << (number - 1).bit_length()


def registers(warps: int) -> int:
    """Registers that a thread may use: all, if its program is alone on a multiprocessor.

    Without a limit the assembler spills a few values to fit more programs.
    """
    return min(255, REGISTERS // (32 * warps))


@cache  # asked in every launch
def tile(length: int, itemsize: int, work: Work = RATIONAL, *, single: bool = False) -> Tile:
    """The tile for rows of a length.

    Args:
        length: of a row.
        itemsize: bytes of an entry in the widest precision that is computed.
        work: kind of kernel.
        single: one row per program, whatever its length.
    """
    entries = max(16, next_power_of_2(length))
    if entries * itemsize > work.held:
        return Tile(1, work.chunk // itemsize, False, _warps(work.chunk, THREAD_BYTES))
    rows = 1 if single else max(1, TILE_ENTRIES // entries)
    each = THREAD_BYTES if rows == 1 else SHORT_THREAD_BYTES
    return Tile(rows, entries, True, _warps(rows * entries * itemsize, each))


def pairwise(length: int) -> tuple[int, int]:
    """Entries of a row that are compared with how many others at a time."""
    entries = max(16, next_power_of_2(length))
    return entries, min(entries, max(16, PAIRWISE_TILE // entries))


def workspace_rows(length: int, each: int) -> int:
    """Number of rows with ``each`` bytes per entry that the workspace holds; one at least."""
    return max(1, WORKSPACE_BYTES // (length * each))
