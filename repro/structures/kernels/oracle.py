"""One face for the MAP oracles of all structures: the best structure of one instance."""

from collections import namedtuple

import numpy as np

from repro.structures.kernels._compile import Array, allocating, inner
from repro.structures.kernels.assignment import assignment, market
from repro.structures.kernels.codes import ARBORESCENCE, MATCHING, SEQUENCE, SINGLE_ROOT
from repro.structures.kernels.spanning import arborescence, forest
from repro.structures.kernels.viterbi import viterbi

Scratch = namedtuple("Scratch", ("table", "forest", "path", "market"))
"""Working space of the oracles; only that of the structure at hand has a size."""


@allocating
def scratch(code: int, n: int, m: int) -> Scratch:
    """Working space for ``n`` slots of ``m`` values."""
    is_tree = code in (ARBORESCENCE, SINGLE_ROOT)
    return Scratch(
        np.empty((2 * n if code == SEQUENCE else 0, m)),
        forest(n if is_tree else 0),
        np.empty(n, np.int32),
        market(n if code == MATCHING else 0, m if code == MATCHING else 0),
    )


@inner
def best_vertex(code: int, slots: Array, transitions: Array, space: Scratch, vertex: Array) -> bool:
    """Write the best structure; False where there is none."""
    if code == SEQUENCE:
        return viterbi(slots, transitions, space.table, vertex)
    if code == MATCHING:
        return assignment(slots, space.market, vertex)
    return arborescence(slots, space.forest, space.path, code == SINGLE_ROOT, vertex)


@inner
def score_of(slots: Array, transitions: Array, vertex: Array) -> tuple[float, float]:
    """The score of a structure, and the sum of the sizes of its terms."""
    score = size = 0.0
    for i in range(slots.shape[0]):
        score += slots[i, vertex[i]]
        size += abs(slots[i, vertex[i]])
    if transitions.shape[0] > 0:
        for i in range(slots.shape[0] - 1):
            term = transitions[i, vertex[i], vertex[i + 1]]
            score += term
            size += abs(term)
    return score, size
