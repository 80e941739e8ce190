"""Blocks of rows that are solved together, in one of two orientations.

A block holds candidates, the entries that may get mass, as vectors. In a *tile* (short rows) each
lane holds a row of its own and column ``k`` holds the ``k``-th candidate of every row: a sum along
rows is a sum of vectors. In a *row block* (one long row) lanes run along the row, and a sum of
vectors is summed across lanes as well. Solvers are written once: they loop over the columns and
call :func:`along_row`. A number per row is a vector, whose lanes are equal in a row block.

Screening: the lane-wise maxima of a row are a subset of its entries, so their threshold is a lower
bound of the row's threshold. Only entries above it are gathered and solved for. This costs one more
read of the row, from the cache; without it, solving 400 columns takes 1.2 to 5 times as long.

The precision of a block is that of the rows or double. Gathered entries are converted.
"""

from typing import Any, NamedTuple

import numpy as np

from repro.mappings.kernels.cpu import simd
from repro.mappings.kernels.cpu.compile import allocating, inline
from repro.mappings.kernels.cpu.simd import BITS

TILED = 512
"""Rows up to this length are solved in tiles."""
LINE = 4
"""Columns come in multiples of this, so that loops can be unrolled without a remainder."""
OUT = -2.0
"""A candidate that gets no mass: below -1, and finite."""
LOOSER = 1.0 + 1e-6
"""Factor that lowers limits by more than the rounding of their computation."""
_ROWS_PER_SUPPORT = 16
"""Number of short rows whose entries with mass are listed before the first is differentiated.

Loading a vector right after overlapping stores to it would stall until they reach the cache.
"""
_MAXIMA = 4
"""Vectors of lane-wise maxima of a row; more give better limits but take registers."""


class Block(NamedTuple):
    """Workspace for rows that are solved together."""

    w: Any  # candidates, column by column
    shares: Any  # scratch, a number for each candidate
    lists: Any  # candidates, row by row
    packed: Any  # results, row by row, in the precision of the rows
    ends: Any  # where the list of each row ends
    peaks: Any  # the largest entry of each row, perhaps infinite
    tops: Any  # the largest entry of each row, finite
    invalid: Any  # positive if a row contains NaN
    r_of_rows: Any  # parameter of each row, such as ``r = α - 1``
    limits: Any  # entries above this are candidates
    scales: Any  # factors of the results; 0 marks a row not solved
    tails: Any  # rounding errors of the factors or the sums
    totals: Any  # sums of the results before scaling
    moments: Any  # second sums, such as ``Σ p w``
    heads: Any  # scratch, a number for each row
    in_lanes: bool  # whether this is a tile


@inline
def width_of(array):
    """Return the number of SIMD lanes for the dtype of an array."""
    return BITS // 8 // array.itemsize


@inline
def stride_of(rows):
    """Return the length reserved for the list of a row, padding to lines and vectors included."""
    width = BITS // 8 // rows.itemsize
    return (rows.shape[1] + width - 1) // width * width + 2 * width + LINE * width


@allocating
def new_block(rows, like, in_lanes):
    """Allocate a block for ``rows`` in the precision of ``like``; a tile if ``in_lanes``."""
    width = width_of(like)
    stride = stride_of(rows)
    room = stride * width if in_lanes else stride
    numbers = np.zeros((10, width), like.dtype)
    return Block(  # numba takes at most 15 keywords
        np.empty(room, like.dtype),
        np.empty(room, like.dtype),
        lists=np.empty(room if in_lanes else 1, like.dtype),
        packed=np.empty(room, rows.dtype),
        ends=np.zeros(width, np.int64),
        peaks=numbers[0],
        tops=numbers[1],
        invalid=numbers[2],
        r_of_rows=numbers[3],
        limits=numbers[4],
        scales=numbers[5],
        totals=numbers[6],
        moments=numbers[7],
        heads=numbers[8],
        tails=numbers[9],
        in_lanes=in_lanes,
    )


@inline
def rows_in(block):
    """Return the number of rows that a block holds."""
    return width_of(block.w) if block.in_lanes else 1


@inline
def along_row(block, vector):
    """Turn a sum over the columns into the sum along each row."""
    if block.in_lanes:
        return vector
    return simd.splat(block.w.dtype.type(simd.wide_total(vector)))


@inline
def max_along_row(block, vector):
    """Turn a maximum over the columns into the maximum of each row."""
    return vector if block.in_lanes else simd.splat(simd.highest(vector))


@inline
def number_of_row(common, each, i):
    """Return ``each[i]``, or ``common`` if ``each`` is empty."""
    return each[i] if each.shape[0] > 0 else common


@inline
def compensated_add(total, lost, term):
    """Add ``term`` to ``total`` and the rounding error, exact if ``term <= total``, to ``lost``."""
    larger = total + term
    return larger, lost + ((total - larger) + term)


