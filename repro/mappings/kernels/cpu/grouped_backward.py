"""The backward kernel of fusedmax and oscarmax: means over groups less the mean over the support.

The kernels number a group after one of its entries, and most groups have no other: there the mean
is the gradient itself. Entries whose group is not their own position come last. Any other numbers
are right as well.
"""

import numpy as np

from repro.mappings.kernels.cpu._compile import spliced
from repro.mappings.kernels.cpu.exchanges import store_positions
from repro.mappings.kernels.cpu.lanes import elsewhere, load, load_first, store, store_first
from repro.mappings.kernels.cpu.scratch import borrowed, give_back
from repro.mappings.kernels.cpu.tiles import width_of
from repro.mappings.kernels.cpu.vectors import count, splat, total, where


@spliced
def _spans(probs, spans, out):
    """List the spans of a row with mass, and write zeros; return how many, and the support."""
    size, step, found, support = probs.shape[0], width_of(probs), 0, 0
    zero, whole = splat(probs.dtype.type(0)), size // step * step
    for j in range(0, whole, step):
        here = count(load(probs, j) > zero)
        store(out, j, zero)
        spans[found] = j
        found += here > 0
        support += here
    here = count(load_first(probs, whole, size - whole, probs.dtype.type(0)) > zero)
    store_first(out, whole, size - whole, zero)
    spans[found] = whole
    return found + (here > 0), support + here


@spliced
def _sum(probs, grads, spans, found):
    """The sum of the gradient over the support."""
    size, nothing = probs.shape[0], probs.dtype.type(0)
    summed = zero = splat(nothing)
    for k in range(found):
        j = spans[k]
        here = load_first(probs, j, size - j, nothing) > zero
        summed += where(here, load_first(grads, j, size - j, nothing), zero)
    return total(summed)


@spliced
def _write_own(probs, groups, grads, spans, found, mean, places, out):
    """Write what holds for entries on their own; list the others, and return how many."""
    size, nothing, listed = probs.shape[0], probs.dtype.type(0), 0
    zero = splat(nothing)
    for k in range(found):
        j = spans[k]
        here = load_first(probs, j, size - j, nothing) > zero
        grad = load_first(grads, j, size - j, nothing)
        store_first(out, j, size - j, where(here, grad - mean, zero))
        others = elsewhere(groups, j, size - j, here)
        store_positions(places, listed, j, others)
        listed += count(others)
    return listed


@spliced
def _write_others(probs, groups, grads, mean, places, listed, totals, sizes, out):
    """Write the means of groups, which may include the entry after which they are named."""
    for k in range(listed):
        group = groups[places[k]]
        own = (groups[group] == group) & (probs[group] > 0.0)
        totals[group], sizes[group] = grads[group] if own else 0.0, 1.0 if own else 0.0
    for k in range(listed):
        group = groups[places[k]]
        totals[group] += grads[places[k]]
        sizes[group] += 1.0
    for k in range(listed):
        group = groups[places[k]]
        value = totals[group] / sizes[group] - mean
        out[places[k]] = value
        if (groups[group] == group) & (probs[group] > 0.0):
            out[group] = value


@spliced
def grouped_backward_rows(probs, groups, grads, out, start, stop):
    """Gradients of rows ``start`` to ``stop``."""
    n = probs.shape[1]
    reals, integers = np.empty((2, n)), np.empty((2, n + width_of(probs)), np.int32)
    totals, sizes = borrowed(reals, 0), borrowed(reals, 1)
    spans, places = borrowed(integers, 0), borrowed(integers, 1)
    for i in range(start, stop):
        row, incoming = probs[i], grads[i]
        found, support = _spans(row, spans, out[i])
        mean = _sum(row, incoming, spans, found) / probs.dtype.type(support)
        listed = _write_own(row, groups[i], incoming, spans, found, mean, places, out[i])
        if listed > 0:
            _write_others(row, groups[i], incoming, mean, places, listed, totals, sizes, out[i])
    give_back(reals), give_back(integers)
