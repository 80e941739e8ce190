"""Active set method for one instance of SparseMAP (Niculae et al. 2018, Algorithm 2).

The algorithm is that of Wolfe for the point of smallest norm in a polytope. ``advance`` is its step
between two oracle calls: measure the gap, add the structure, and move to the optimum over the
active set, dropping structures whose weight would be negative.
"""

from repro.structures.kernels._compile import Array, inlined, inner
from repro.structures.kernels.codes import CONVERGED, EXHAUSTED, RUNNING
from repro.structures.kernels.gram import (
    DRIFT,
    GAP,
    ITERATIONS,
    MOVED,
    OFFSET,
    ROUNDING,
    SIZE,
    SPREAD,
    STALLS,
    State,
    append,
    compare,
    dot,
    independence,
    invert_again,
    product,
    remove,
    replace,
)

_TINY = 1e-13
"""Weight, or change of weights, up to which it is attributed to rounding."""
_PATIENCE = 1000
"""Give up after this many consecutive iterations that change no weight: exchanges can cycle."""
_LARGE_SPREAD = 0.01
"""Spread of lowered scores, relative to the gap, above which the last optimum is recomputed."""
_SMALL_SPREAD = 1e-4
"""Spread of lowered scores, relative to the gap, up to which it is neglected in the next step."""
ALL = -1
"""Value of ``k`` if the lowered scores of several structures may differ."""
_EXACT = 1e-8
"""Error above which the inverse is recomputed."""


@inner
def begin(state: State, vertex: Array, theta: float, rounding: float) -> None:
    """Start from one structure, the highest-scoring one."""
    state.counts[SIZE] = 0
    state.values[OFFSET] = theta
    state.values[ROUNDING] = rounding
    diagonal = compare(state, vertex)
    append(state, vertex, 0.0, diagonal, diagonal)
    state.weights[0] = 1.0


@inlined
def lowered_scores(state: State) -> float:
    """Write the lowered scores ``θ - H y`` into ``residual``; return their weighted average.

    At the optimum over the active set, the lowered scores of all structures are equal.
    """
    size, average = state.counts[SIZE], 0.0
    theta, weights, residual = state.theta, state.weights, state.residual
    product(state.gram, weights, size, residual)
    for s in range(size):
        residual[s] = theta[s] - residual[s]
        average += weights[s] * residual[s]
    return average


@inlined
def find_step(state: State, k: int, excess: float) -> None:
    """Write the step to the optimum over the active set, where weights may be negative.

    The lowered scores of all structures but ``k`` are equal. A common offset does not change the
    step; it is subtracted to avoid its rounding error.
    """
    size, solved_sum, ones_sum, missing = state.counts[SIZE], 0.0, 0.0, 1.0
    if k == ALL:
        average = lowered_scores(state)
        for s in range(size):
            state.residual[s] -= average
        product(state.inverse, state.residual, size, state.step)
    else:
        for s in range(size):
            state.step[s] = excess * state.inverse[k, s]
    for s in range(size):
        missing -= state.weights[s]
        solved_sum, ones_sum = solved_sum + state.step[s], ones_sum + state.ones[s]
    shift = (missing - solved_sum) / ones_sum
    for s in range(size):
        state.step[s] += shift * state.ones[s]


@inlined
def take_step(state: State) -> tuple[int, float]:
    """Move along the step as far as weights stay nonnegative.

    Returns:
        The blocking structure, or -1, and the fraction of the step.
    """
    length, blocking, moved = 1.0, -1, 0.0
    for s in range(state.counts[SIZE]):
        weight, step = state.weights[s], state.step[s]
        if weight + step <= _TINY and step < 0.0:
            ratio = -weight / step
            if blocking < 0 or ratio < length:
                length, blocking = ratio, s
    length = min(length, 1.0)
    for s in range(state.counts[SIZE]):
        moved += abs(state.step[s])
        state.weights[s] = max(state.weights[s] + length * state.step[s], 0.0)
    state.values[MOVED] += length * moved
    return blocking, length


