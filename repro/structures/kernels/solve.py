"""SparseMAP of one instance, from its scores to its active set."""

import numpy as np

from repro.structures.kernels._compile import Array, inner
from repro.structures.kernels.active_set import (
    INFEASIBLE,
    RUNNING,
    advance,
    begin,
    insert,
    settle,
)
from repro.structures.kernels.gram import OFFSET, SIZE, State, compare, with_room
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
def add_known(state: State, slots: Array, transitions: Array, known: Array, shares: Array) -> State:
    """Start from structures that are known to be good: those that are allowed and independent."""
    total = state.weights[0]
    for k in range(known.shape[0]):
        vertex = known[k, : slots.shape[0]]
        score, _ = score_of(slots, transitions, vertex)
        if score > -float("inf"):
            state = with_room(state)
            size = state.counts[SIZE]
            insert(state, vertex, score - state.values[OFFSET], compare(state, vertex))
            if state.counts[SIZE] > size:
                state.weights[size] = shares[k]
                total += shares[k]
    for s in range(state.counts[SIZE]):
        state.weights[s] /= total
    settle(state)
    return state


@inner
def solve_slots(
    code: int, slots: Array, transitions: Array, known: Array, shares: Array, limits: Array,
    state: State, space: Scratch,
) -> tuple[int, State]:  # fmt: skip
    """Run oracle and active set in turn until the gap is small."""
    vertex = np.empty(slots.shape[0], np.int32)
    if not best_vertex(code, slots, transitions, space, vertex):
        return INFEASIBLE, state
    score, size = score_of(slots, transitions, vertex)
    begin(state, vertex, score, _UNIT * (size + slots.shape[0]))
    if known.shape[0] > 0:
        state = add_known(state, slots, transitions, known, shares)
    reduced, status = np.empty_like(slots), RUNNING
    while status == RUNNING:
        lower(slots, state, reduced)
        best_vertex(code, reduced, transitions, space, vertex)
        score, _ = score_of(slots, transitions, vertex)
        state = with_room(state)
        status = advance(state, vertex, score, limits[0], int(limits[1]))
    return status, state
