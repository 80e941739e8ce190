"""Sparsemax and 1.5-entmax of a list of candidates: Newton's method with rational steps.

Candidates are ``w = r (z - max z)`` with ``r = α - 1``, the largest zero; the unknown is ``c`` in
``(0, 1]`` with ``Σ [w + c]_+^{1/r} = 1``. The function of ``c`` whose root it is, is convex and
increasing (see ``_threshold.py``): Newton's method started above the root stays above.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu._compile import inner, small

_ROUGH = 3e-5
"""Excess mass that single precision can tell from rounding."""
_COARSE = 1e-3
"""Excess mass that is left in a bound."""
_PASSES = 64


@small
def is_closed(order):
    """Whether the order has rational steps."""
    return order == 1.0 or order == 0.5


@small
def tolerance_for(scores):
    """Excess mass at which rows are solved, but for rounding."""
    if scores.itemsize == 4:
        return 1e-9
    return np.finfo(np.float64).eps * (4.0 + math.sqrt(scores.shape[1]))


@small
def newton_step(lists, i, count, c, order):
    """For list ``i``: by how much Newton lowers ``c``, and how far the norm exceeds one."""
    zero, c = lists.dtype.type(0), lists.dtype.type(c)
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


@inner
def descend(lists, i, count, c, order, tolerance):
    """``c`` for list ``i`` up to a tolerance, and the step that is left to take."""
    step = 0.0
    for _ in range(_PASSES):
        lower = c - step
        settled = lower == c and step != 0.0
        c = lower
        step, residual = newton_step(lists, i, count, c, order)
        if abs(residual) <= tolerance or settled:
            break
    return c, step


@small
def descend_group(lists, cs, order):
    """Rough descent of several rows in turns, so that their latencies overlap."""
    for _ in range(_PASSES):
        moving = 0
        for i in range(lists.shape[0]):
            step, residual = newton_step(lists, i, lists.shape[1], cs[i], order)
            moves = abs(residual) > _ROUGH
            cs[i] -= step if moves else 0.0
            moving += moves
        if moving == 0:
            break


@small
def shares(lists, i, count, c, step, order, probs):
    """Write the unnormalised distribution of list ``i``; return its sum and the sum of ``p w``.

    The last step acts on the small differences ``w + c``, whose digits are finer than those of
    ``c``: they matter where many entries are tied close to the threshold.
    """
    total = moment = 0.0
    for j in range(count):
        scaled = lists[i, j]
        kept = scaled + c
        lowered = kept - step
        share = lowered if kept > 0.0 and lowered > 0.0 else 0.0
        share = share if order == 1.0 else share * share
        probs[j] = share
        total += share
        moment += share * scaled
    return total, moment


@small
def solve(lists, i, count, c, order, tolerance, probs):
    """Write the unnormalised distribution of list ``i``, starting close to or above its ``c``.

    Returns:
        Its sum, the sum of ``p w``, and ``(1 - c) / r``.
    """
    step, _ = newton_step(lists, i, count, c, order)
    total, moment = shares(lists, i, count, c, step, order, probs)
    if abs(total - 1.0) > tolerance:
        c, step = descend(lists, i, count, c, order, tolerance)
        total, moment = shares(lists, i, count, c, step, order, probs)
    return total, moment, (1.0 - (c - step)) / order


@inner
def bound(lists, i, count, order):
    """An upper bound of ``c`` from some of a row's candidates, the largest among them."""
    return descend(lists, i, count, 1.0, order, _COARSE)[0]
