"""Rows of fusedmax and oscarmax without a solution, and the threshold of levels."""

import math

from repro.mappings.kernels.cpu._compile import small
from repro.mappings.kernels.cpu.box import finite, lowered
from repro.mappings.kernels.cpu.extremes import largest

_PASSES = 200


@small
def simplex_level(levels, sizes, count):
    """``τ`` with ``Σ n [y - τ]_+ = 1``, by Newton's method from below, and the sum.

    The largest level is subtracted from all of them first, and ``τ`` is relative to it.
    """
    levels, sizes, top = levels[:count], sizes[:count], levels[0]
    for k in range(levels.shape[0]):
        top = levels[k] if levels[k] > top else top
    for k in range(levels.shape[0]):
        levels[k] = lowered(levels[k], top)
    tau = -1.0
    for _ in range(_PASSES):
        mass = support = 0.0
        for k in range(levels.shape[0]):
            above = levels[k] - tau
            size = sizes[k] if above > 0.0 else 0.0
            mass += size * above
            support += size
        following = tau + (mass - 1.0) / support
        if not following > tau:
            break
        tau = following
    return tau, mass


@small
def blank(row, limit, probs, groups):
    """Fill a row with zeros, or NaN; return its largest entry and whether that is all."""
    top, bad = largest(row)
    fill = probs.dtype.type(math.nan if bad else 0.0)
    for j in range(row.shape[0]):
        probs[j] = fill
    for j in range(row.shape[0]):
        groups[j] = 0
    return finite(top, limit), bad or top == -math.inf
