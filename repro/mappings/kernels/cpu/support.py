"""Lists of the entries that count: those above a floor, and those with mass."""

from repro.mappings.kernels.cpu._compile import small
from repro.mappings.kernels.cpu.box import height_of

_BLOCK = 16
"""Entries that are skipped together where none counts."""
_MARGIN = 1e-6


@small
def reaching(row, top, limit, floor, heights, places):
    """List the entries above a floor, relative to the top, and their positions; return how many.

    Entries that are below it by a rounding may be listed too.
    """
    count, cut = 0, row.dtype.type(top + floor - _MARGIN * (abs(top) - floor))
    for start in range(0, row.shape[0], _BLOCK):
        block, found = row[start : start + _BLOCK], 0
        for j in range(block.shape[0]):
            found += block[j] > cut
        if found > 0:
            for j in range(block.shape[0]):
                places[count] = start + j
                count += block[j] > cut
    for k in range(count):
        heights[k] = height_of(row[places[k]], limit, top)
    return count


@small
def with_mass(probs, places):
    """List the positions of positive entries; return how many."""
    count = 0
    for start in range(0, probs.shape[0], _BLOCK):
        block, found = probs[start : start + _BLOCK], 0
        for j in range(block.shape[0]):
            found += block[j] > 0.0
        if found > 0:
            for j in range(block.shape[0]):
                places[count] = start + j
                count += block[j] > 0.0
    return count
