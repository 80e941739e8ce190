"""The best tag sequence: Viterbi's algorithm, O(n m²)."""

from repro.structures.kernels._compile import Array, oracle


@oracle
def relax(before: Array, transitions: Array, after: Array) -> None:
    """Compute ``after_b = max_a before_a + transitions_ab``, four rows at a time."""
    size = before.shape[0]
    for b in range(size):
        after[b] = -float("inf")
    whole = size - size % 4
    for a in range(0, whole, 4):
        first, second, third, fourth = before[a], before[a + 1], before[a + 2], before[a + 3]
        for b in range(size):
            left = max(first + transitions[a, b], second + transitions[a + 1, b])
            right = max(third + transitions[a + 2, b], fourth + transitions[a + 3, b])
            after[b] = max(after[b], max(left, right))
    for a in range(whole, size):
        for b in range(size):
            after[b] = max(after[b], before[a] + transitions[a, b])


@oracle
def best_previous(before: Array, transitions: Array, b: int, best: float) -> int:
    """Return the first tag whose sum with its transition to ``b`` is exactly ``best``."""
    for a in range(before.shape[0]):
        if before[a] + transitions[a, b] == best:
            return a
    return 0


@oracle
def argmax(values: Array, start: int) -> int:
    """Return the first position of the largest value, from ``start`` on."""
    some = values[start:]
    size = some.shape[0]
    whole = size - size % 4
    first = second = third = fourth = -float("inf")
    for a in range(0, whole, 4):
        first, second = max(first, some[a]), max(second, some[a + 1])
        third, fourth = max(third, some[a + 2]), max(fourth, some[a + 3])
    top = max(max(first, second), max(third, fourth))
    for a in range(whole, size):
        top = max(top, some[a])
    for a in range(size):
        if some[a] == top:
            return start + a
    return start


@oracle
def viterbi(slots: Array, transitions: Array, table: Array, vertex: Array) -> bool:
    """Write the best tags; return False if all sequences are forbidden.

    Args:
        slots: ``(n, m)`` scores of tags.
        transitions: scores, at least ``(n - 1, m, m)``, or of length zero for none.
        table: workspace ``(2 n, m)``: best sums that include a tag's own score, then ones without.
        vertex: output, ``(n,)``.
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
