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
    ITERATIONS,
    OFFSET,
    SIZE,
    State,
    compare,
    copy,
    empty_state,
    full,
    with_room,
)
from repro.structures.kernels.oracle import Scratch, best_vertex, extent, load, score_of, scratch


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
    code: int, slots: Array, transitions: Array, tol: float, max_iter: int, state: State,
    space: Scratch, vertex: Array, reduced: Array,
) -> int:  # fmt: skip
    """Alternate oracle calls and active set updates until solved or out of capacity."""
    status = RUNNING
    while status == RUNNING and not full(state):
        lower(slots, state, reduced)
        best_vertex(code, reduced, transitions, space, vertex)
        score, _ = score_of(slots, transitions, vertex)
        status = advance(state, vertex, score, tol, max_iter)
    return status


Batch = namedtuple("Batch", ("code", "unary", "transitions", "sizes"))
"""Family of structures, a constant of ``codes.py``; unary scores ``(B, R, C)`` in double precision;
transitions ``(B, n - 1, m, m)``, or ``(1, ...)`` for all instances; and the numbers of rows and
columns that are not padding, ``(B, 2)``."""
Found = namedtuple("Found", ("vertices", "weights", "inverses"))
"""Solutions of a range of instances; the arrays may have unused entries at their ends."""
Report = namedtuple("Report", ("counts", "iterations", "gaps", "statuses"))
"""Results per instance: numbers of structures and oracle calls, gap, status of the solution."""

CAPACITY = 32
"""Initial capacity, in structures, of an active set and of the solutions of a range."""


@allocating
def reserved(array: Array, used: int, wanted: int) -> Array:
    """Return the array, or a longer copy if ``wanted`` more entries would not fit."""
    if used + wanted <= array.shape[0]:
        return array
    longer = np.empty((2 * (used + wanted), *array.shape[1:]), array.dtype)
    for index in np.ndindex(array[:used].shape):
        longer[index] = array[index]
    return longer


@allocating
def loaded(batch: Batch, b: int) -> tuple[bool, Array, Array]:
    """Load the scores of an instance.

    Returns:
        Whether all are valid, neither NaN nor +inf; the unary scores as the oracle takes them; and
        the transitions.
    """
    n, m, flipped = extent(batch.code, batch.sizes[b])
    transitions = batch.transitions[b if batch.transitions.shape[0] > 1 else 0]
    slots, wrong = np.empty((n, m)), 0
    for i in range(min(transitions.shape[0], n - 1)):
        for a in range(transitions.shape[1]):
            for c in range(transitions.shape[2]):
                wrong += not transitions[i, a, c] < float("inf")
    valid = wrong == 0 and load(batch.code, batch.unary[b], flipped, slots)
    return valid, slots, transitions


@allocating
def solve_instance(
    batch: Batch, b: int, tol: float, max_iter: int, known: Array, shares: Array, state: State
) -> tuple[int, State]:
    """Solve instance ``b``; return its status and active set, which is empty if not solvable."""
    valid, slots, transitions = loaded(batch, b)
    n, vertex, status = slots.shape[0], np.empty(slots.shape[0], np.int32), RUNNING
    state, space = empty_state(state.theta.shape[0], n, n), scratch(batch.code, n, slots.shape[1])
    if not valid:
        return INVALID, state
    if not best_vertex(batch.code, slots, transitions, space, vertex):
        return INFEASIBLE, state
    score, size = score_of(slots, transitions, vertex)
    begin(state, vertex, score, ROUNDING_UNIT * (size + n))
    if known.shape[0] > 0:
        state = add_known(state, slots, transitions, known, shares)
    reduced = np.empty_like(slots)
    while status == RUNNING:
        state = with_room(state)
        status = iterate(
            batch.code, slots, transitions, tol, max_iter, state, space, vertex, reduced
        )
    return status, state


@allocating
def store(state: State, found: Found, used: int, entries: int) -> Found:
    """Append an active set to the solutions so far."""
    size, width = state.counts[SIZE], state.vertices.shape[1]
    vertices = reserved(found.vertices, used, size)
    weights = reserved(found.weights, used, size)
    inverses = reserved(found.inverses, entries, size * size)
    copy(state.weights[:size], weights[used:])
    vertices[used : used + size, width:] = -1
    for s in range(size):
        copy(state.vertices[s], vertices[used + s])
        copy(state.inverse[s, :size], inverses[entries + s * size :])
    return Found(vertices, weights, inverses)


@on_disk
def solve_range(
    batch: Batch, tol: float, max_iter: Array, offsets: Array, known: Found, report: Report,
    start: int, stop: int,
) -> tuple[Found, int, int]:  # fmt: skip
    """Solve instances ``start`` to ``stop - 1`` with ``max_iter`` ``(B,)`` oracle calls at most.

    The ``known`` structures and weights from which each starts are at ``offsets``, ``(B + 1,)``.

    Returns:
        The solutions, and how many structures and entries of inverses they use.
    """
    width = known.vertices.shape[1]
    found = Found(np.empty((CAPACITY, width), np.int32), np.empty(CAPACITY), np.empty(CAPACITY))
    state, used, entries = empty_state(CAPACITY, 0, 0), 0, 0
    for b in range(start, stop):
        first, last = offsets[b], offsets[b + 1]
        status, state = solve_instance(
            batch, b, tol, max_iter[b], known.vertices[first:last], known.weights[first:last], state
        )
        report.statuses[b] = status
        report.counts[b] = state.counts[SIZE]
        report.iterations[b] = state.counts[ITERATIONS]
        report.gaps[b] = state.values[GAP]
        found = store(state, found, used, entries)
        used += state.counts[SIZE]
        entries += state.counts[SIZE] ** 2
    return found, used, entries


@on_disk
def map_range(batch: Batch, vertices: Array, statuses: Array, start: int, stop: int) -> None:
    """Write the best structures of instances ``start`` to ``stop - 1``.

    Instances that are invalid or infeasible get their status instead.
    """
    for b in range(start, stop):
        valid, slots, transitions = loaded(batch, b)
        n, m = slots.shape
        if not valid:
            statuses[b] = INVALID
        elif not best_vertex(
            batch.code, slots, transitions, scratch(batch.code, n, m), vertices[b, :n]
        ):
            statuses[b] = INFEASIBLE
