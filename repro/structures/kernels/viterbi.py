"""The best tag sequence: Viterbi's algorithm, O(n m²)."""

from repro.structures.kernels._compile import Array, inner


@inner
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


@inner
def best_previous(before: Array, transitions: Array, b: int) -> int:
    """The tag before tag ``b``."""
    best, top = 0, -float("inf")
    for a in range(before.shape[0]):
        value = before[a] + transitions[a, b]
        if value > top:
            best, top = a, value
    return best


@inner
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


@inner
def viterbi(slots: Array, transitions: Array, table: Array, vertex: Array) -> bool:
    """Write the best tags; False where all sequences are forbidden.

    Args:
        slots: ``(n, m)`` scores of tags.
        transitions: ``(n - 1, m, m)`` at least, or of length zero: no transitions.
        table: space, ``(n, m)``.
        vertex: ``(n,)`` result.
    """
    n, m = slots.shape
    if n == 0:
        return True
    chained = transitions.shape[0] > 0
    for i in range(n):
        row = table[i]
        if chained and i > 0:
            relax(table[i - 1], transitions[i - 1], row)
        else:
            row[:] = 0.0
        for b in range(m):
            row[b] += slots[i, b]
    feasible = True
    for i in range(n - 1, -1, -1):
        if i == n - 1 or not chained:
            vertex[i] = argmax(table[i], 0)
            feasible = feasible and table[i, vertex[i]] > -float("inf")
        else:
            vertex[i] = best_previous(table[i], transitions[i], vertex[i + 1])
    return feasible
