"""How kernels are cut into programs: every block size and number of warps stands here.

Mappings are limited by memory: the floor of a forward pass is one read and one write of every
entry. A row that fits is held in registers, so that it is read once however often the solver looks
at it; short rows share a program. Longer rows are read again in every pass, from the caches.
"""

from typing import NamedTuple

import triton

HELD_BYTES = 2**16
"""Size of the longest row that is held: with 32 warps, 64 registers a thread suffice for that."""
TILE_ENTRIES = 256
"""Entries of a program that holds several short rows."""
CHUNK_BYTES = 2**15
"""Part of a longer row that is looked at in one piece."""
SHORT_THREAD_BYTES, THREAD_BYTES = 16, 32
"""What a thread holds of one array, where there are threads enough: for several rows, for one."""
MOST_WARPS = 32
STREAM_ENTRIES, STREAM_WARPS = 2048, 4
"""Entries and warps of a program that only streams."""

LANES = 32
"""Rows of a program of one warp that solves a row in every lane."""
LANE_PROGRAMS, LANE_BYTES = 4096, 2**30
"""Most programs of lanes, and scratch memory of all; programs take rows one after another."""
PAIRWISE_ENTRIES = 1024
"""Length of rows up to which all pairs of entries are compared."""
PAIRWISE_TILE, PAIRWISE_WARPS = 4096, 4
"""Pairs that are compared at a time, and the warps that compare them."""


class Tile(NamedTuple):
    """Rows and entries of a program, whether it holds whole rows, and its warps."""

    rows: int
    entries: int
    held: bool
    warps: int


def _warps(size: int, each: int) -> int:
    return min(MOST_WARPS, max(1, size // (32 * each)))


def tile(length: int, itemsize: int, *, single: bool = False) -> Tile:
    """The tile for rows of a length.

    Args:
        length: of a row.
        itemsize: bytes of an entry in the precision of the computation.
        single: one row per program, whatever its length.
    """
    entries = max(16, triton.next_power_of_2(length))
    if entries * itemsize > HELD_BYTES:
        entries = CHUNK_BYTES // itemsize
        return Tile(1, entries, False, _warps(CHUNK_BYTES, THREAD_BYTES))
    rows = 1 if single else max(1, TILE_ENTRIES // entries)
    each = THREAD_BYTES if rows == 1 else SHORT_THREAD_BYTES
    return Tile(rows, entries, True, _warps(rows * entries * itemsize, each))


def pairwise(length: int) -> tuple[int, int]:
    """Entries of a row that are compared with how many others at a time."""
    entries = max(16, triton.next_power_of_2(length))
    return entries, min(entries, max(16, PAIRWISE_TILE // entries))


def lane_programs(count: int, each: int) -> int:
    """Programs of lanes for a number of rows with ``each`` bytes of scratch memory."""
    affordable = max(1, LANE_BYTES // (LANES * each))
    return min(LANE_PROGRAMS, affordable, int(triton.cdiv(count, LANES)))
