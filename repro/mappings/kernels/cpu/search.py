"""From a row of scores to its candidates: the entries that can get mass at all.

One pass finds the largest score of every block of entries. The distribution over these maxima alone
has a threshold that is at most too low, and few blocks reach it; only these are read again.
"""

import numpy as np
from numba import njit

from repro.mappings.kernels.cpu._compile import exact, inner, small

BLOCK = 16
"""Entries of a block: two vector instructions in single precision."""
PAD = 16
"""Lists of candidates are filled up to multiples of this."""
OUT = -2.0
"""A candidate that gets nothing, and finite."""
MARGIN = 1.0 + 1e-6
"""What is gathered reaches a little below a bound, which is rounded."""

_unordered = njit(nogil=True, fastmath={"nnan", "nsz", "reassoc"}, forceinline=True)
"""For maxima only: rows with NaN are found by :func:`is_nan`, and their maxima not used."""


@_unordered
def larger(a, b):
    """The larger of two numbers."""
    return a if a > b else b


@exact
def is_nan(value):
    """Whether a number is NaN."""
    return value != value


@small
def part_maximum(part):
    """The largest entry of a part of a row, and whether there is a NaN."""
    best, bad = part[0], False
    for j in range(part.shape[0]):
        best = larger(part[j], best)
        bad |= is_nan(part[j])
    return best, bad


@inner
def block_maxima(row, maxima):
    """Write the maximum of every block of a row; return the largest, and if a NaN is there.

    Blocks are slices: of a position that numba does not know to be positive it asks whether to
    count from the end, and loads are then no vector instructions.
    """
    whole, top, bad = row.shape[0] // BLOCK, row[0], False
    for k in range(whole):
        block = row[k * BLOCK : (k + 1) * BLOCK]
        best = block[0]
        for j in range(BLOCK):
            best = larger(block[j], best)
            bad |= is_nan(block[j])
        maxima[k], top = best, larger(best, top)
    if whole < maxima.shape[0]:
        best, last_bad = part_maximum(row[whole * BLOCK :])
        maxima[whole], top, bad = best, larger(best, top), bad | last_bad
    return top, bad


@small
def clamped(top, largest):
    """The maximum as a number to subtract: infinities become the largest number."""
    return min(max(np.float64(top), -largest), largest)


@small
def scaled_score(score, top, order):
    """``w = r (z - max z)``, at most zero: ``+inf`` ties with the largest number."""
    w = order * (np.float64(score) - top)
    return w if w < 0.0 else 0.0


@small
def pad(lists, i, count):
    """Fill list ``i`` up with entries that get nothing; return its length.

    Loops over whole vectors have no remainder, which for short lists would take most of the time.
    """
    padded = (count + PAD - 1) // PAD * PAD
    for j in range(count, padded):
        lists[i, j] = OUT
    return padded


@small
def load(row, size, top, order, listed):
    """Take all entries of a row into a list, in their order."""
    for j in range(size):
        w = scaled_score(row[j], top, order)
        listed[j] = w if w > OUT else OUT


@inner
def gather_maxima(maxima, top, order, lists):
    """Collect the block maxima that can get mass; return how many, filled up."""
    count = 0
    for k in range(maxima.shape[0]):
        w = scaled_score(maxima[k], top, order)
        lists[0, count] = w
        count += w > -1.0
    return pad(lists, 0, count)


@inner
def gather_blocks(row, maxima, top, order, c, lists, places):
    """Take the blocks that reach above ``-c`` into a list, with their numbers; return how many.

    Where steps are cheap this takes less time than to pick their entries.
    """
    count, lowest = 0, -c * MARGIN
    for k in range(maxima.shape[0]):
        if scaled_score(maxima[k], top, order) > lowest:
            block = row[k * BLOCK : (k + 1) * BLOCK]
            listed = lists[0, count * BLOCK : (count + 1) * BLOCK]
            if block.shape[0] == BLOCK:
                load(block, BLOCK, top, order, listed)
            else:
                listed[:] = OUT
                load(block, block.shape[0], top, order, listed)
            places[count] = k
            count += 1
    return count


@inner
def gather(row, maxima, top, order, c, lists, places):
    """Collect the entries that reach above ``-c``, and their positions; return how many."""
    count, lowest = 0, -c * MARGIN
    for k in range(maxima.shape[0]):
        if scaled_score(maxima[k], top, order) > lowest:
            block = row[k * BLOCK : (k + 1) * BLOCK]
            for j in range(block.shape[0]):
                w = scaled_score(block[j], top, order)
                lists[0, count] = w
                places[count] = k * BLOCK + j
                count += w > lowest
    return count
