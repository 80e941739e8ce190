"""Matching of largest total score by shortest augmenting paths, O(n² m).

Prices of columns and profits of rows are the dual variables: ``profit_i + price_j >= score_ij``,
with equality at chosen pairs. If there are more columns than rows, prices are nonnegative, and zero
at columns without a partner.
"""

from collections import namedtuple

import numpy as np

from repro.structures.kernels._compile import Array, allocating, oracle
from repro.structures.kernels.viterbi import argmax

Market = namedtuple(
    "Market", ("price", "profit", "value", "distance", "final", "barrier", "owner", "source")
)
"""Workspace. ``value``: scores of a row less prices. ``owner``: row matched with each column or
-1. ``source``: row before a column on the shortest path. ``barrier``: infinite at columns whose
distance is final and stored in ``final``, else zero."""


@allocating
def market(n: int, m: int) -> Market:
    """Allocate the workspace for ``n`` rows and ``m >= n`` columns; prices are zero."""
    return Market(
        np.zeros(m), np.empty(n), np.empty(m), np.empty(m), np.empty(m), np.empty(m),
        np.empty(m, np.int32), np.empty(m, np.int32),
    )  # fmt: skip


@oracle
def greedy(slots: Array, space: Market, vertex: Array) -> bool:
    """Match each row with its most profitable column if that is free; False if a row has none."""
    n, m = slots.shape
    price, owner, value = space.price, space.owner, space.value
    for i in range(n):
        for j in range(m):
            value[j] = slots[i, j] - price[j]
        best = argmax(value, 0)
        if value[best] == -float("inf"):
            return False
        space.profit[i] = value[best]
        free = owner[best] < 0
        vertex[i] = best if free else -1
        if free:
            owner[best] = i
    return True


@oracle
def scan(slots: Array, space: Market, row: int, reached: float) -> int:
    """Shorten the distances of columns by way of a row ``i``; return the closest column, or -1.

    ``d_j = min(d_j, reached + profit_i - s_ij + price_j)`` for the columns that are not final,
    whose ``barrier`` is zero.
    """
    price, distance, source, barrier = space.price, space.distance, space.source, space.barrier
    base, shortest = reached + space.profit[row], float("inf")
    for j in range(slots.shape[1]):
        length = (base - slots[row, j]) + (price[j] + barrier[j])
        nearer = length < distance[j]
        distance[j] = length if nearer else distance[j]
        source[j] = row if nearer else source[j]
        shortest = distance[j] if distance[j] < shortest else shortest
    if shortest == float("inf"):
        return -1
    for j in range(slots.shape[1]):
        if distance[j] == shortest:
            return j
    return -1


@oracle
def augment(slots: Array, space: Market, vertex: Array, start: int) -> bool:
    """Match a free row by a shortest path of exchanges; return False if there is none."""
    for j in range(slots.shape[1]):
        space.distance[j], space.barrier[j] = float("inf"), 0.0
    row, reached = start, 0.0
    while True:
        column = scan(slots, space, row, reached)
        if column < 0:
            return False
        reached = space.distance[column]
        space.final[column] = reached
        space.distance[column] = space.barrier[column] = float("inf")
        if space.owner[column] < 0:
            break
        row = space.owner[column]
    space.profit[start] -= reached
    for j in range(slots.shape[1]):
        if space.barrier[j] > 0.0 and space.owner[j] >= 0:
            space.price[j] += reached - space.final[j]
            space.profit[space.owner[j]] -= reached - space.final[j]
    while True:
        row = space.source[column]
        space.owner[column] = row
        column, vertex[row] = vertex[row], column
        if row == start:
            return True


@oracle
def assignment(slots: Array, space: Market, vertex: Array) -> bool:
    """Write the column of each row in the best matching; return False if there is no matching.

    In a square problem, any prices are a valid start; those of the previous call are reused.

    Args:
        slots: ``(n, m)`` scores with ``n <= m``.
        space: workspace.
        vertex: output, ``(n,)``.
    """
    n, m = slots.shape
    if n < m:
        space.price[:] = 0.0
    space.owner[:] = -1
    feasible = greedy(slots, space, vertex)
    for row in range(n):
        if feasible and vertex[row] < 0:
            feasible = augment(slots, space, vertex, row)
    return feasible
