"""Lists of the entries that count: those above a floor, and those with mass."""

import numpy as np
from numba import carray

from repro.mappings.kernels.cpu._compile import pointer, small
from repro.mappings.kernels.cpu.box import height_of

_BYTES = 8
_MARGIN = 1e-6


@small
def word_count(size):
    """How many words hold a byte for each entry."""
    return (size + _BYTES - 1) // _BYTES


@small
def above(row, cut, words, places):
    """List the positions of entries above a number; return how many.

    All comparisons come first, as vectors that leave a byte each; the bytes are then read eight at
    a time. Both lists may be written one place farther than they are long.
    """
    size = row.shape[0]
    full = word_count(size)
    flags = carray(pointer(words.ctypes.data, np.uint8(0)), (full * _BYTES,))
    words[full - 1] = np.uint64(0)
    for j in range(size):
        flags[j] = row[j] > cut
    count = np.uint64(0)
    for k in range(full):
        word = words[k]
        if word != np.uint64(0):
            for j in range(_BYTES):
                places[count] = _BYTES * k + j
                count += (word >> np.uint64(_BYTES * j)) & np.uint64(1)
    return np.int64(count)


@small
def reaching(row, top, limit, floor, heights, words, places):
    """List the entries above a floor, relative to the top, and their positions; return how many.

    Entries that are below it by a rounding may be listed too.
    """
    count = above(row, row.dtype.type(top + floor - _MARGIN * (abs(top) - floor)), words, places)
    for k in range(count):
        heights[k] = height_of(row[places[k]], limit, top)
    return count


@small
def with_mass(probs, words, places):
    """List the positions of positive entries; return how many."""
    return above(probs, probs.dtype.type(0), words, places)
