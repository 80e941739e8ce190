"""SparseMAP of one instance and of a range of instances, and their best structures.

The solutions of a range are stored one after the other: ``vertices`` a structure in each row,
``weights`` one number for each, and of each instance the square inverse of ``H``.
"""

from collections import namedtuple

import numpy as np

from repro.structures.kernels._compile import Array, allocating, inner, on_disk
from repro.structures.kernels.active_set import ALL, advance, begin, insert, settle
from repro.structures.kernels.codes import INFEASIBLE, INVALID, ROUNDING_UNIT, RUNNING
from repro.structures.kernels.gram import (
    GAP,
    OFFSET,
    ROUNDS,
    SIZE,
    State,
    compare,
    empty_state,
    full,
    with_room,
)
from repro.structures.kernels.oracle import (
    Scratch,
    best_vertex,
    extent,
    load,
    position,
    score_of,
    scratch,
)


@inner
def lower(slots: Array, state: State, reduced: Array) -> None:
    """Scores minus marginals: what the oracle sees."""
    for i in range(slots.shape[0]):
        for a in range(slots.shape[1]):
            reduced[i, a] = slots[i, a]
    for s in range(state.counts[SIZE]):
        vertex, weight = state.vertices[s], state.weights[s]
        for i in range(slots.shape[0]):
            reduced[i, vertex[i]] -= weight


@allocating
def add_known(state: State, slots: Array, transitions: Array, known: Array, shares: Array) -> State:
    """Start from a mixture of known structures, as far as they are allowed.

    The best structure, which is there already, has no weight unless none of them is.
    """
    state.weights[0], total = 0.0, 0.0
    for k in range(known.shape[0]):
        vertex = known[k, : slots.shape[0]]
        score, outside = -float("inf"), 0
        for i in range(slots.shape[0]):
            outside += vertex[i] < 0 or vertex[i] >= slots.shape[1]
        if outside == 0:
            score, _ = score_of(slots, transitions, vertex)
        if score > -float("inf"):
            if full(state):
                state = with_room(state)
            diagonal = compare(state, vertex)
            insert(state, vertex, score - state.values[OFFSET], diagonal, shares[k])
            total += shares[k]
    if total <= 0.0:
        state.weights[0] = total = 1.0
    for s in range(state.counts[SIZE]):
        state.weights[s] /= total
    settle(state, ALL, 0.0)
    return state


@inner
def iterate(
    code: int, slots: Array, transitions: Array, tol: float, rounds: int, state: State,
    space: Scratch, vertex: Array, reduced: Array,
) -> int:  # fmt: skip
    """Run oracle and active set in turn until the gap is small, while there is room."""
    status = RUNNING
    while status == RUNNING and not full(state):
        lower(slots, state, reduced)
        best_vertex(code, reduced, transitions, space, vertex)
        score, _ = score_of(slots, transitions, vertex)
        status = advance(state, vertex, score, tol, rounds)
    return status


Found = namedtuple("Found", ("vertices", "weights", "inverses"))
"""Solutions of a range; the arrays may be longer than what is used."""
Report = namedtuple("Report", ("counts", "rounds", "gaps", "statuses"))
"""Results for each instance: structures, oracle calls, gap, and status of the solution."""

_ROOM = 32


@allocating
def reserved(array: Array, used: int, wanted: int) -> Array:
    """The array, or a longer copy where the wanted entries would not fit behind those in use."""
    if used + wanted <= array.shape[0]:
        return array
    longer = np.empty((2 * (used + wanted), *array.shape[1:]), array.dtype)
    longer[:used] = array[:used]
    return longer


@inner
def readable(code: int, scores: Array, transitions: Array, flipped: bool, slots: Array) -> bool:
    """Load the unary scores of an instance; False where any score is NaN or +inf."""
    wrong = 0
    for i in range(min(transitions.shape[0], slots.shape[0] - 1)):
        for a in range(transitions.shape[1]):
            for b in range(transitions.shape[2]):
                wrong += not transitions[i, a, b] < float("inf")
    return wrong == 0 and load(code, scores, flipped, slots)


