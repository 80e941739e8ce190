"""Derivatives of α-entmax: ``J g`` with ``J = diag(s) - s sᵀ / Σ s`` and ``s = p^{2-α}``.

With ``r = α - 1`` a gradient is ``s (g - m)``, ``m`` the mean of ``g`` weighted by ``s``
(Peters et al. 2019, Proposition 1). The derivative in ``r`` is ``Σ (∂p/∂r) (g - m)`` with, at a
fixed threshold, ``∂p/∂r = (p - s - r p log p) / r²`` (Correia et al. 2019, Proposition 1). For
small ``r`` its digits cancel: with ``θ = -r log p`` it is ``-p log² p (e^θ - 1 - θ) / θ²``, a
series for ``θ < ¼``.

For ``r > 1`` slopes grow without bound as ``p`` falls, overflow, and are so far apart that
``g - m`` loses all digits where one of them dominates. Therefore, in double precision:

- slopes are relative to the largest, that of the smallest share; the remaining factor is applied
  last, by logarithms if it overflows; results are clipped to the largest number of the type;
- the gradient of the entry with the largest slope is subtracted from all others, so that
  differences to it are exact. A common shift of the gradients of a row changes nothing.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu import blocks, simd
from repro.mappings.kernels.cpu.compile import inline
from repro.mappings.kernels.cpu.elementary import for_each_format, logarithm, polynomial, power

_DENSE = 512
"""Longest rows read whole at ``r = 1`` and ``½``; listing entries with mass would take longer."""
_CHUNK = 256
"""Entries that are added up in the precision of the row before the sum is widened."""
_NEAR = 0.25
"""Below this ``θ`` the curvature is a series."""
_CURVATURE_TERMS = 10  # the next, 0.25^10 / 12!, is 2e-15
_HIGHEST = 700.0
"""Logarithm of the largest slope that is applied as a factor; its inverse is normal, too."""


@inline
def one(share, r):
    """Return ``s = p^{1-r}`` for ``r = 1``, zero off the support."""
    return simd.where(share > 0.0, 1.0, 0.0)


@inline
def root(share, r):
    """Return ``s = p^{1-r}`` for ``r = ½``."""
    return simd.sqrt(simd.maximum(share, 0.0))


@inline
def _slope(share, r):
    """Return ``s = p^{1-r}`` for ``r <= 1``, zero off the support."""
    if r == 1.0:
        return one(share, r)
    if r == 0.5:
        return root(share, r)
    return power(share - 1.0, share, simd.zeros_like(share) + (1.0 - r))


@inline
def _dense_row(probs, grads, r, slope_of, out):
    """Write the gradient of a row, ``s (g - m)``, for ``r = 1`` or ``½``; ``out`` holds ``s``."""
    size, width = probs.shape[0], blocks.width_of(probs)
    whole = size // width * width
    last = slope_of(simd.load_first(probs, whole, size - whole, 0.0), r)
    grad = simd.load_first(grads, whole, size - whole, 0.0)
    slopes, weighted = last, last * simd.where(last > 0.0, grad, 0.0)
    for j in range(0, whole, width):
        slope = slope_of(simd.load(probs, j), r)
        simd.store(out, j, slope)
        slopes += slope
        weighted += slope * simd.where(slope > 0.0, simd.load(grads, j), 0.0)
    mass = simd.total(slopes)
    mean = simd.total(weighted) / mass if mass > 0.0 else mass
    for j in range(0, whole, width):
        slope = simd.load(out, j)
        moved = slope * (simd.load(grads, j) - mean)
        simd.store(out, j, simd.where(slope > 0.0, moved, 0.0))
    moved = simd.where(last > 0.0, last * (grad - mean), 0.0)
    simd.store_first(out, whole, size - whole, moved)


@for_each_format
def _near_curvature(number):
    """Return ``(e^θ - 1 - θ) / θ²`` for ``θ`` between zero and a quarter."""
    factorials = [math.factorial(k + 2) for k in range(_CURVATURE_TERMS - 1, -1, -1)]
    series = polynomial(number.real, [1 / factorial for factorial in factorials])
    return lambda theta: series(theta)


@inline
def _listed_row(support, k, r, slope_of):
    """Write slopes and gradients of the ``k``-th row's entries for ``r <= 1``; return ``m``."""
    width, real = blocks.width_of(support.shares), support.shares.dtype.type
    start, end = support.starts[k], support.starts[k] + support.sizes[k]
    zero, r = simd.splat(real(0)), real(r)
    mass = weighted = 0.0
    for first in range(start, end, _CHUNK):
        part = tilt = zero
        for j in range(first, min(first + _CHUNK, end), width):
            slope = slope_of(simd.load(support.shares, j), r)
            simd.store(support.slopes, j, slope)
            part += slope
            tilt += slope * simd.load(support.grads, j)
        mass, weighted = mass + simd.wide_total(part), weighted + simd.wide_total(tilt)
    mean = real(weighted / mass if mass > 0.0 else 0.0)
    for j in range(start, end, width):
        simd.store(
            support.results, j, simd.load(support.slopes, j) * (simd.load(support.grads, j) - mean)
        )
    return mean


@inline
def _gradient_of_r(support, k, r, mean):
    """Return the gradient of ``r <= 1`` of the ``k``-th row, after :func:`_listed_row`."""
    width, real = blocks.width_of(support.shares), support.shares.dtype.type
    start, end = support.starts[k], support.starts[k] + support.sizes[k]
    r, moved = real(r), 0.0
    for j in range(start, end, width):
        share, slope = simd.load(support.shares, j), simd.load(support.slopes, j)
        positive = share > 0.0
        share = simd.where(positive, share, 1.0)
        logs = logarithm(share - 1.0, share)
        theta = logs * -r
        near = share * logs * logs * _near_curvature(simd.where(theta < _NEAR, theta, _NEAR))
        far = (slope - share - share * theta) / (r * r if r > 0.0 else 1.0)
        terms = simd.where(theta < _NEAR, near, far) * (mean - simd.load(support.grads, j))
        moved += simd.wide_total(simd.where(positive, terms, 0.0))
    return moved


