"""SparseMAP of one instance, from its scores to its active set."""

import numpy as np

from repro.structures.kernels._compile import Array, allocating, inner
from repro.structures.kernels.active_set import ALL, advance, begin, insert, settle
from repro.structures.kernels.codes import INFEASIBLE, RUNNING
from repro.structures.kernels.gram import (
    OFFSET,
    SIZE,
    State,
    compare,
    full,
    with_room,
)
from repro.structures.kernels.oracle import Scratch, best_vertex, score_of

_UNIT = 2.0**-50


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


@inner
def fits(vertex: Array, slots: Array) -> bool:
    """Return whether all values of a structure (perhaps of other scores) exist in these scores."""
    outside = 0
    for i in range(slots.shape[0]):
        outside += vertex[i] < 0 or vertex[i] >= slots.shape[1]
    return outside == 0


@allocating
def add_known(state: State, slots: Array, transitions: Array, known: Array, shares: Array) -> State:
    """Start from a mixture of known structures, as far as they are allowed.

    The best structure, which is there already, has no weight unless none of them is.
    """
    state.weights[0], total = 0.0, 0.0
    for k in range(known.shape[0]):
        vertex = known[k, : slots.shape[0]]
        score = -float("inf")
        if fits(vertex, slots):
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
    """Run oracle and active set in turn while there is room; see :func:`descend`."""
    status = RUNNING
    while status == RUNNING and not full(state):
        lower(slots, state, reduced)
        best_vertex(code, reduced, transitions, space, vertex)
        score, _ = score_of(slots, transitions, vertex)
        status = advance(state, vertex, score, tol, rounds)
    return status


@allocating
def descend(
    code: int, slots: Array, transitions: Array, tol: float, rounds: int, state: State,
    space: Scratch,
) -> tuple[int, State]:  # fmt: skip
    """Run oracle and active set in turn until the gap is small."""
    vertex, reduced, status = np.empty(slots.shape[0], np.int32), np.empty_like(slots), RUNNING
    while status == RUNNING:
        state = with_room(state)
        status = iterate(
            code, slots, transitions, tol, rounds, state, space, vertex, reduced
        )  # fmt: skip
    return status, state


@allocating
def solve_slots(
    code: int, slots: Array, transitions: Array, known: Array, shares: Array, limits: Array,
    state: State, space: Scratch,
) -> tuple[int, State]:  # fmt: skip
    """Solve one instance whose scores are loaded; see :func:`descend`."""
    vertex, tol, rounds = np.empty(slots.shape[0], np.int32), limits[0], int(limits[1])
    if not best_vertex(code, slots, transitions, space, vertex):
        return INFEASIBLE, state
    score, size = score_of(slots, transitions, vertex)
    begin(state, vertex, score, _UNIT * (size + slots.shape[0]))
    if known.shape[0] > 0:
        state = add_known(state, slots, transitions, known, shares)
    return descend(code, slots, transitions, tol, rounds, state, space)