@allocating
def solve_instance(
    code: int, scores: Array, transitions: Array, sizes: Array, known: Array, shares: Array,
    limits: Array, state: State,
) -> tuple[int, State]:  # fmt: skip
    """Solve one instance; the active set holds nothing where that is impossible."""
    n, m, flipped = extent(code, sizes)
    slots, vertex, status = np.empty((n, m)), np.empty(n, np.int32), RUNNING
    state, space = empty_state(state.theta.shape[0], n, n), scratch(code, n, m)
    if not readable(code, scores, transitions, flipped, slots):
        return INVALID, state
    if not best_vertex(code, slots, transitions, space, vertex):
        return INFEASIBLE, state
    score, size = score_of(slots, transitions, vertex)
    begin(state, vertex, score, ROUNDING_UNIT * (size + n))
    if known.shape[0] > 0:
        state = add_known(state, slots, transitions, known, shares)
    reduced, tol, rounds = np.empty_like(slots), limits[0], int(limits[1])
    while status == RUNNING:
        state = with_room(state)
        status = iterate(
            code, slots, transitions, tol, rounds, state, space, vertex, reduced
        )  # fmt: skip
    return status, state


@allocating
def store(state: State, found: Found, used: int, squares: int) -> Found:
    """Put an active set behind the solutions so far."""
    size, width = state.counts[SIZE], state.vertices.shape[1]
    vertices = reserved(found.vertices, used, size)
    weights = reserved(found.weights, used, size)
    inverses = reserved(found.inverses, squares, size * size)
    weights[used : used + size] = state.weights[:size]
    vertices[used : used + size, :width] = state.vertices[:size]
    vertices[used : used + size, width:] = -1
    for s in range(size):
        inverses[squares + s * size : squares + (s + 1) * size] = state.inverse[s, :size]
    return Found(vertices, weights, inverses)


@inner
def add_marginals(code: int, sizes: Array, state: State, marginals: Array) -> None:
    """Add up the structures of an active set."""
    _, _, flipped = extent(code, sizes)
    for s in range(state.counts[SIZE]):
        for i in range(state.vertices.shape[1]):
            row, column = position(code, flipped, i, state.vertices[s, i])
            marginals[row, column] += state.weights[s]


@on_disk
def solve_range(
    code: int, unary: Array, transitions: Array, sizes: Array, limits: Array, offsets: Array,
    known: Found, marginals: Array, report: Report, start: int, stop: int,
) -> tuple[Found, int, int]:  # fmt: skip
    """Solve instances ``start`` to ``stop``.

    Args:
        code: the structure.
        unary: ``(B, R, C)`` in double precision.
        transitions: ``(B, n - 1, m, m)``, or ``(1, ...)`` for all instances.
        sizes: ``(B, 2)`` rows and columns that count.
        limits: ``(B, 2)`` the gap that is good enough, and the largest number of oracle calls.
        offsets: ``(B + 1,)`` where the structures in ``known`` begin.
        known: structures to start from.
        marginals: ``(B, R, C)`` zeros; result.
        report: result.
        start: first instance.
        stop: the instance behind the last one.

    Returns:
        The solutions, the number of structures, and of entries of the inverses.
    """
    width = known.vertices.shape[1]
    found = Found(np.empty((_ROOM, width), np.int32), np.empty(_ROOM), np.empty(_ROOM))
    state, used, squares = empty_state(_ROOM, 0, 0), 0, 0
    for b in range(start, stop):
        first, last = offsets[b], offsets[b + 1]
        status, state = solve_instance(
            code, unary[b], transitions[b if transitions.shape[0] > 1 else 0], sizes[b],
            known.vertices[first:last], known.weights[first:last], limits[b], state,
        )  # fmt: skip
        report.statuses[b] = status
        report.counts[b] = state.counts[SIZE]
        report.rounds[b] = state.counts[ROUNDS]
        report.gaps[b] = state.values[GAP]
        found = store(state, found, used, squares)
        add_marginals(code, sizes[b], state, marginals[b])
        used += state.counts[SIZE]
        squares += state.counts[SIZE] ** 2
    return found, used, squares


@on_disk
def map_range(
    code: int, unary: Array, transitions: Array, sizes: Array, vertices: Array, statuses: Array,
    start: int, stop: int,
) -> None:  # fmt: skip
    """The best structures of instances ``start`` to ``stop``, as slots."""
    for b in range(start, stop):
        n, m, flipped = extent(code, sizes[b])
        slots = np.empty((n, m))
        chain = transitions[b if transitions.shape[0] > 1 else 0]
        if not readable(code, unary[b], chain, flipped, slots):
            statuses[b] = INVALID
        elif not best_vertex(code, slots, chain, scratch(code, n, m), vertices[b, :n]):
            statuses[b] = INFEASIBLE
