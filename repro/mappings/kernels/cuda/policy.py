"""Launch configurations: all block sizes and numbers of warps.

A row that fits is held in registers, short rows share a program. Longer rows are read again in
every pass, from the caches, unless the entries that count are held (``rows.select_rows``).
"""

from functools import cache
from typing import NamedTuple

TILE_ENTRIES = 256
"""Entries of a program that holds several short rows."""
SHORT_THREAD_BYTES, THREAD_BYTES = 16, 32
"""Bytes that a thread holds in tiles of several rows and of one row, below the limit of warps."""
MOST_WARPS = 32
REGISTERS = 2**16
"""Number of 4-byte registers of a multiprocessor."""
STREAM_ENTRIES, STREAM_WARPS = 1024, 4
"""Entries per chunk and warps of a program that keeps no entries between passes."""

WORKSPACE_BYTES = 2**28
"""Limit of the workspace of a call in global memory, unless a single row needs more."""
PAIRWISE_ENTRIES = 256
"""Longest rows whose entries are all compared in pairs."""
PAIRWISE_TILE, PAIRWISE_WARPS = 4096, 4
"""Pairs that are compared at a time, and the warps that compare them."""


class Work(NamedTuple):
    """Resource class of a kernel.

    Heavier arithmetic needs more registers per thread, so rows held in registers are shorter.

    Attributes:
        held: size in bytes of the longest row that is held in registers.
        chunk: size in bytes of the chunks in which longer rows are read.
        single: use one row per program, whatever its length.
    """

    held: int
    chunk: int
    single: bool = False


RATIONAL = Work(held=2**15, chunk=2**14)
"""Sums and products: up to 32 warps, which leave 64 registers to a thread."""
EXPONENTIALS = Work(held=2**16, chunk=2**14)
"""Softmax, which keeps nothing beside a row: twice as many entries in as many warps."""
POWERS = Work(held=2**14, chunk=2**14)
"""Exponentials and logarithms, or many sums at a time: up to 16 warps.

They leave 128 registers to a thread.
"""
SELECTED = Work(held=2**15, chunk=2**13)
SELECTED_POWERS = Work(held=2**14, chunk=2**13)
SELECTED_SINGLE = SELECTED_POWERS._replace(single=True)
"""Sums of the entries that are selected from a longer row, two of each column of a chunk.

The second class is for powers, and for losses in double precision; the third for rows that need
different solvers.

A chunk leaves room for two programs, one of which may read while the other one solves. Of rows of
131,072 normally distributed scores, 1 % have more than two entries with mass by 1.5-entmax in a
column of 2,048; none have by sparsemax.
"""
SCANS = Work(held=2**12, chunk=2**12)
"""Scans of several numbers along the row, which hold nothing between passes: up to 4 warps.

With some 150 registers a thread three programs share a multiprocessor. Chunks of twice the size, 8
warps and 170 registers, would leave room for one.
"""
STREAMED = Work(held=2**13, chunk=2**13)
"""Entries that are read and written once: a few warps, many programs."""


class Tile(NamedTuple):
    """Number of rows of a program, entries per row, whether these are whole rows, and warps."""

    rows: int
    entries: int
    held: bool
    warps: int


def _warps(size: int, each: int) -> int:
    return min(MOST_WARPS, max(1, size // (32 * each)))


def next_power_of_2(number: int) -> int:
    """Return the least power of two not below a positive number, faster than Triton's function."""
    return 1 << (number - 1).bit_length()


@cache
def registers(warps: int) -> int:
    """Return the registers per thread that make one program fill a multiprocessor, at most 255.

    Without an explicit limit the assembler spills a few values to fit more programs.
    """
    return min(255, REGISTERS // (32 * warps))


@cache  # called in every launch
def tile(length: int, itemsize: int, work: Work) -> Tile:
    """Return the tile for rows of a given length.

    Args:
        length: number of entries of a row.
        itemsize: bytes per entry of all arrays held in registers, in the widest precision.
        work: kind of kernel.
    """
    entries = max(16, next_power_of_2(length))
    if entries * itemsize > work.held:
        return Tile(1, work.chunk // itemsize, False, _warps(work.chunk, THREAD_BYTES))
    rows = 1 if work.single else max(1, TILE_ENTRIES // entries)
    each = THREAD_BYTES if rows == 1 else SHORT_THREAD_BYTES
    return Tile(rows, entries, True, _warps(rows * entries * itemsize, each))


def pairwise(length: int) -> tuple[int, int]:
    """Return the padded length of a row, and the number of others compared with it at a time."""
    entries = max(16, next_power_of_2(length))
    return entries, min(entries, max(16, PAIRWISE_TILE // entries))


def workspace_rows(length: int, each: int) -> int:
    """Return how many rows of ``each`` bytes per entry the workspace may hold, at least one."""
    return max(1, WORKSPACE_BYTES // (length * each))
