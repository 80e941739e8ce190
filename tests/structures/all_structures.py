"""All structures of small problems, and an independent solver of SparseMAP over them.

The solver knows nothing of active sets or oracles: it is sequential least squares programming over
the weights of all structures.
"""

from dataclasses import dataclass

import numpy as np
import torch
from every_structure import (
    all_matchings,
    all_tag_sequences,
    all_trees,
    matching_parts,
    sequence_parts,
    tree_parts,
)
from scipy.optimize import LinearConstraint, minimize


@dataclass(frozen=True)
class Enumerated:
    """All structures: ``unary`` (D, parts), ``additional`` (D, parts) and vertices."""

    unary: np.ndarray
    additional: np.ndarray
    vertices: list[tuple[int, ...]]


def sequences(n: int, m: int) -> Enumerated:
    vertices = all_tag_sequences(n, m)
    unary, pairs = zip(*(sequence_parts(tags, n, m) for tags in vertices), strict=True)
    return Enumerated(torch.stack(unary).numpy(), torch.stack(pairs).numpy(), vertices)


def trees(n: int, single_root: bool) -> Enumerated:
    heads = [*all_trees(n, single_root)]
    unary = torch.stack([tree_parts(one, n + 1) for one in heads]).numpy()
    return Enumerated(unary, np.zeros((len(heads), 0)), [(-1, *one) for one in heads])


def matchings(n: int, m: int) -> Enumerated:
    vertices = [*all_matchings(n, m)]
    unary = torch.stack([matching_parts(one, n, m) for one in vertices]).numpy()
    return Enumerated(unary, np.zeros((len(vertices), 0)), vertices)


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
    """Maximize ``scores y - |parts y|² / 2`` over the simplex by sequential least squares."""
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
