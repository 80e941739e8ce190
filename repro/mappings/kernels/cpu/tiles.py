"""Short rows, as many at a time as a vector has lanes, each in a lane of its own.

A tile holds candidates column by column, so sums over rows are plain sums of vectors. Few entries
are candidates: the maxima of what comes into each lane when a row is read make up a tile of their
own, whose threshold is at most too low, and only what reaches above it gets into the second tile.

Candidates are ``w = r (z - max z)``; see ``closed.py`` for the equation.
"""

import numpy as np

from repro.mappings.kernels.cpu._compile import lean, small
from repro.mappings.kernels.cpu.exchanges import compress, expand, transpose
from repro.mappings.kernels.cpu.lanes import load, load_first, store, store_first
from repro.mappings.kernels.cpu.search import MARGIN, OUT
from repro.mappings.kernels.cpu.vector_types import BITS
from repro.mappings.kernels.cpu.vectors import count, either, maximum, splat, unordered, where

LINE = 4
"""Columns that are added up together."""


@lean
def width_of(rows):
    """How many rows of these a tile takes: the lanes of a vector."""
    return BITS // 8 // rows.itemsize


@lean
def head_columns(rows):
    """How many columns the tile of their maxima has."""
    return max(width_of(rows), LINE)


@lean
def stride_of(rows):
    """Room for a row's candidates, one more vector, and a line."""
    width = width_of(rows)
    return (rows.shape[1] + width - 1) // width * width + 2 * width


@lean
def stride_of_lists(lists):
    """The same of rows whose lists these are."""
    return lists.shape[0] // width_of(lists)


@small
def new_tiles(rows):
    """Room for lists of candidates and for a tile."""
    return np.empty((2, stride_of(rows) * width_of(rows)), rows.dtype)


@small
def new_numbers(rows, fields):
    """Room for numbers of each lane."""
    return np.zeros((fields, width_of(rows)), rows.dtype)


@lean
def lane_maxima(row):
    """The maximum of the entries that come into each lane, and a count of NaNs."""
    size, step, lowest = row.shape[0], width_of(row), row.dtype.type(-np.inf)
    one = other = splat(lowest)
    bad, whole = unordered(one, other), size // (2 * step) * (2 * step)
    for j in range(0, whole, 2 * step):
        a, b = load(row, j), load(row, j + step)
        one, other, bad = maximum(a, one), maximum(b, other), either(bad, unordered(a, b))
    a = load_first(row, whole, size - whole, lowest)
    b = load_first(row, whole + step, size - whole - step, lowest)
    bad = either(bad, unordered(a, b))
    return maximum(maximum(a, one), maximum(b, other)), count(bad)


@lean
def take_heads(scores, first, last, lists, heads, bads):
    """Have the maxima of the rows of a tile in a tile; return the largest of each row.

    Past the last row it is taken once more.
    """
    step = width_of(scores)
    for k in range(step):
        best, bad = lane_maxima(scores[min(first + k, last)])
        bads[k] = scores.dtype.type(bad)
        store(lists, k * step, best)
    transpose(lists, 0, step, heads, 0, step)
    for k in range(step, LINE):
        store(heads, k * step, splat(scores.dtype.type(-np.inf)))
    top = load(heads, 0)
    for k in range(1, step):
        top = maximum(load(heads, k * step), top)
    return top


@lean
def clamped(top, highest):
    """Largest entries as numbers to subtract: infinities become the largest number."""
    return maximum(where(top < highest, top, highest), -highest)


@lean
def centre(tile, columns, top, order):
    """Replace entries by candidates."""
    width = width_of(tile)
    for k in range(0, columns * width, width):
        store(tile, k, maximum(candidate(load(tile, k), top, order), OUT))


@lean
def candidate(entries, top, order):
    """``w``, at most zero, as ``+inf`` ties with the largest number."""
    w = (entries - top) * order
    return where(w < 0.0, w, 0.0)


@lean
def gather(row, top, order, limit, lists, taken):
    """Write the entries above a limit from a place on, next to each other; return the end."""
    size, step, lowest = row.shape[0], width_of(row), row.dtype.type(-np.inf)
    whole = size // step * step
    for j in range(0, whole, step):
        entries = load(row, j)
        above = candidate(entries, top, order) > limit
        store(lists, taken, compress(entries, above))
        taken += count(above)
    entries = load_first(row, whole, size - whole, lowest)
    above = candidate(entries, top, order) > limit
    store(lists, taken, compress(entries, above))
    return taken + count(above)


@lean
def turn(lists, ends, columns, nothing, tile):
    """Have the lists of rows in a tile, filled up with what gets nothing."""
    width, stride = width_of(lists), stride_of_lists(lists)
    for k in range(width):
        for j in range(ends[k], k * stride + columns, width):
            store(lists, j, splat(nothing))
    for j in range(0, columns, width):
        transpose(lists, j, stride, tile, j * width, width)


@lean
def limits_of(c):
    """What candidates reach above, where ``c`` is not too low but for rounding."""
    return c * -MARGIN


@lean
def take_candidates(scores, first, last, tops, orders, limits, lists, ends, tile):
    """Have what can get mass of the rows of a tile in a tile; return how many columns there are.

    That is what reaches above the limits of the rows. Also writes where the list of each row ends.
    """
    width, stride, columns = width_of(scores), stride_of(scores), 0
    for k in range(width):
        row = scores[min(first + k, last)]
        ends[k] = gather(row, tops[k], orders[k], limits[k], lists, k * stride)
        columns = max(columns, ends[k] - k * stride)
    columns = (columns + LINE - 1) // LINE * LINE
    turn(lists, ends, columns, scores.dtype.type(-np.inf), tile)
    return columns


@lean
def give_shares(shares, columns, stride, lists):
    """Have the shares of candidates next to each other, as the candidates were."""
    width = width_of(shares)
    for j in range(0, columns, width):
        transpose(shares, j * width, width, lists, j, stride)


@lean
def scatter(row, top, order, limit, scale, lists, taken, out):
    """Write the shares of the candidates above a limit, times a scale, and zeros."""
    size, step, lowest = row.shape[0], width_of(row), row.dtype.type(-np.inf)
    whole = size // step * step
    for j in range(0, whole, step):
        above = candidate(load(row, j), top, order) > limit
        store(out, j, expand(lists, taken, above) * scale)
        taken += count(above)
    rest = load_first(row, whole, size - whole, lowest)
    above = candidate(rest, top, order) > limit
    store_first(out, whole, size - whole, expand(lists, taken, above) * scale)
