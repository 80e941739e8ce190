"""Matrix of the KKT system and its inverse, updated as structures are added and removed.

With the unary parts of structures as columns of ``M``, the system of Niculae et al. 2018 (Eq. 9)
has the matrix ``G = Mᵀ M``, the numbers of shared parts. ``H = G + 1 1ᵀ`` gives the same weights,
as these sum to one, and is invertible if and only if the structures are affinely independent (Wolfe
1976). The entries of ``H`` are integers, hence exact; its inverse is updated in ``O(I²)``.
"""

from collections import namedtuple

import numpy as np

from repro.structures.kernels._compile import Array, allocating, inlined, inner

State = namedtuple(
    "State",
    (
        "vertices", "theta", "weights", "gram", "inverse",
        "column", "solved", "residual", "step", "ones", "counts", "values",
    ),
)  # fmt: skip
"""Active set in arrays of fixed capacity.

``vertices``: slots of the structures, the first ``counts[SLOTS]`` of unary parts. ``theta`` and
``weights``: scores and weights of the structures. ``gram``: ``H``. ``inverse``: inverse of ``H``,
and ``ones``: its row sums. ``column``, ``solved``, ``residual``, ``step``: vectors of workspace.
``counts`` and ``values``: integers and floats at the positions ``SIZE`` to ``MOVED``.
"""

SIZE, SLOTS, ITERATIONS, STALLS = range(4)
"""Positions in ``counts``: structures, unary slots, oracle calls, oracle calls without progress."""
GAP, OFFSET, ROUNDING, DRIFT, SPREAD, MOVED = range(6)
"""Positions in ``values``: the gap, the offset subtracted from ``theta``, the rounding error of
scores, the error of the inverse, the spread of lowered scores (zero at the optimum over the active
set), and the total change of the weights in the last iteration."""

_DEPENDENT = 1e-7
"""Relative squared distance up to which a structure counts as dependent on the others."""
_ROUGH = 0.1
"""Relative squared distance below which the distance is refined, unless the inverse is accurate."""
_GOOD = 1e-11
"""Error of the inverse up to which distances are not refined: they depend on its square."""


@allocating
def empty_state(room: int, width: int, slots: int) -> State:
    """Allocate an active set; vertices have ``width`` entries, of which ``slots`` are unary."""
    counts = np.zeros(4, np.int64)
    counts[SLOTS] = slots
    return State(
        np.empty((room, width), np.int32), np.empty(room), np.zeros(room),
        np.empty((room, room)), np.empty((room, room)), np.empty(room), np.empty(room),
        np.empty(room), np.empty(room), np.empty(room), counts, np.zeros(6),
    )  # fmt: skip


@inner
def copy(source: Array, target: Array) -> None:
    """Copy a vector to the first entries of another.

    An assignment to a slice would compile the text of an error as well: two seconds in all.
    """
    for i in range(source.shape[0]):
        target[i] = source[i]


@inlined
def full(state: State) -> bool:
    """Return whether the capacity of the active set is used up."""
    return bool(state.counts[SIZE] == state.theta.shape[0])


@allocating
def with_room(state: State) -> State:
    """Return the active set, its capacity doubled if it was full."""
    if not full(state):
        return state
    size = state.counts[SIZE]
    larger = empty_state(2 * size, state.vertices.shape[1], state.counts[SLOTS])
    for i in range(size):
        copy(state.vertices[i], larger.vertices[i])
        copy(state.gram[i], larger.gram[i])
        copy(state.inverse[i], larger.inverse[i])
    copy(state.theta, larger.theta)
    copy(state.weights, larger.weights)
    copy(state.ones, larger.ones)
    copy(state.counts, larger.counts)
    copy(state.values, larger.values)
    return larger


@inner
def shared_parts(first: Array, second: Array, slots: int) -> int:
    """Count the unary parts that two structures share."""
    count = 0
    for i in range(slots):
        count += (first[i] == second[i]) & (first[i] >= 0)
    return count


@inner
def dot(first: Array, second: Array, size: int) -> float:
    """Compute the inner product of the first ``size`` entries."""
    total = 0.0
    for i in range(size):
        total += first[i] * second[i]
    return total


@inner
def product(matrix: Array, vector: Array, size: int, out: Array) -> None:
    """Multiply the leading block of a symmetric matrix by a vector, four rows at a time."""
    for s in range(size):
        out[s] = 0.0
    whole = size - size % 4
    for t in range(0, whole, 4):
        a, b, c, d = vector[t], vector[t + 1], vector[t + 2], vector[t + 3]
        for s in range(size):
            first, second = a * matrix[t, s] + b * matrix[t + 1, s], c * matrix[t + 2, s]
            out[s] += first + (second + d * matrix[t + 3, s])
    for t in range(whole, size):
        for s in range(size):
            out[s] += vector[t] * matrix[t, s]


@inlined
def compare(state: State, vertex: Array) -> float:
    """Write the column of ``H`` for a new structure; return its diagonal entry."""
    slots = state.counts[SLOTS]
    for s in range(state.counts[SIZE]):
        state.column[s] = 1.0 + shared_parts(state.vertices[s], vertex, slots)
    return 1.0 + shared_parts(vertex, vertex, slots)


