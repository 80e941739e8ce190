"""Entries with mass, listed next to each other: most rows of a backward pass have few of them.

Several short rows are listed before the first of them is differentiated: vectors that were stored
piece by piece can be loaded only when they have reached the cache.
"""

from typing import Any, NamedTuple

import numpy as np

from repro.mappings.kernels.cpu.blocks import TILED, width_of
from repro.mappings.kernels.cpu.compile import allocating, inline
from repro.mappings.kernels.cpu.simd import (
    compress,
    count,
    expand,
    load,
    load_first,
    splat,
    store,
    store_first,
    zeros_like,
)

_TOGETHER = 16
"""Short rows that are listed together."""


class Support(NamedTuple):
    """Lists of the entries with mass of some rows, each filled up to whole vectors with zeros."""

    shares: Any  # their probabilities
    grads: Any  # what belongs to them in a second array, such as incoming gradients
    slopes: Any  # room for a number for each
    results: Any  # room for a number for each, in the precision of the rows
    starts: Any  # where the list of each row begins
    sizes: Any  # entries of each row


@inline
def rows_together(rows):
    """How many rows are listed together."""
    return _TOGETHER if rows.shape[1] <= TILED else 1


@allocating
def new_support(rows, like):
    """Lists in the precision of an array."""
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

    Where a long row has none, its grads are not read.
    """
    size, width, end = probs.shape[0], width_of(probs), support.starts[k]
    whole, skips = size // width * width, size > TILED
    for j in range(0, whole, width):
        share = load(probs, j)
        positive = share > 0.0
        found = count(positive)
        if skips and found == 0:
            continue
        store(support.shares, end, compress(share, positive))
        store(support.grads, end, compress(load(grads, j), positive))
        end += found
    share = load_first(probs, whole, size - whole, 0.0)
    grad = load_first(grads, whole, size - whole, 0.0)
    positive = share > 0.0
    store(support.shares, end, compress(share, positive))
    store(support.grads, end, compress(grad, positive))
    end += count(positive)
    store(support.shares, end, zeros_like(share))
    store(support.grads, end, zeros_like(grad))
    support.sizes[k] = end - support.starts[k]
    support.starts[k + 1] = support.starts[k] + (support.sizes[k] + width - 1) // width * width


@inline
def write_support(support, k, probs, out):
    """Write the results of the ``k``-th row where its entries have mass, and zeros."""
    size, width, taken = probs.shape[0], width_of(probs), support.starts[k]
    whole, nothing, skips = size // width * width, splat(probs.dtype.type(0)), size > TILED
    for j in range(0, whole, width):
        positive = load(probs, j) > 0.0
        found = count(positive)
        if skips and found == 0:
            store(out, j, nothing)
        else:
            store(out, j, expand(support.results, taken, positive))
            taken += found
    positive = load_first(probs, whole, size - whole, 0.0) > 0.0
    store_first(out, whole, size - whole, expand(support.results, taken, positive))