@inline
def _row_above_2(support, k, r):
    """Write the gradients of the ``k``-th row's entries for ``r > 1``; return that of ``r``."""
    width, floor, reference = blocks.width_of(support.shares), math.inf, 0.0
    start, end = support.starts[k], support.starts[k] + support.sizes[k]
    if start == end:
        return 0.0
    for j in range(start, end):
        reference = support.grads[j] if support.shares[j] < floor else reference
        floor = min(support.shares[j], floor)
    slopes = weighted = simd.splat(0.0)
    for j in range(start, end, width):
        share, grad = simd.load(support.shares, j), simd.load(support.grads, j) - reference
        positive = share > 0.0
        share = simd.where(positive, share, floor)
        slope = power((floor - share) / share, floor / share, simd.splat(r - 1.0))
        slope = simd.where(positive, slope, 0.0)
        simd.store(support.slopes, j, slope)
        simd.store(support.grads, j, grad)
        slopes += slope
        weighted += slope * grad
    mean, moved = simd.total(weighted) / simd.total(slopes), simd.splat(0.0)
    for j in range(start, end, width):
        share, grad = simd.load(support.shares, j), simd.load(support.grads, j) - mean
        simd.store(support.grads, j, grad)
        positive = share > 0.0
        share = simd.where(positive, share, 1.0)
        # The mean of the gradients weighted by s is now zero, so the term in s vanishes.
        terms = share * (1.0 - r * logarithm(share - 1.0, share)) * grad
        moved += simd.where(positive, terms, 0.0)
    log_factor = (1.0 - r) * math.log(floor)
    limit = np.float64(np.finfo(support.results.dtype).max)
    for j in range(start, end):
        grad = support.grads[j]
        if log_factor < _HIGHEST:
            result = support.slopes[j] * (grad * math.exp(log_factor))
        else:
            log_size = math.log(abs(grad)) + (1.0 - r) * math.log(support.shares[j])
            size = limit if log_size >= math.log(limit) else math.exp(log_size)
            result = math.copysign(size, grad)
        support.results[j] = min(max(result, -limit), limit)
    return simd.total(moved) / (r * r)


@inline
def rational_backward_rows(probs, grads, r, slope_of, out, support, start, stop):
    """Write gradients of rows for ``r = 1`` or ``½``; ``slope_of`` is :func:`one` or :func:`root`.

    Short rows are read whole; of others entries with mass are listed.
    """
    group = blocks.rows_together(probs)
    if probs.shape[1] <= _DENSE:
        for i in range(start, stop):
            _dense_row(probs[i], grads[i], r, slope_of, out[i])
        return
    for first in range(start, stop, group):
        last = min(first + group, stop)
        for i in range(first, last):
            blocks.take_support(support, i - first, probs[i], grads[i])
        for i in range(first, last):
            _listed_row(support, i - first, r, slope_of)
        for i in range(first, last):
            blocks.scatter(probs[i], 0.0, support.results, support.starts[i - first], out[i])


@inline
def backward_rows(probs, grads, r, r_of_rows, out, r_grads, narrow, wide, start, stop):
    """Write gradients of rows, and of their ``r`` unless ``r_grads`` is empty.

    There is one ``r``, or one for each row in ``r_of_rows``. Entries with mass are listed in the
    precision of the rows (``narrow``), or in double precision for ``r > 1`` (``wide``).
    """
    wants_r, group = r_grads.shape[0] > 0, blocks.rows_together(probs)
    for first in range(start, stop, group):
        last = min(first + group, stop)
        for i in range(first, last):
            k = i - first
            wide.starts[k + 1], narrow.starts[k + 1] = wide.starts[k], narrow.starts[k]
            if blocks.number_of_row(r, r_of_rows, i) > 1.0:
                blocks.take_support(wide, k, probs[i], grads[i])
            else:
                blocks.take_support(narrow, k, probs[i], grads[i])
        for i in range(first, last):
            k, own = i - first, blocks.number_of_row(r, r_of_rows, i)
            if own > 1.0:
                moved = _row_above_2(wide, k, own)
            else:
                moved = _listed_row(narrow, k, own, _slope)
                if wants_r:
                    moved = _gradient_of_r(narrow, k, own, moved)
            if wants_r:
                r_grads[i] = moved
        for i in range(first, last):
            k = i - first
            if blocks.number_of_row(r, r_of_rows, i) > 1.0:
                blocks.scatter(probs[i], 0.0, wide.results, wide.starts[k], out[i])
            else:
                blocks.scatter(probs[i], 0.0, narrow.results, narrow.starts[k], out[i])


@inline
def loss_backward_rows(probs, targets, ignored, grads, out, start, stop):
    """Write ``g (p - e_y)`` of rows, zero where the target is ignored."""
    size, width = probs.shape[1], blocks.width_of(probs)
    for i in range(start, stop):
        kept = targets[i] != ignored
        grad = grads[i] if kept else probs.dtype.type(0)
        for j in range(0, size, width):
            share = simd.load_first(probs[i], j, size - j, 0.0)
            simd.store_first(out[i], j, size - j, share * grad)
        if kept:
            out[i, targets[i]] -= grad
