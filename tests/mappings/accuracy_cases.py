"""Cases of mappings besides α-entmax for the errors on hard rows, with their oracles.

Values are those of the references in double precision, which judges single precision; Jacobians are
the formulas of the papers, evaluated at a given distribution in extended precision.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from mapping_references import (
    budget_by_bisection,
    csoftmax_by_bisection,
    csparsemax_by_bisection,
    fusedmax_by_splitting,
    oscarmax_by_pooling,
)
from torch import Tensor

from benchmarks.accuracy import Case, extended
from benchmarks.high_precision import Row, powers, scatter
from repro import mappings


def sq_pnorm_max(scores: Row, p: float) -> Row:
    """Compute sq-pnorm-max: ``y = h^e ‖h‖_{e+1}^{1-e}``, ``e = 1 / (p - 1)``, ``Σ y = 1``."""
    exponent = 1 / (np.longdouble(p) - 1)

    def mass(heights: Row, n: Row) -> Any:
        # Divide by the largest height, since high powers of small heights underflow.
        top = heights.max()
        share = heights / top
        norm = (n * share ** (exponent + 1)).sum() ** ((1 - exponent) / (1 + exponent))
        return top * (n * share**exponent).sum() * norm

    return powers(scores, exponent, mass)


def sq_pnorm_product(probs: Row, vector: Row, p: float) -> Row:
    """Compute ``K v - w <w, v> / Σ w``: ``K`` the inverse Hessian on the support, ``w = K 1``."""
    support, q = probs > 0, np.longdouble(p)
    kept, v = probs[support], vector[support]
    norm = (kept**q).sum() ** (1 / q)
    slope = (kept / norm) ** (2 - q) / (q - 1)
    share = (2 - q) / (q - 1) * kept / norm**2
    ones = slope - share
    mean = (ones * v).sum() / ones.sum() if ones.sum() > 0 else 0
    return scatter(support, slope * v - share * (kept * v).sum() - ones * mean)


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


def _sq_pnorm(p: float) -> Case:
    function, value = partial(mappings.sq_pnorm_max, p=p), partial(sq_pnorm_max, p=p)
    return Case(f"sq_pnorm_max, p = {p:g}", function, value, partial(sq_pnorm_product, p=p))


def _in_double(function: Callable[[Tensor], Tensor]) -> Callable[[Row], Row]:
    """Convert a reference on tensors to an oracle on rows."""
    return lambda row: extended(function(torch.from_numpy(row.astype(np.float64))))


def _bounds(n: int) -> Tensor:
    """Return upper bounds that every dtype represents exactly: some are active, some are zero."""
    upper = 1 / 16 + (torch.arange(n) % 5) / 4
    upper[1::7] = 0
    upper[0] = 1
    return upper


def _bounded(name: str, reference: Callable[..., Tensor]) -> Case:
    function = getattr(mappings, name)

    def product(probs: Row, vector: Row) -> Row:
        free = (probs > 0) & (probs < _bounds(probs.size).numpy())
        return free_product(free * (probs if name == "csoftmax" else 1), vector)

    return Case(
        name,
        lambda scores: function(scores, _bounds(scores.size(-1)).to(scores.dtype)),
        _in_double(lambda scores: reference(scores, _bounds(scores.size(-1)))),
        product,
    )


def _budget(k: float) -> Case:
    def total(n: int) -> float:
        return min(k, n / 2)  # entries are at most one: a short row cannot reach a large budget

    return Case(
        f"budget, k = {k:g}",
        lambda scores: mappings.budget(scores, total(scores.size(-1))),
        _in_double(lambda scores: budget_by_bisection(scores, total(scores.size(-1)))),
        lambda probs, vector: free_product(((probs > 0) & (probs < 1)) * 1.0, vector),
        total,
    )


def _grouped(name: str, reference: Callable[..., Tensor], lam: float) -> Case:
    function, fused = getattr(mappings, name), name == "fusedmax"
    return Case(
        f"{name}, λ = {lam:g}",
        partial(function, lam=lam),
        _in_double(partial(reference, lam=lam)),
        partial(grouped_product, contiguous=fused),
        lambda n: 1 + (lam + lam / max(n - 1, 1) if fused else lam * n / 2),
    )


OTHERS = (
    *map(_sq_pnorm, (1.1, 1.8)),
    _bounded("csoftmax", csoftmax_by_bisection),
    _bounded("csparsemax", csparsemax_by_bisection),
    *map(_budget, (0.75, 3.0)),
    *(_grouped("fusedmax", fusedmax_by_splitting, lam) for lam in (0.1, 2.0)),
    *(_grouped("oscarmax", oscarmax_by_pooling, lam) for lam in (0.01, 0.2)),
)
