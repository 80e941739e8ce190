"""SparseMAP and MAP of ranges of instances.

The solutions of a range are concatenated: ``vertices`` and ``weights`` have one row per structure,
``inverses`` the flattened inverse of ``H`` of each instance.
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
    """Write scores minus marginals, the input of the oracle."""
    for i in range(slots.shape[0]):
        for a in range(slots.shape[1]):
            reduced[i, a] = slots[i, a]
    for s in range(state.counts[SIZE]):
        vertex, weight = state.vertices[s], state.weights[s]
        for i in range(slots.shape[0]):
            reduced[i, vertex[i]] -= weight


@allocating
def add_known(state: State, slots: Array, transitions: Array, known: Array, shares: Array) -> State:
    """Start from a mixture of known structures, without those that are forbidden.

    The best structure, which is active already, gets weight zero unless all others are forbidden.
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
    """Alternate oracle calls and active set updates until solved or out of capacity."""
    status = RUNNING
    while status == RUNNING and not full(state):
        lower(slots, state, reduced)
        best_vertex(code, reduced, transitions, space, vertex)
        score, _ = score_of(slots, transitions, vertex)
        status = advance(state, vertex, score, tol, rounds)
    return status


Found = namedtuple("Found", ("vertices", "weights", "inverses"))
"""Solutions of a range of instances; the arrays may have unused entries at their ends."""
Report = namedtuple("Report", ("counts", "rounds", "gaps", "statuses"))
"""Results per instance: numbers of structures and oracle calls, gap, status of the solution."""

_CAPACITY = 32
"""Initial capacity, in structures, of the active set and of the solutions of a range."""


@allocating
def reserved(array: Array, used: int, wanted: int) -> Array:
    """Return the array, or a longer copy if ``wanted`` more entries would not fit."""
    if used + wanted <= array.shape[0]:
        return array
    longer = np.empty((2 * (used + wanted), *array.shape[1:]), array.dtype)
    longer[:used] = array[:used]
    return longer


@inner
def readable(code: int, scores: Array, transitions: Array, flipped: bool, slots: Array) -> bool:
    """Load the unary scores of an instance; return False if any score is NaN or +inf."""
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
    """Solve one instance; return its status and active set, which is empty if not solvable."""
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
def store(state: State, found: Found, used: int, entries: int) -> Found:
    """Append an active set to the solutions so far."""
    size, width = state.counts[SIZE], state.vertices.shape[1]
    vertices = reserved(found.vertices, used, size)
    weights = reserved(found.weights, used, size)
    inverses = reserved(found.inverses, entries, size * size)
    weights[used : used + size] = state.weights[:size]
    vertices[used : used + size, :width] = state.vertices[:size]
    vertices[used : used + size, width:] = -1
    for s in range(size):
        inverses[entries + s * size : entries + (s + 1) * size] = state.inverse[s, :size]
    return Found(vertices, weights, inverses)


@inner
def add_marginals(code: int, sizes: Array, state: State, marginals: Array) -> None:
    """Add the weights of structures to the marginals of their parts."""
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
    """Solve instances ``start`` to ``stop - 1``.

    Args:
        code: family of structures.
        unary: ``(B, R, C)`` in double precision.
        transitions: ``(B, n - 1, m, m)``, or ``(1, ...)`` for all instances.
        sizes: ``(B, 2)`` numbers of rows and columns that are not padding.
        limits: ``(B, 2)`` gap at which to stop, and largest number of oracle calls.
        offsets: ``(B + 1,)`` at which the structures in ``known`` of each instance start.
        known: structures to start from, and their weights.
        marginals: output ``(B, R, C)``, initially zero.
        report: output.
        start: first instance.
        stop: end of the range, exclusive.

    Returns:
        The solutions, and how many structures and entries of inverses they use.
    """
    width = known.vertices.shape[1]
    found = Found(np.empty((_CAPACITY, width), np.int32), np.empty(_CAPACITY), np.empty(_CAPACITY))
    state, used, entries = empty_state(_CAPACITY, 0, 0), 0, 0
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
        found = store(state, found, used, entries)
        add_marginals(code, sizes[b], state, marginals[b])
        used += state.counts[SIZE]
        entries += state.counts[SIZE] ** 2
    return found, used, entries


@on_disk
def map_range(
    code: int, unary: Array, transitions: Array, sizes: Array, vertices: Array, statuses: Array,
    start: int, stop: int,
) -> None:  # fmt: skip
    """Write the best structures of instances ``start`` to ``stop - 1``, and failed statuses."""
    for b in range(start, stop):
        n, m, flipped = extent(code, sizes[b])
        slots = np.empty((n, m))
        chain = transitions[b if transitions.shape[0] > 1 else 0]
        if not readable(code, unary[b], chain, flipped, slots):
            statuses[b] = INVALID
        elif not best_vertex(code, slots, chain, scratch(code, n, m), vertices[b, :n]):
            statuses[b] = INFEASIBLE
