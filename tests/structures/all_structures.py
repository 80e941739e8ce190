"""All structures of small problems, and an independent solver of SparseMAP over them.

The solver knows nothing of active sets or oracles: it is sequential least squares programming over
the weights of all structures.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
from scipy.optimize import LinearConstraint, minimize


@dataclass(frozen=True)
class Enumerated:
    """All structures: ``unary`` (D, parts), ``additional`` (D, parts) and vertices."""

    unary: np.ndarray
    additional: np.ndarray
    vertices: list[tuple[int, ...]]


def sequences(n: int, m: int) -> Enumerated:
    vertices = list(product(range(m), repeat=n))
    unary, additional = np.zeros((len(vertices), n, m)), np.zeros((len(vertices), n - 1, m, m))
    for s, tags in enumerate(vertices):
        unary[s, np.arange(n), tags] = 1
        additional[s, np.arange(n - 1), tags[:-1], tags[1:]] = 1
    return Enumerated(unary, additional, vertices)


def trees(n: int, single_root: bool) -> Enumerated:
    vertices = [(-1, *heads) for heads in product(range(n + 1), repeat=n)]
    vertices = [v for v in vertices if is_tree(v, single_root)]
    unary = np.zeros((len(vertices), n + 1, n + 1))
    for s, heads in enumerate(vertices):
        for word in range(1, n + 1):
            unary[s, heads[word], word] = 1
    return Enumerated(unary, np.zeros((len(vertices), 0)), vertices)


def is_tree(heads: tuple[int, ...], single_root: bool) -> bool:
    """Return whether every word is below the root."""
    for word in range(1, len(heads)):
        seen = set()
        while word != 0:
            if word in seen:
                return False
            seen.add(word)
            word = heads[word]
    return not single_root or heads.count(0) == 1


def matchings(n: int, m: int) -> Enumerated:
    vertices = list(_columns(n, m))
    unary = np.zeros((len(vertices), n, m))
    for s, columns in enumerate(vertices):
        for row, column in enumerate(columns):
            if column >= 0:
                unary[s, row, column] = 1
    return Enumerated(unary, np.zeros((len(vertices), 0)), vertices)


def _columns(n: int, m: int) -> Iterator[tuple[int, ...]]:
    if n <= m:
        yield from permutations(range(m), n)
        return
    for rows in permutations(range(n), m):
        columns = [-1] * n
        for column, row in enumerate(rows):
            columns[row] = column
        yield tuple(columns)


def structure_scores(
    every: Enumerated, unary: np.ndarray, additional: np.ndarray | None = None
) -> np.ndarray:
    """Scores of all structures; forbidden ones have -inf."""
    scores = _total(every.unary, unary)
    return scores if additional is None else scores + _total(every.additional, additional)


def _total(parts: np.ndarray, scores: np.ndarray) -> np.ndarray:
    flat = parts.reshape(len(parts), -1).astype(bool)
    return np.where(flat, scores.reshape(1, -1), 0.0).sum(1)


def sparsemap_by_enumeration(
    every: Enumerated, unary: np.ndarray, additional: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """Marginals of unary parts, and the largest value of the objective."""
    scores = structure_scores(every, unary, additional)
    allowed = np.isfinite(scores)
    parts = every.unary.reshape(len(scores), -1)[allowed]
    scores = scores[allowed]
    weights = _solve(parts, scores)
    marginals = weights @ parts
    value = float(weights @ scores - 0.5 * marginals @ marginals)
    return marginals.reshape(every.unary.shape[1:]), value


def _solve(parts: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Maximise ``scores y - |parts y|² / 2`` over the simplex by sequential least squares."""
    gram, count = parts @ parts.T, len(scores)
    found = minimize(
        lambda y: 0.5 * y @ gram @ y - scores @ y,
        np.full(count, 1 / count),
        jac=lambda y: gram @ y - scores,
        bounds=[(0, 1)] * count,
        constraints=[LinearConstraint(np.ones((1, count)), 1, 1)],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return np.clip(found.x, 0, None) / np.clip(found.x, 0, None).sum()
