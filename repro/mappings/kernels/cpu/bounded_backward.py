"""The derivatives of csoftmax, csparsemax and budget.

Csparsemax needs the places of the entries, but not the entries.
"""

from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.places import FREE, FULL

_CHUNK = 256
"""Entries that are added up in the precision of the row before the sum is widened."""


@small
def _weigh(probs, place, grads, order):
    """``Σ s`` and ``Σ s g`` of a part of a row; where ``s`` is zero, ``g`` does not count."""
    zero, one = probs.dtype.type(0), probs.dtype.type(1)
    total = weighted = zero
    for j in range(probs.shape[0]):
        slope = one if order == 1.0 else probs[j]
        slope = slope if place[j] == FREE else zero
        total += slope
        weighted += slope * (grads[j] if place[j] == FREE else zero)
    return total, weighted


@inner
def _mean(probs, place, grads, order):
    """The mean of ``g`` weighted by ``s``, and whether any entry is free."""
    total = weighted = 0.0
    for start in range(0, probs.shape[0], _CHUNK):
        span = slice(start, start + _CHUNK)
        part, tilt = _weigh(probs[span], place[span], grads[span], order)
        total, weighted = total + part, weighted + tilt
    return (weighted / total if total > 0.0 else 0.0), total > 0.0


@small
def _centre(probs, place, grads, order, mean, out):
    """Write ``s (g - m)``."""
    zero, mean = probs.dtype.type(0), probs.dtype.type(mean)
    for j in range(probs.shape[0]):
        moved = grads[j] - mean
        moved = moved if order == 1.0 else moved * probs[j]
        out[j] = moved if place[j] == FREE else zero


@small
def _charge(place, grads, mean, moves, out):
    """Write ``g - m`` for bounds that are met, zero at a corner."""
    zero, mean = out.dtype.type(0), out.dtype.type(mean)
    for j in range(place.shape[0]):
        out[j] = grads[j] - mean if (place[j] == FULL) & moves else zero


@inner
def bounded_backward_rows(probs, place, grads, order, out, upper_grads, total_grads, start, stop):
    """Gradients of rows ``start`` to ``stop``; of bounds and totals where there is room."""
    for i in range(start, stop):
        mean, moves = _mean(probs[i], place[i], grads[i], order)
        _centre(probs[i], place[i], grads[i], order, mean, out[i])
        if upper_grads.shape[0] > 0:
            _charge(place[i], grads[i], mean, moves, upper_grads[i])
        if total_grads.shape[0] > 0:
            total_grads[i] = mean
