"""Mappings and their Jacobians in extended precision: slow oracles for :mod:`benchmarks.accuracy`.

Everything acts on one row of type ``numpy.longdouble`` (64 bits of mantissa on x86). Values come
from bisection of the optimality conditions, Jacobians from the formulas of the papers, evaluated
at a given distribution.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.longdouble]
_ITERATIONS = 200
_LOG_LOWEST = -3000.0
"""Lower end of the bisection for the logarithm of the smallest height above the threshold."""


def softmax(scores: Row) -> Row:
    """Compute softmax."""
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def entmax(scores: Row, alpha: float) -> Row:
    """Compute α-entmax for ``r = α - 1 > 0``: ``p = h^{1/r}``, ``h = [r z - τ]_+``, ``Σ p = 1``."""
    exponent = 1 / (np.longdouble(alpha) - 1)
    return powers(scores / exponent, exponent, lambda heights, n: (n * heights**exponent).sum())


def powers(scores: Row, exponent: Any, mass: Callable[[Row, Row], Any]) -> Row:
    """Compute ``h^e / Σ h^e``, where ``h = [x - τ]_+`` and ``τ`` solves ``mass(h) = 1``.

    Subtracting ``τ`` cancels the digits of small heights, which high roots magnify: once the
    support is known, the logarithm of the smallest height is bisected instead of ``τ``.
    """
    values, places, counts = np.unique(
        scores - scores.max(), return_inverse=True, return_counts=True
    )
    n = counts.astype(np.longdouble)

    def bisected(heights: Callable[[Any], Row], low: Any, high: Any) -> Any:
        for _ in range(_ITERATIONS):
            middle = (low + high) / 2
            above = heights(middle)
            large = above.max() > 0 and mass(np.maximum(above, 0), n) > 1
            ends = low, high
            low, high = (low, middle) if large else (middle, high)
            if middle in ends:
                break
        return high

    c = bisected(lambda c: values + c, np.longdouble(0), np.longdouble(1))
    lowest = values[values + c > 0].min()
    rise = bisected(
        lambda log: values - lowest + np.exp(log), np.longdouble(_LOG_LOWEST), np.longdouble(0)
    )
    heights = np.maximum(values - lowest + np.exp(rise), 0)
    powers = (heights / heights.max()) ** exponent
    return np.asarray((powers / (n * powers).sum())[places])


def entmax_product(probs: Row, vector: Row, alpha: float) -> Row:
    """Compute ``s (v - <s, v> / Σ s)`` with ``s = p^{2-α}`` on the support."""
    support = probs > 0
    kept, v = probs[support], vector[support]
    slope = kept ** (2 - np.longdouble(alpha))
    # Shift v to zero at the largest slope: if it dominates, v minus the mean would cancel.
    v = v - v[slope.argmax()]
    share = slope / slope.max()
    return scatter(support, slope * (v - (share * v).sum() / share.sum()))


def entmax_drift(probs: Row, vector: Row, alpha: float) -> Any:
    """Compute ``<∂p/∂α, v>`` of α-entmax; Correia et al. (2019), Proposition 1."""
    support, r = probs > 0, np.longdouble(alpha) - 1
    kept, v = probs[support], vector[support]
    slope = kept ** (1 - r)
    v = v - v[slope.argmax()]
    share = slope / slope.max()
    v = v - (share * v).sum() / share.sum()
    # Σ s v is zero now, so the term of the derivative that is proportional to s vanishes.
    return ((kept - r * kept * np.log(kept)) * v).sum() / r**2


def scatter(support: NDArray[np.bool_], values: Row) -> Row:
    """Return a row with the values on the support and zeros elsewhere."""
    full = np.zeros(support.size, np.longdouble)
    full[support] = values
    return full
