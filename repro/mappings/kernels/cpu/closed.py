"""Sparsemax and 1.5-entmax of a list of candidates: Newton's method with rational steps.

Candidates are ``w = r (z - max z)`` with ``r = α - 1``, the largest zero; the unknown is ``c`` in
``(0, 1]`` with ``Σ [w + c]_+^{1/r} = 1``. The function of ``c`` whose root it is, is convex and
increasing (see ``_threshold.py``): Newton's method started above the root stays above.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small

COARSE = 1e-3
"""Excess mass that may be left where ``c`` is only a bound."""
_PASSES = 64


@small
def tolerance_for(scores):
    """Excess mass at which rows are solved, but for rounding."""
    if scores.itemsize == 4:
        return 1e-7
    return np.finfo(np.float64).eps * (4.0 + math.sqrt(scores.shape[-1]))


@small
def newton_step(lists, i, count, c, zero, order):
    """For list ``i``: by how much Newton lowers ``c``, and how far the norm exceeds one.

    The precision is that of ``c`` and zero, the list's or double.
    """
    total, second, size = zero, zero, 0
    if order == 1.0:
        for j in range(count):
            kept = lists[i, j] + c
            size += kept > zero
            total += kept if kept > zero else zero
        return (total - 1.0) / size, total - 1.0
    for j in range(count):
        kept = lists[i, j] + c
        kept = kept if kept > zero else zero
        total += kept
        second += kept * kept
    norm = math.sqrt(np.float64(second))
    return norm * (norm - 1.0) / total, norm - 1.0


@small
def rough_step(lists, i, count, c, order):
    """The same in the precision of the list."""
    return newton_step(lists, i, count, lists.dtype.type(c), lists.dtype.type(0), order)


@inner
def descend(lists, i, count, c, order, tolerance):
    """``c`` for list ``i`` up to a tolerance, and the step that is left to take."""
    step = 0.0
    for _ in range(_PASSES):
        lower = c - step
        settled = lower == c and step != 0.0
        c = lower
        step, residual = newton_step(lists, i, count, c, 0.0, order)
        if abs(residual) <= tolerance or settled:
            break
    return c, step


@small
def last_excess(lists):
    """Excess mass from which one more step leaves no more than rounding, but where it has kinks."""
    return math.sqrt(np.finfo(lists.dtype).eps) / 10.0


@inner
def descend_roughly(lists, i, count, c, order, enough):
    """``c`` for list ``i``, in the precision of the list, with no more than an excess mass."""
    for _ in range(_PASSES):
        step, residual = rough_step(lists, i, count, c, order)
        if abs(residual) <= enough:
            break
        c -= step
    return c


@small
def shares(lists, i, count, c, step, order, probs):
    """Write the distribution of list ``i``; return its sum and the sum of ``p w``.

    The last step acts on the small differences ``w + c``, whose digits are finer than those of
    ``c``: they matter where many entries are tied close to the threshold.
    """
    total = moment = 0.0
    for j in range(count):
        scaled = np.float64(lists[i, j])
        lowered = (scaled + c) - step
        share = lowered if lowered > 0.0 else 0.0
        share = share if order == 1.0 else share * share
        probs[j] = share
        total += share
        moment += share * scaled
    return total, moment


@small
def solve(lists, i, count, padded, c, order, tolerance, probs):
    """Write the distribution of a list, starting close to or above its ``c``.

    Returns:
        Its sum, the sum of ``p w``, and ``(1 - c) / r``.
    """
    step, _ = newton_step(lists, i, padded, c, 0.0, order)
    total, moment = shares(lists, i, count, c, step, order, probs)
    if abs(total - 1.0) > tolerance:
        c, step = descend(lists, i, padded, c, order, tolerance)
        total, moment = shares(lists, i, count, c, step, order, probs)
    return total, moment, (1.0 - (c - step)) / order
