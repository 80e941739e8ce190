"""Layout of the structures, and one interface to their MAP oracles.

A slot is one decision: the tag of an item, the head of a word, the partner of a row. The scores of
the values of a slot are contiguous in memory. The layout is flipped if the matrix of unary scores
has these scores in a column rather than in a row.
"""

from collections import namedtuple

import numpy as np

from repro.structures.kernels._compile import Array, allocating, inner
from repro.structures.kernels.assignment import assignment, market
from repro.structures.kernels.codes import ARBORESCENCE, MATCHING, SEQUENCE, SINGLE_ROOT
from repro.structures.kernels.spanning import arborescence, forest
from repro.structures.kernels.viterbi import viterbi


@inner
def extent(code: int, sizes: Array) -> tuple[int, int, bool]:
    """Return the number of slots, the number of their values, and whether the layout is flipped.

    ``sizes`` are the numbers of rows and columns that are not padding in the matrix of scores.
    """
    rows, columns = sizes[0], sizes[1]
    if code in (ARBORESCENCE, SINGLE_ROOT):
        return columns - 1, rows, True
    if code == MATCHING and rows > columns:
        return columns, rows, True
    return rows, columns, False


@inner
def first_column(code: int) -> int:
    """Return the column of the first slot in a flipped layout; the root of a tree has no slot."""
    return 1 if code in (ARBORESCENCE, SINGLE_ROOT) else 0


@inner
def position(code: int, flipped: bool, slot: int, value: int) -> tuple[int, int]:
    """Return the row and column of a part in the matrix of scores."""
    if flipped:
        return value, slot + first_column(code)
    return slot, value


@inner
def load(code: int, scores: Array, flipped: bool, slots: Array) -> bool:
    """Copy the scores, subtracting the largest one of each slot; return False at NaN or +inf.

    A constant for all values of a slot changes no solution, since each structure has one of them.
    """
    for i in range(slots.shape[0]):
        top = -float("inf")
        for a in range(slots.shape[1]):
            row, column = position(code, flipped, i, a)
            value = float(scores[row, column])
            if not value < float("inf"):
                return False
            loop = flipped and row == column and first_column(code) == 1
            slots[i, a] = -float("inf") if loop else value
            top = max(top, slots[i, a])
        if top > -float("inf"):
            for a in range(slots.shape[1]):
                slots[i, a] -= top
    return True


Scratch = namedtuple("Scratch", ("table", "forest", "path", "market"))
"""Workspace of the oracles; only the parts that the structure needs are not empty."""


@allocating
def scratch(code: int, n: int, m: int) -> Scratch:
    """Allocate the workspace of an oracle for ``n`` slots of ``m`` values."""
    is_tree = code in (ARBORESCENCE, SINGLE_ROOT)
    return Scratch(
        np.empty((2 * n if code == SEQUENCE else 0, m)),
        forest(n if is_tree else 0),
        np.empty(n, np.int32),
        market(n if code == MATCHING else 0, m if code == MATCHING else 0),
    )


@inner
def best_vertex(code: int, slots: Array, transitions: Array, space: Scratch, vertex: Array) -> bool:
    """Write the highest-scoring structure; return False if all are forbidden."""
    if code == SEQUENCE:
        return viterbi(slots, transitions, space.table, vertex)
    if code == MATCHING:
        return assignment(slots, space.market, vertex)
    return arborescence(slots, space.forest, space.path, code == SINGLE_ROOT, vertex)


@inner
def score_of(slots: Array, transitions: Array, vertex: Array) -> tuple[float, float]:
    """Return the score of a structure, and the sum of the absolute values of its terms."""
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
