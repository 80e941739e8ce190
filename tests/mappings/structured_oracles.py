"""Oracles for fusedmax and oscarmax that share no step with the implementation."""

from itertools import product

import numpy as np
from scipy.optimize import minimize


def simplex_program(scores, penalty_rows, lam):
    """``min ½‖q - z‖² + λ Σ_k max_r <penalty_rows[k, r], q>`` over the simplex, by SLSQP."""
    n, terms = len(scores), len(penalty_rows)

    def objective(x):
        return ((x[:n] - scores) ** 2).sum() / 2 + lam * x[n:].sum()

    def slope(x):
        return np.concatenate([x[:n] - scores, np.full(terms, lam)])

    above = [
        np.concatenate([-row, np.eye(terms)[k]])
        for k, rows in enumerate(penalty_rows)
        for row in rows
    ]
    total = np.concatenate([np.ones(n), np.zeros(terms)])
    start = np.full(n, 1 / n)
    tops = [max(row @ start for row in rows) for rows in penalty_rows]
    solution = minimize(
        objective,
        np.concatenate([start, tops]),
        jac=slope,
        bounds=[(0, 1)] * n + [(None, None)] * terms,
        constraints=[
            {"type": "eq", "fun": lambda x: total @ x - 1, "jac": lambda x: total},
            {
                "type": "ineq",
                "fun": lambda x: np.array(above) @ x,
                "jac": lambda x: np.array(above),
            },
        ],
        options={"ftol": 1e-15, "maxiter": 500},
    )
    return solution.x[:n]


def fused_rows(n):
    """``|q_{i+1} - q_i|`` as a maximum of two linear forms."""
    forms = np.diff(np.eye(n), axis=0)
    return [np.stack([form, -form]) for form in forms]


def oscar_rows(n):
    """``max(q_i, q_j)`` for every pair."""
    return [np.eye(n)[[i, j]] for i in range(n) for j in range(i + 1, n)]


def total_variation_by_enumeration(scores, lam):
    """The proximal operator of total variation from its dual; every set of active bounds is tried.

    ``y = x - Dᵀt`` with ``t`` in the box of radius ``λ``: the ``t`` that is optimal on the face of
    its own active bounds and whose multipliers there have the right sign.
    """
    forms = np.diff(np.eye(len(scores)), axis=0)
    for face in product((-1, 0, 1), repeat=len(scores) - 1):
        signs = np.array(face)
        dual, free = lam * signs.astype(float), signs == 0
        inner = forms[free] @ forms[free].T
        dual[free] = np.linalg.solve(inner, forms[free] @ (scores - forms.T @ dual))
        levels = scores - forms.T @ dual
        if (np.abs(dual) <= lam + 1e-12).all() and (signs * (forms @ levels) >= -1e-12).all():
            return levels
    raise AssertionError("no face is optimal")
