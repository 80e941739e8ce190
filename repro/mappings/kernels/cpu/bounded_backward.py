"""The derivatives of csoftmax, csparsemax and budget.

Csparsemax needs the places of the entries, but not the entries.
"""

from repro.mappings.kernels.cpu._compile import inner, lean
from repro.mappings.kernels.cpu.lanes import bytes_equal, load_first, store_first
from repro.mappings.kernels.cpu.places import FREE, FULL, NOWHERE
from repro.mappings.kernels.cpu.tiles import width_of
from repro.mappings.kernels.cpu.vectors import splat, total, where

_CHUNK = 256
"""Entries that are added up in the precision of the row before the sum is widened."""


@lean
def _slope(probs, place, start, left, order):
    """``s`` of a vector of entries."""
    zero = probs.dtype.type(0)
    share = splat(probs.dtype.type(1)) if order == 1.0 else load_first(probs, start, left, zero)
    return where(bytes_equal(place, start, left, share, FREE), share, 0.0)


@lean
def _mean(probs, place, grads, order):
    """The mean of ``g`` weighted by ``s``, and whether any entry is free."""
    size, zero, sums, weighted = probs.shape[0], probs.dtype.type(0), 0.0, 0.0
    for start in range(0, size, _CHUNK):
        part = tilt = splat(zero)
        for j in range(start, min(start + _CHUNK, size), width_of(probs)):
            slope = _slope(probs, place, j, size - j, order)
            grad = load_first(grads, j, size - j, zero)
            part += slope
            tilt += slope * where(slope > 0.0, grad, 0.0)
        sums, weighted = sums + total(part), weighted + total(tilt)
    return (weighted / sums if sums > 0.0 else 0.0), sums > 0.0


@lean
def _move(probs, place, grads, order, mean, out):
    """Write ``s (g - m)``."""
    size, zero = probs.shape[0], probs.dtype.type(0)
    for j in range(0, size, width_of(probs)):
        slope = _slope(probs, place, j, size - j, order)
        moved = slope * (load_first(grads, j, size - j, zero) - mean)
        store_first(out, j, size - j, where(slope > 0.0, moved, 0.0))


@lean
def _charge(place, grads, mean, moves, out):
    """Write ``g - m`` for bounds that are met, zero at a corner."""
    size, zero = grads.shape[0], grads.dtype.type(0)
    for j in range(0, size, width_of(grads)):
        moved = load_first(grads, j, size - j, zero) - mean
        met = bytes_equal(place, j, size - j, moved, FULL if moves else NOWHERE)
        store_first(out, j, size - j, where(met, moved, 0.0))


@inner
def bounded_backward_rows(probs, place, grads, order, out, upper_grads, total_grads, start, stop):
    """Gradients of rows ``start`` to ``stop``; of bounds and totals where there is room."""
    for i in range(start, stop):
        mean, moves = _mean(probs[i], place[i], grads[i], order)
        level = probs.dtype.type(mean)
        _move(probs[i], place[i], grads[i], order, level, out[i])
        if upper_grads.shape[0] > 0:
            _charge(place[i], grads[i], level, moves, upper_grads[i])
        if total_grads.shape[0] > 0:
            total_grads[i] = mean
