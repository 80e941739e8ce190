"""The descending order of a row: by counting in short rows, by digits in long ones.

Comparing every entry with every other takes vector instructions; sorting does not, and takes longer
up to a length of a hundred or two. In long rows the bytes of the entries are sorted by counting,
from the last to the first, in linear time. Equal entries keep their order.
"""

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, lean, small
from repro.mappings.kernels.cpu.lanes import load, store
from repro.mappings.kernels.cpu.tiles import width_of
from repro.mappings.kernels.cpu.vectors import both, either, numbered, splat, where

SHORT = 160
"""Rows up to this length are compared with themselves."""
_DIGITS = 256


@lean
def by_comparison(heights, size, ranks, order):
    """Write the positions of numbers from the largest to the smallest.

    Args:
        heights: the numbers, filled up to whole vectors.
        size: how many.
        ranks: room for as many.
        order: gets the positions.
    """
    step, zero = width_of(heights), splat(heights.dtype.type(0))
    lane = numbered(zero)
    for k in range(0, size, step):
        numbers, rank = load(heights, k), zero
        for j in range(k):
            rank += where(numbers <= heights[j], zero + 1.0, zero)
        for j in range(k, min(k + step, size)):
            tied = both(numbers <= heights[j], lane > j - k)
            rank += where(either(numbers < heights[j], tied), zero + 1.0, zero)
        for j in range(k + step, size):
            rank += where(numbers < heights[j], zero + 1.0, zero)
        store(ranks, k, rank)
    for k in range(size):
        order[np.int64(ranks[k])] = k


@inner
def by_digits(keys, size, order, spare_keys, spare_order, counts):
    """The same; overwrites the keys."""
    width = keys.itemsize
    for k in range(width * _DIGITS):
        counts[k] = 0
    for i in range(size):
        order[i] = i
        for digit in range(width):
            counts[digit * _DIGITS + _digit(keys[i], digit, width)] += 1
    for digit in range(width):
        found = counts[digit * _DIGITS : (digit + 1) * _DIGITS]
        if found[_digit(keys[0], digit, width)] == size:
            continue
        _starts(found)
        for i in range(size):
            slot = _digit(keys[i], digit, width)
            place = found[slot]
            found[slot] = place + 1
            spare_keys[place], spare_order[place] = keys[i], order[i]
        for i in range(size):
            keys[i], order[i] = spare_keys[i], spare_order[i]


@small
def _digit(key, digit, width):
    """A byte of a key, so that larger keys have smaller ones; the first byte holds the sign."""
    byte = (key >> (8 * digit)) & (_DIGITS - 1)
    return byte ^ (127 if digit == width - 1 else 255)


@small
def _starts(counts):
    """Replace counts by the sums of those before them."""
    total = 0
    for k in range(counts.shape[0]):
        count = counts[k]
        counts[k] = total
        total += count
