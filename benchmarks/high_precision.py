"""Mappings and their Jacobians in extended precision: slow oracles for :mod:`benchmarks.accuracy`.

Everything acts on one row of type ``numpy.longdouble`` (64 bits of mantissa on x86). Values come
from bisection of the optimality conditions, Jacobians from the formulas of the papers, evaluated
at a given distribution.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.mappings._reference import _split

Row = NDArray[np.longdouble]
_ITERATIONS = 200
_LOG_LOWEST = -3000.0
"""Lower end of the bisection for the logarithm of the smallest height above the threshold."""


def check_precision() -> None:
    """Check that ``numpy.longdouble`` has extended precision.

    Raises:
        SystemExit: it has fewer than 64 bits of mantissa.
    """
    if np.finfo(np.longdouble).nmant < 63:
        raise SystemExit(
            "the oracle needs numpy.longdouble with at least 64 bits of mantissa (x86)"
        )


def softmax(scores: Row) -> Row:
    """Compute softmax."""
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def entmax(scores: Row, alpha: float) -> Row:
    """Compute α-entmax for ``r = α - 1 > 0``: ``p = h^{1/r}``, ``h = [r z - τ]_+``, ``Σ p = 1``."""
    exponent = 1 / (np.longdouble(alpha) - 1)
    return _powers(scores / exponent, exponent, lambda heights, n: (n * heights**exponent).sum())


def normmax(scores: Row, alpha: float) -> Row:
    """Compute α-normmax: ``p ∝ h^e`` with ``e = 1 / (α - 1)`` and ``Σ h^{e+1} = 1``."""
    exponent = 1 / (np.longdouble(alpha) - 1)
    return _powers(scores, exponent, lambda heights, n: (n * heights ** (exponent + 1)).sum())


def sq_pnorm_max(scores: Row, p: float) -> Row:
    """Compute sq-pnorm-max: ``y = h^e ‖h‖_{e+1}^{1-e}``, ``e = 1 / (p - 1)``, ``Σ y = 1``."""
    exponent = 1 / (np.longdouble(p) - 1)

    def mass(heights: Row, n: Row) -> Any:
        # Divide by the largest height, since high powers of small heights underflow.
        top = heights.max()
        share = heights / top
        norm = (n * share ** (exponent + 1)).sum() ** ((1 - exponent) / (1 + exponent))
        return top * (n * share**exponent).sum() * norm

    return _powers(scores, exponent, mass)


def _powers(scores: Row, exponent: Any, mass: Callable[[Row, Row], Any]) -> Row:
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
            low, high = (low, middle) if large else (middle, high)
        return high

    c = bisected(lambda c: values + c, np.longdouble(0), np.longdouble(1))
    lowest = values[values + c > 0].min()
    rise = bisected(
        lambda log: values - lowest + np.exp(log), np.longdouble(_LOG_LOWEST), np.longdouble(0)
    )
    heights = np.maximum(values - lowest + np.exp(rise), 0)
    powers = (heights / heights.max()) ** exponent
    return np.asarray((powers / (n * powers).sum())[places])


def fusedmax(scores: Row, lam: float) -> Row:
    """Compute fusedmax: total variation denoising, then projection onto the simplex."""
    centred = list(scores - scores.max())
    return entmax(np.array(_split(centred, 0, 0, lam), np.longdouble), 2.0)  # type: ignore[arg-type]


def oscarmax(scores: Row, lam: float) -> Row:
    """Compute oscarmax: isotonic regression of sorted, shifted scores, then projection."""
    order = np.argsort(-scores, kind="stable")
    raised = (scores - scores.max())[order] + np.longdouble(lam) * np.arange(scores.size)
    levels = np.empty_like(scores)
    levels[order] = np.array(_pooled(list(raised)), np.longdouble)
    return entmax(levels, 2.0)


def bounded(scores: Row, upper: Row, total: float, entropy: bool) -> Row:
    """Compute ``clip(z - τ, 0, u)``, or with ``entropy`` ``min(exp(z - τ), u)``, of given sum."""
    centred = scores - scores.max()
    reach = 1 + np.log(np.longdouble(scores.size))
    low, high = centred.min() - reach, reach

    def response(tau: Any) -> Row:
        above = centred - tau
        return np.minimum(np.exp(above) if entropy else np.maximum(above, 0), upper)

    for _ in range(_ITERATIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if response(middle).sum() > total else (low, middle)
    return response(high)


def entmax_product(probs: Row, vector: Row, alpha: float) -> Row:
    """Compute ``s (v - <s, v> / Σ s)`` with ``s = p^{2-α}`` on the support."""
    support = probs > 0
    kept, v = probs[support], vector[support]
    slope = kept ** (2 - np.longdouble(alpha))
    # Shift v to zero at the largest slope: if it dominates, v minus the mean would cancel.
    v = v - v[slope.argmax()]
    share = slope / slope.max()
    return _scatter(support, slope * (v - (share * v).sum() / share.sum()))


def entmax_drift(probs: Row, vector: Row, alpha: float) -> Any:
    """Compute ``<∂p/∂α, v>`` of α-entmax; Correia et al. (2019), Proposition 1."""
    support, alpha_minus_1 = probs > 0, np.longdouble(alpha) - 1
    kept, v = probs[support], vector[support]
    slope = kept ** (1 - alpha_minus_1)
    v = v - v[slope.argmax()]
    share = slope / slope.max()
    v = v - (share * v).sum() / share.sum()
    # Σ s v is zero now, so the term of the derivative that is proportional to s vanishes.
    return ((kept - alpha_minus_1 * kept * np.log(kept)) * v).sum() / alpha_minus_1**2


def normmax_product(probs: Row, vector: Row, alpha: float) -> Row:
    """Compute ``(I - p 1ᵀ) diag(d) (I - 1 pᵀ) v`` with ``d = p^{2-α} ‖p‖_α^{α-1} / (α - 1)``."""
    support, a = probs > 0, np.longdouble(alpha)
    kept, v = probs[support], vector[support]
    share = kept / kept.max()
    norm = (share**a).sum() ** ((a - 1) / a)
    moved = kept.max() * share ** (2 - a) * norm / (a - 1) * (v - (kept * v).sum())
    return _scatter(support, moved - kept * moved.sum())


def normmax_drift(probs: Row, vector: Row, alpha: float) -> Any:
    """Compute ``<∂p/∂α, v>`` of α-normmax from the conditions ``p = ‖p‖_α h^{1/(α-1)}``."""
    support, a = probs > 0, np.longdouble(alpha)
    kept, v = probs[support], vector[support]
    share = kept / kept.max()
    norm = (share**a).sum() ** (1 / a)
    heights = share / norm
    logs = np.log(heights)
    slope = kept.max() * share ** (2 - a) * norm ** (a - 1) / (a - 1)
    lowered = (kept * heights ** (a - 1) * logs).sum() / a
    moved = slope * lowered - kept * logs / (a - 1)
    return ((moved - kept * moved.sum()) * v).sum()


def sq_pnorm_product(probs: Row, vector: Row, p: float) -> Row:
    """Compute ``K v - w <w, v> / Σ w``: ``K`` the inverse Hessian on the support, ``w = K 1``."""
    support, q = probs > 0, np.longdouble(p)
    kept, v = probs[support], vector[support]
    norm = (kept**q).sum() ** (1 / q)
    slope = (kept / norm) ** (2 - q) / (q - 1)
    share = (2 - q) / (q - 1) * kept / norm**2
    ones = slope - share
    mean = (ones * v).sum() / ones.sum() if ones.sum() > 0 else 0
    return _scatter(support, slope * v - share * (kept * v).sum() - ones * mean)


def free_product(slope: Row, vector: Row) -> Row:
    """Compute ``s (v - <s, v> / Σ s)``; zero if ``s`` is zero."""
    total = slope.sum()
    return slope * (vector - (slope * vector).sum() / total) if total > 0 else 0 * slope


def grouped_product(probs: Row, vector: Row, contiguous: bool) -> Row:
    """Average ``v`` over the groups of equal entries, then differentiate sparsemax."""
    if contiguous:
        groups = np.concatenate([[0], np.cumsum(probs[1:] != probs[:-1])])
    else:
        groups = np.unique(probs, return_inverse=True)[1]
    support = (probs > 0).astype(np.longdouble)
    totals = np.zeros(probs.size, np.longdouble)
    np.add.at(totals, groups, vector)
    means = totals[groups] / np.bincount(groups)[groups]
    return free_product(support, means)


def _scatter(support: NDArray[np.bool_], values: Row) -> Row:
    full = np.zeros(support.size, np.longdouble)
    full[support] = values
    return full


def _pooled(row: list[np.longdouble]) -> list[np.longdouble]:
    """Compute decreasing isotonic regression, for which SciPy has double precision only."""
    blocks: list[tuple[Any, int]] = []
    for value in row:
        total, size = value, 1
        while blocks and blocks[-1][0] * size <= total * blocks[-1][1]:
            last = blocks.pop()
            total, size = total + last[0], size + last[1]
        blocks.append((total, size))
    return [total / size for total, size in blocks for _ in range(size)]
