"""The best matching: shortest augmenting paths, O(n² m).

Prices of columns and profits of rows are the dual variables: ``profit_i + price_j >= score_ij``,
with equality at chosen pairs. Prices are at least zero and zero at columns without a partner.
"""

from collections import namedtuple

import numpy as np

from repro.structures.kernels._compile import Array, inner

Market = namedtuple("Market", ("price", "profit", "distance", "owner", "source", "closed"))
"""Space of the algorithm. ``owner``: row of each column or -1. ``source``: row before a column on
the shortest path. ``closed``: columns whose distance is final."""


@inner
def market(n: int, m: int) -> Market:
    """Space for ``n`` rows and ``m >= n`` columns; prices are zero."""
    return Market(
        np.zeros(m), np.empty(n), np.empty(m), np.empty(m, np.int32), np.empty(m, np.int32),
        np.empty(m, np.bool_),
    )  # fmt: skip


@inner
def greedy(slots: Array, space: Market, vertex: Array) -> bool:
    """Give each row the column of most profit while it is free; False where a row has none."""
    n, m = slots.shape
    price, owner = space.price, space.owner
    for i in range(n):
        best, profit = 0, -float("inf")
        for j in range(m):
            value = slots[i, j] - price[j]
            if value > profit:
                best, profit = j, value
        if profit == -float("inf"):
            return False
        space.profit[i] = profit
        free = owner[best] < 0
        vertex[i] = best if free else -1
        if free:
            owner[best] = i
    return True


@inner
def scan(slots: Array, space: Market, row: int, reached: float) -> int:
    """Shorten the distances by way of a row; the closest open column, or -1."""
    price, distance, source, closed = space.price, space.distance, space.source, space.closed
    base = reached + space.profit[row]
    best, shortest = -1, float("inf")
    for j in range(slots.shape[1]):
        if closed[j]:
            continue
        length = base - slots[row, j] + price[j]
        if length < distance[j]:
            distance[j] = length
            source[j] = row
        if distance[j] < shortest:
            best, shortest = j, distance[j]
    return best


@inner
def augment(slots: Array, space: Market, vertex: Array, start: int) -> bool:
    """Find a partner for a row, others may move; False where there is none."""
    for j in range(slots.shape[1]):
        space.distance[j], space.closed[j] = float("inf"), False
    row, reached = start, 0.0
    while True:
        column = scan(slots, space, row, reached)
        if column < 0:
            return False
        reached = space.distance[column]
        space.closed[column] = True
        if space.owner[column] < 0:
            break
        row = space.owner[column]
    space.profit[start] -= reached
    for j in range(slots.shape[1]):
        if space.closed[j] and space.owner[j] >= 0:
            space.price[j] += reached - space.distance[j]
            space.profit[space.owner[j]] -= reached - space.distance[j]
    while True:
        row = space.source[column]
        space.owner[column] = row
        column, vertex[row] = vertex[row], column
        if row == start:
            return True


@inner
def assignment(slots: Array, space: Market, vertex: Array) -> bool:
    """Write the best column of each row; False where there is no matching.

    In a square problem the prices of the call before are kept: any prices are a valid start.

    Args:
        slots: ``(n, m)`` scores with ``n <= m``.
        space: working space.
        vertex: ``(n,)`` result.
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
