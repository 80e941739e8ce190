"""SparseMAP of one instance, from its scores to its active set."""

import numpy as np

from repro.structures.kernels._compile import Array, allocating, inner
from repro.structures.kernels.active_set import ALL, advance, begin, insert, settle
from repro.structures.kernels.codes import INFEASIBLE, RUNNING, SEQUENCE
from repro.structures.kernels.gram import (
    OFFSET,
    ROUNDING,
    ROUNDS,
    SIZE,
    STALLS,
    State,
    compare,
    full,
    with_room,
)
from repro.structures.kernels.oracle import Scratch, best_vertex, score_of

_UNIT = 2.0**-50
_TINY = 0.01
"""Largest score below which scores with transitions are tiny."""
_SMALL = 0.05
"""Largest score that takes the place of a tiny one at first."""
_STAGE = 10.0
"""How many times smaller the scores become from one such solution to the next."""
_ROUGHLY = 1e-3
"""Gap of such a solution, relative to its scores."""


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
    """Whether all values of a structure, which may be one of other scores, exist in these."""
    outside = 0
    for i in range(slots.shape[0]):
        outside += vertex[i] < 0 or vertex[i] >= slots.shape[1]
    return outside == 0


@allocating
def add_known(state: State, slots: Array, transitions: Array, known: Array, shares: Array) -> State:
    """Start from structures that are known to be good: those that are allowed and independent."""
    total = state.weights[0]
    for k in range(known.shape[0]):
        vertex = known[k, : slots.shape[0]]
        score = -float("inf")
        if fits(vertex, slots):
            score, _ = score_of(slots, transitions, vertex)
        if score > -float("inf"):
            if full(state):
                state = with_room(state)
            size = state.counts[SIZE]
            insert(state, vertex, score - state.values[OFFSET], compare(state, vertex))
            if state.counts[SIZE] > size:
                state.weights[size] = shares[k]
                total += shares[k]
    for s in range(state.counts[SIZE]):
        state.weights[s] /= total
    settle(state, ALL, 0.0)
    return state


@inner
def spread(scores: Array) -> float:
    """The size of the largest finite score."""
    largest = 0.0
    for a in range(scores.shape[0]):
        for b in range(scores.shape[1]):
            size = abs(scores[a, b])
            if size > largest and size < float("inf"):
                largest = size
    return largest


@inner
def enlargement(slots: Array, transitions: Array) -> float:
    """What tiny scores with transitions are multiplied with at first; else one."""
    largest = spread(slots)
    for i in range(min(transitions.shape[0], slots.shape[0] - 1)):
        largest = max(largest, spread(transitions[i]))
    tiny = transitions.shape[0] > 0 and 0.0 < largest < _TINY
    return _SMALL / largest if tiny else 1.0


@inner
def score_again(state: State, slots: Array, transitions: Array) -> None:
    """Take other scores for the structures of an active set, and move to the optimum over it."""
    for s in range(state.counts[SIZE]):
        score, size = score_of(slots, transitions, state.vertices[s])
        if s == 0:
            state.values[OFFSET] = score
            state.values[ROUNDING] = _UNIT * (size + slots.shape[0])
        state.theta[s] = score - state.values[OFFSET]
    state.counts[STALLS] = 0
    settle(state, ALL, 0.0)


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


@inner
def enlarge(scores: Array, factor: float, out: Array) -> None:
    """Multiply the scores ``(n, m)`` of items, or those of a transition."""
    for a in range(scores.shape[0]):
        for b in range(scores.shape[1]):
            out[a, b] = factor * scores[a, b]


@allocating
def descend_enlarged(
    slots: Array, transitions: Array, factor: float, tol: float, rounds: int, state: State,
    space: Scratch,
) -> State:  # fmt: skip
    """Find an active set for tiny scores of sequences: that of the same scores, but larger.

    Where the scores vanish the best structures no longer change. From the uniform mixture, however,
    single sequences move as little as the scores are small, and thousands are tried in vain. So the
    scores shrink in stages, each of which starts where the one before ended.
    """
    more, between, size = np.empty_like(slots), np.empty_like(transitions), _SMALL
    while factor > 1.0 and state.counts[ROUNDS] < rounds:
        enlarge(slots, factor, more)
        for i in range(transitions.shape[0]):
            enlarge(transitions[i], factor, between[i])
        score_again(state, more, between)
        _, state = descend(SEQUENCE, more, between, max(tol, size * _ROUGHLY), rounds, state, space)
        factor, size = factor / _STAGE, size / _STAGE
    score_again(state, slots, transitions)
    return state


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
    factor = enlargement(slots, transitions) if code == SEQUENCE else 1.0
    if known.shape[0] > 0:
        state = add_known(state, slots, transitions, known, shares)
    elif factor > 1.0 and rounds > 1:
        state = descend_enlarged(slots, transitions, factor, tol, rounds // 2, state, space)
    return descend(code, slots, transitions, tol, rounds, state, space)