@inner
def settle(state: State, k: int, excess: float) -> None:
    """Move to the optimum over the active set, dropping structures on the way.

    The lowered score of a structure is ``θ_s - ⟨m_s, u⟩``. If that of one structure ``k`` exceeds
    those of the others, which are equal, by ``excess``, this holds along the way: no product with
    ``H`` or its inverse is needed.
    """
    while True:
        find_step(state, k, excess)
        blocking, length = take_step(state)
        if blocking < 0:
            return
        remove(state, blocking)
        excess *= 1.0 - length
        if k == blocking:
            k = ALL
        elif k == state.counts[SIZE]:
            k = blocking


@inlined
def exchange(state: State, theta: float, share: float) -> int:
    """Add a dependent structure; return the structure that it replaces, or -1.

    The new structure has the unary parts of the combination ``solved`` of active ones. Moving
    weight between the two leaves the marginals as they are and changes the objective at a constant
    rate: towards the new structure if that is a gain, and else from it, until it or an active
    structure has no weight left.
    """
    size, length, leaving = state.counts[SIZE], 0.0, -1
    gain = theta - dot(state.solved, state.theta, size)
    sign = 1.0 if gain > state.values[ROUNDING] else -1.0
    for s in range(size):
        if sign * state.solved[s] > 1e-7:
            ratio = state.weights[s] / (sign * state.solved[s])
            if leaving < 0 or ratio < length:
                length, leaving = ratio, s
    if sign < 0.0 and (leaving < 0 or length >= share):
        length, leaving = share, -1
    for s in range(size):
        state.weights[s] = max(state.weights[s] - sign * length * state.solved[s], 0.0)
    if leaving >= 0:
        state.weights[leaving] = share + sign * length
    state.values[MOVED] += length
    return leaving


@inner
def insert(state: State, vertex: Array, theta: float, diagonal: float, share: float) -> int:
    """Add a structure with weight ``share``; return its index, or -1 if active ones absorb it."""
    left = independence(state, diagonal)
    if left > 0.0:
        append(state, vertex, theta, diagonal, left)
        state.weights[state.counts[SIZE] - 1] = share
        return int(state.counts[SIZE] - 1)
    leaving = exchange(state, theta, share)
    if leaving >= 0:
        replace(state, leaving, vertex, theta, diagonal)
    return leaving


@inner
def advance(state: State, vertex: Array, score: float, tol: float, max_iter: int) -> int:
    """Update the active set, which is not full, with the structure that the oracle returned.

    That is the best one for the scores minus the current marginals. The result is ``RUNNING``,
    ``CONVERGED``, at a gap of ``tol``, or ``EXHAUSTED``, after ``max_iter`` oracle calls or more
    idle ones than ``_PATIENCE``.
    """
    theta, diagonal = score - state.values[OFFSET], compare(state, vertex)
    state.counts[ITERATIONS] += 1
    # The Frank-Wolfe gap is the best lowered score minus the weighted average.
    size, average, spread = state.counts[SIZE], lowered_scores(state), 0.0
    for s in range(size):
        spread = max(spread, abs(state.residual[s] - average))
    gap = theta - dot(state.column, state.weights, size) - average
    state.values[MOVED], state.values[SPREAD] = 0.0, spread
    state.values[GAP] = max(gap, 0.0)
    if state.values[GAP] <= max(tol, state.values[ROUNDING]):
        return CONVERGED
    if state.counts[ITERATIONS] >= max_iter or state.counts[STALLS] >= _PATIENCE:
        return EXHAUSTED
    if state.values[SPREAD] > _LARGE_SPREAD * state.values[GAP] and state.counts[STALLS] == 0:
        settle(state, ALL, 0.0)
        state.counts[STALLS] = 1
        return RUNNING
    if state.values[DRIFT] > _EXACT:
        invert_again(state)
        diagonal = compare(state, vertex)
    place = insert(state, vertex, theta, diagonal, 0.0)
    if place < 0:
        invert_again(state)
    even = state.values[SPREAD] <= _SMALL_SPREAD * state.values[GAP]
    settle(state, place if even else ALL, state.values[GAP])
    stands_still = state.values[MOVED] <= _TINY
    state.counts[STALLS] = state.counts[STALLS] + 1 if stands_still else 0
    return RUNNING
