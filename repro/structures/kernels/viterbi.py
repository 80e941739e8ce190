"""The best tag sequence: Viterbi's algorithm, O(n m²)."""

from repro.structures.kernels._compile import Array, oracle


@oracle
def relax(before: Array, transitions: Array, after: Array) -> None:
    """``after_b = max_a before_a + transitions_ab``, four rows at a time."""
    size = before.shape[0]
    for b in range(size):
        after[b] = -float("inf")
    whole = size - size % 4
    for a in range(0, whole, 4):
        first, second, third, fourth = before[a], before[a + 1], before[a + 2], before[a + 3]
        for b in range(size):
            left, right = first + transitions[a, b], third + transitions[a + 2, b]
            other = second + transitions[a + 1, b]
            left = other if other > left else left
            other = fourth + transitions[a + 3, b]
            right = other if other > right else right
            right = left if left > right else right
            after[b] = right if right > after[b] else after[b]
    for a in range(whole, size):
        for b in range(size):
            other = before[a] + transitions[a, b]
            after[b] = other if other > after[b] else after[b]


@oracle
def best_previous(before: Array, transitions: Array, b: int, best: float) -> int:
    """The first tag before tag ``b`` whose sum is the best, which is one of these sums exactly."""
    for a in range(before.shape[0]):
        if before[a] + transitions[a, b] == best:
            return a
    return 0


@oracle
def argmax(values: Array, start: int) -> int:
    """The first position from ``start`` on of the largest value."""
    top = -float("inf")
    for a in range(start, values.shape[0]):
        value = values[a]
        top = value if value > top else top
    for a in range(start, values.shape[0]):
        if values[a] == top:
            return a
    return start


@oracle
def viterbi(slots: Array, transitions: Array, table: Array, vertex: Array) -> bool:
    """Write the best tags; False where all sequences are forbidden.

    Args:
        slots: ``(n, m)`` scores of tags.
        transitions: ``(n - 1, m, m)`` at least, or of length zero: no transitions.
        table: space, ``(2 n, m)``: sums up to and with a tag, and behind them those without it.
        vertex: ``(n,)`` result.
    """
    n, m = slots.shape
    if n == 0:
        return True
    chained = transitions.shape[0] > 0
    for i in range(n):
        reached, row = table[n + i], table[i]
        if chained and i > 0:
            relax(table[i - 1], transitions[i - 1], reached)
        else:
            reached[:] = 0.0
        for b in range(m):
            row[b] = reached[b] + slots[i, b]
    feasible = True
    for i in range(n - 1, -1, -1):
        if i == n - 1 or not chained:
            vertex[i] = argmax(table[i], 0)
            feasible = feasible and table[i, vertex[i]] > -float("inf")
        else:
            after = vertex[i + 1]
            vertex[i] = best_previous(table[i], transitions[i], after, table[n + i + 1, after])
    return feasible