@inner
def independence(state: State, diagonal: float) -> float:
    """Return the squared distance of a new structure from the span of the others, zero if in it.

    Each structure counts with a constant entry 1 appended, which gives ``H``. The coefficients of
    the closest combination are written into ``solved``; their errors are of second order in the
    distance.
    """
    size, solved = state.counts[SIZE], state.solved
    product(state.inverse, state.column, size, solved)
    left = distance(state, diagonal)
    if left < _ROUGH * diagonal and state.values[DRIFT] > _GOOD:
        product(state.inverse, state.residual, size, state.step)
        for s in range(size):
            solved[s] += state.step[s]
        left = distance(state, diagonal)
    return left if left > _DEPENDENT * diagonal else 0.0


@inner
def distance(state: State, diagonal: float) -> float:
    """Return the squared distance of a new structure from the combination ``solved`` of others.

    Writes ``column - H solved`` into ``residual`` and its largest absolute entry into ``DRIFT``.
    """
    size, left, drift = state.counts[SIZE], diagonal, 0.0
    column, solved, residual = state.column, state.solved, state.residual
    product(state.gram, solved, size, residual)
    for s in range(size):
        residual[s] = column[s] - residual[s]
        drift = max(drift, abs(residual[s]))
        left -= solved[s] * (column[s] + residual[s])
    state.values[DRIFT] = drift
    return left


@inner
def append(state: State, vertex: Array, theta: float, diagonal: float, left: float) -> None:
    """Add an independent structure with weight zero by bordering ``H`` and its inverse."""
    size, inverse, solved, rest = state.counts[SIZE], state.inverse, state.solved, 1.0
    for s in range(size):
        rest -= solved[s]
    for s in range(size):
        share = solved[s] / left
        for t in range(size):
            inverse[s, t] += share * solved[t]
        inverse[s, size] = inverse[size, s] = -share
        state.ones[s] -= share * rest
        state.gram[s, size] = state.gram[size, s] = state.column[s]
    inverse[size, size] = 1.0 / left
    state.ones[size] = rest / left
    state.gram[size, size] = diagonal
    for i in range(vertex.shape[0]):
        state.vertices[size, i] = vertex[i]
    state.theta[size] = theta
    state.weights[size] = 0.0
    state.counts[SIZE] = size + 1


@inlined
def remove(state: State, k: int) -> None:
    """Remove structure ``k``; the last one replaces it."""
    last, inverse, gram = state.counts[SIZE] - 1, state.inverse, state.gram
    row = state.step
    for s in range(last + 1):
        row[s] = inverse[k, s]
    for s in range(last + 1):
        share = row[s] / row[k]
        if s != k:
            for t in range(last + 1):
                inverse[s, t] -= share * row[t]
            state.ones[s] -= share * state.ones[k]
    for s in range(last + 1):
        gram[k, s], inverse[k, s] = gram[last, s], inverse[last, s]
    for s in range(last):
        gram[s, k], inverse[s, k] = gram[s, last], inverse[s, last]
    gram[k, k], inverse[k, k] = gram[last, last], inverse[last, last]
    for i in range(state.vertices.shape[1]):
        state.vertices[k, i] = state.vertices[last, i]
    state.theta[k], state.ones[k] = state.theta[last], state.ones[last]
    state.weights[k] = state.weights[last]
    state.counts[SIZE] = last


@inner
def replace(state: State, k: int, vertex: Array, theta: float, diagonal: float) -> None:
    """Replace structure ``k`` by a dependent one, the combination ``solved`` of active structures.

    With ``w = (solved - e_k) / solved_k`` the inverse ``P`` becomes
    ``(I - w e_kᵀ) P (I - e_k wᵀ)``.
    """
    size, inverse, row, shift = state.counts[SIZE], state.inverse, state.residual, state.step
    pivot, total = state.solved[k], 0.0
    for s in range(size):
        row[s] = inverse[k, s]
        shift[s] = (state.solved[s] - (s == k)) / pivot
        total += shift[s]
    corner = row[k]
    rest = state.ones[k] - corner * total
    for s in range(size):
        left, right = shift[s], row[s] - corner * shift[s]
        for t in range(size):
            inverse[s, t] -= left * row[t] + right * shift[t]
        state.ones[s] -= total * row[s] + rest * left
        state.gram[s, k] = state.gram[k, s] = state.column[s]
    state.gram[k, k] = diagonal
    for i in range(vertex.shape[0]):
        state.vertices[k, i] = vertex[i]
    state.theta[k] = theta


@inner
def invert_again(state: State) -> None:
    """Recompute the inverse of ``H`` from its entries, one structure at a time."""
    size = state.counts[SIZE]
    state.counts[SIZE] = 0
    for k in range(size):
        for s in range(k):
            state.column[s] = state.gram[k, s]
        diagonal, weight = state.gram[k, k], state.weights[k]
        left = max(independence(state, diagonal), _DEPENDENT * diagonal)
        append(state, state.vertices[k], state.theta[k], diagonal, left)
        state.weights[k] = weight