@inline
def candidate(entries, top, r):
    """Return ``w = r (z - max z)``; the cap makes ``+inf`` tie with the largest finite number."""
    return simd.minimum((entries - top) * r, 0.0)


@inline
def lane_maxima(row):
    """Return four vectors of lane-wise maxima of a row, and a count that is positive for NaN."""
    size, width, lowest = row.shape[0], width_of(row), -np.inf
    a = b = c = d = simd.splat(row.dtype.type(lowest))
    bad = simd.unordered(a, b)
    whole = size // (_MAXIMA * width) * (_MAXIMA * width)
    for j in range(0, whole, _MAXIMA * width):
        x, y = simd.load(row, j), simd.load(row, j + width)
        z, u = simd.load(row, j + 2 * width), simd.load(row, j + 3 * width)
        bad |= simd.unordered(x, y) | simd.unordered(z, u)
        a, b, c, d = simd.maximum(x, a), simd.maximum(y, b), simd.maximum(z, c), simd.maximum(u, d)
    j, left = whole, size - whole
    if left > 0:
        x = simd.load_first(row, j, left, lowest)
        y = simd.load_first(row, j + width, left - width, lowest)
        bad, a, b = bad | simd.unordered(x, y), simd.maximum(x, a), simd.maximum(y, b)
    if left > 2 * width:
        z = simd.load_first(row, j + 2 * width, left - 2 * width, lowest)
        u = simd.load_first(row, j + 3 * width, left - 3 * width, lowest)
        bad, c, d = bad | simd.unordered(z, u), simd.maximum(z, c), simd.maximum(u, d)
    return a, b, c, d, simd.count(bad)


@inline
def take_lane_maxima(block, rows, first, last):
    """Fill the block with lane-wise maxima of rows; return the number of columns.

    Lanes beyond row ``last`` repeat it. Also writes ``peaks``, ``tops`` and ``invalid``.
    """
    width, step, stride = width_of(block.w), width_of(rows), stride_of(rows)
    if block.in_lanes:
        columns = step
        for k in range(width):
            a, b, c, d, bad = lane_maxima(rows[min(first + k, last)])
            simd.store(
                block.lists, k * stride, simd.maximum(simd.maximum(a, b), simd.maximum(c, d))
            )
            block.invalid[k] = bad
        for j in range(0, step, width):
            simd.transpose(block.lists, j, stride, block.w, j * width, width)
    else:
        columns = _MAXIMA * step // width
        a, b, c, d, bad = lane_maxima(rows[first])
        simd.store(block.w, 0, a)
        simd.store(block.w, step, b)
        simd.store(block.w, 2 * step, c)
        simd.store(block.w, 3 * step, d)
        simd.store(block.invalid, 0, simd.splat(block.w.dtype.type(bad)))
    # Pad to whole lines with entries that get no mass.
    maxima, columns = columns, (columns + LINE - 1) // LINE * LINE
    for k in range(maxima * width, columns * width, width):
        simd.store(block.w, k, simd.splat(block.w.dtype.type(-np.inf)))
    top = simd.load(block.w, 0)
    for k in range(width, columns * width, width):
        top = simd.maximum(simd.load(block.w, k), top)
    top = max_along_row(block, top)
    simd.store(block.peaks, 0, top)
    largest = np.finfo(rows.dtype).max
    simd.store(block.tops, 0, simd.maximum(simd.minimum(top, largest), -largest))
    return columns


@inline
def center(block, columns):
    """Replace the entries in the block by candidates ``w``, at least ``OUT``."""
    width, top, r = width_of(block.w), simd.load(block.tops, 0), simd.load(block.r_of_rows, 0)
    for k in range(0, columns * width, width):
        simd.store(block.w, k, simd.maximum(candidate(simd.load(block.w, k), top, r), OUT))


@inline
def set_limits(block, c, inverse_r, rounding):
    """Set limits to gather ``w > -c``, given ``1 / r`` and the eps of the rows."""
    top = simd.load(block.tops, 0)
    reach = c * inverse_r * LOOSER
    simd.store(block.limits, 0, (top - reach) - (simd.magnitude(top) + reach) * (4.0 * rounding))


@inline
def append(entries, limit, lists, end):
    """Append the entries of a vector above a limit to a list; return its end."""
    above = entries > limit
    simd.store(lists, end, simd.compress(entries, above))
    return end + simd.count(above)


@inline
def gather(row, limit, lists, end):
    """Append the entries of a row above a limit to a list; return its end."""
    size, width, limit = row.shape[0], width_of(row), row.dtype.type(limit)
    whole = size // width * width
    for j in range(0, whole, width):
        end = append(simd.load(row, j), limit, lists, end)
    return append(simd.load_first(row, whole, size - whole, -np.inf), limit, lists, end)


