"""Entries with mass, listed next to each other: most rows of a backward pass have few of them."""

from typing import Any, NamedTuple

import numpy as np

from repro.mappings.kernels.cpu.blocks import width_of
from repro.mappings.kernels.cpu.compile import allocating, inline
from repro.mappings.kernels.cpu.simd import (
    compress,
    count,
    expand,
    load_first,
    splat,
    store,
    store_first,
)


class Support(NamedTuple):
    """Lists of a row's entries with mass, filled up to whole vectors with zeros.

    Attributes:
        shares: their probabilities.
        grads: what belongs to them in a second array, such as incoming gradients.
        slopes: room for a number for each.
        results: room for a number for each, in the precision of the rows.
    """

    shares: Any
    grads: Any
    slopes: Any
    results: Any


@allocating
def new_support(rows, like):
    """Lists in the precision of an array."""
    room = rows.shape[1] + 3 * width_of(rows)
    lists = np.empty((3, room), like.dtype)
    return Support(lists[0], lists[1], lists[2], np.empty(room, rows.dtype))


@inline
def take_support(support, probs, grads):
    """List the entries with mass; return their number. Where there are none, grads are not read."""
    size, width, found = probs.shape[0], width_of(probs), 0
    for j in range(0, size, width):
        share = load_first(probs, j, size - j, probs.dtype.type(0))
        positive = share > 0.0
        here = count(positive)
        if here > 0:
            grad = load_first(grads, j, size - j, grads.dtype.type(0))
            store(support.shares, found, compress(share, positive))
            store(support.grads, found, compress(grad, positive))
            found += here
    nothing = splat(probs.dtype.type(0))
    store(support.shares, found, nothing)
    store(support.grads, found, nothing)
    return found


@inline
def write_support(support, probs, out):
    """Write the results where entries have mass, and zeros."""
    size, width, taken = probs.shape[0], width_of(probs), 0
    nothing = splat(probs.dtype.type(0))
    for j in range(0, size, width):
        positive = load_first(probs, j, size - j, probs.dtype.type(0)) > 0.0
        here = count(positive)
        if here > 0:
            store_first(out, j, size - j, expand(support.results, taken, positive))
            taken += here
        else:
            store_first(out, j, size - j, nothing)