@inline
def take_candidates(block, rows, first, last):
    """Fill the block with the candidates ``w`` above the limits; return the number of columns."""
    width, stride, columns = width_of(block.w), stride_of(rows), 0
    nothing = simd.splat(block.w.dtype.type(-np.inf))
    target = block.lists if block.in_lanes else block.w
    for k in range(rows_in(block)):
        row = rows[min(first + k, last)]
        block.ends[k] = gather(row, block.limits[k], target, k * stride)
        columns = max(columns, block.ends[k] - k * stride)
    if block.in_lanes:
        columns = (columns + LINE - 1) // LINE * LINE
        transpose_lists(block, block.lists, stride, columns, -np.inf, block.w)
    else:
        end, columns = columns, (columns + LINE * width - 1) // (LINE * width) * LINE
        for j in range(end, columns * width, width):
            simd.store(block.w, j, nothing)
    center(block, columns)
    return columns


@inline
def transpose_lists(block, lists, stride, columns, nothing, target):
    """Pad the lists of the rows to ``columns`` entries and write them as columns of ``target``."""
    width, nothing = width_of(target), simd.splat(target.dtype.type(nothing))
    for k in range(width):
        for j in range(block.ends[k], k * stride + columns, width):
            simd.store(lists, j, nothing)
    for j in range(0, columns, width):
        simd.transpose(lists, j, stride, target, j * width, width)


@inline
def pack(block, columns, stride):
    """Write the shares times the scales to ``packed``, row by row, in the precision of the rows."""
    width, lists = width_of(block.shares), block.shares
    length = columns * width
    if block.in_lanes:
        lists, length = block.lists, columns
        for j in range(0, columns, width):
            simd.transpose(block.shares, j * width, width, lists, j, stride)
    for k in range(rows_in(block)):
        scale, rest, start = block.scales[k], block.tails[k], k * stride
        for j in range(start, start + length, width):
            value = simd.load(lists, j)
            simd.store(block.packed, j, value * scale + value * rest)


@inline
def scatter(row, limit, packed, taken, out):
    """Write packed results where a row's entries are above the limit, and zeros elsewhere."""
    size, width, limit = row.shape[0], width_of(row), row.dtype.type(limit)
    zero, skips = simd.splat(row.dtype.type(0)), size > TILED
    for j in range(0, size, width):
        above = simd.load_first(row, j, size - j, -np.inf) > limit
        found = simd.count(above)
        # In short rows the branch is mispredicted too often to pay.
        if skips and found == 0:
            simd.store_first(out, j, size - j, zero)
        else:
            simd.store_first(out, j, size - j, simd.expand(packed, taken, above))
            taken += found


@inline
def fill(row, value):
    """Write one value into all entries."""
    size, value = row.shape[0], simd.splat(row.dtype.type(value))
    for j in range(0, size, width_of(row)):
        simd.store_first(row, j, size - j, value)


# Entries with mass, listed for a backward pass: most rows have few of them


class Support(NamedTuple):
    """Lists of the entries with mass of some rows, each padded to whole vectors with zeros."""

    shares: Any  # their probabilities
    grads: Any  # what belongs to them in a second array, such as incoming gradients
    slopes: Any  # scratch, a number for each entry
    results: Any  # output, a number for each entry, in the precision of the rows
    starts: Any  # where the list of each row begins
    sizes: Any  # entries of each row


@inline
def rows_together(rows):
    """Return the number of rows whose entries with mass are listed together."""
    return _ROWS_PER_SUPPORT if rows.shape[1] <= TILED else 1


@allocating
def new_support(rows, like):
    """Allocate a support for ``rows`` with lists in the precision of ``like``."""
    width, group = width_of(rows), rows_together(rows)
    room = group * (rows.shape[1] + width) + 2 * width
    lists = np.empty((3, room), like.dtype)
    return Support(
        lists[0], lists[1], lists[2], np.empty(room, rows.dtype),
        np.zeros(group + 1, np.int64), np.zeros(group, np.int64),
    )  # fmt: skip


@inline
def take_support(support, k, probs, grads):
    """List the entries with mass of the ``k``-th row.

    In long rows, vectors without mass are skipped and their ``grads`` are not read.
    """
    size, width, end = probs.shape[0], width_of(probs), support.starts[k]
    zero, skips = simd.splat(probs.dtype.type(0)), size > TILED
    for j in range(0, size, width):
        share = simd.load_first(probs, j, size - j, 0.0)
        positive = share > 0.0
        found = simd.count(positive)
        if skips and found == 0:
            continue
        grad = simd.load_first(grads, j, size - j, 0.0)
        simd.store(support.shares, end, simd.compress(share, positive))
        simd.store(support.grads, end, simd.compress(grad, positive))
        end += found
    simd.store(support.shares, end, zero)
    simd.store(support.grads, end, zero)
    support.sizes[k] = end - support.starts[k]
    support.starts[k + 1] = support.starts[k] + (support.sizes[k] + width - 1) // width * width
