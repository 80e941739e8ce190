"""Conditional gradient for one instance of SparseMAP (Niculae et al. 2018, Algorithm 1).

The iterate is a mixture of structures with its marginals. Every structure is a vector of values of
slots, so that inner products with marginals are sums over slots.
"""

from collections import namedtuple

import numpy as np

from repro.structures.kernels._compile import Array, allocating, inner, on_disk
from repro.structures.kernels.codes import INFEASIBLE, INVALID
from repro.structures.kernels.gram import shared_parts
from repro.structures.kernels.oracle import best_vertex, extent, load, position, score_of, scratch

VANILLA, AWAY, PAIRWISE = range(3)

Mixture = namedtuple("Mixture", ("vertices", "theta", "weights", "marginals", "totals"))
"""Structures ``vertices``, their scores ``theta`` and ``weights``; ``marginals`` of the values of
slots, ``(n, m)``; and ``totals``, indexed by ``SIZE``, ``SCORE`` and ``NORM``."""

SIZE, SCORE, NORM = range(3)
"""Positions in ``totals``: number of structures, score of the mixture, ``‖u‖²``."""


@inner
def overlap(marginals: Array, vertex: Array) -> float:
    """Compute ``⟨u, m⟩`` of marginals and a structure."""
    total = 0.0
    for i in range(vertex.shape[0]):
        total += marginals[i, vertex[i]]
    return total


@inner
def find(mixture: Mixture, vertex: Array) -> int:
    """Return the index of a structure in the mixture, or the size of the mixture if not found."""
    size, slots = int(mixture.totals[SIZE]), vertex.shape[0]
    for s in range(size):
        if shared_parts(mixture.vertices[s], vertex, slots) == slots:
            return s
    return size


@inner
def worst(mixture: Mixture) -> tuple[int, float]:
    """Find the structure of the mixture with the lowest linearised score; return both."""
    chosen, lowest = 0, float("inf")
    for s in range(int(mixture.totals[SIZE])):
        linear = mixture.theta[s] - overlap(mixture.marginals, mixture.vertices[s])
        if linear < lowest:
            chosen, lowest = s, linear
    return chosen, lowest


@allocating
def move(mixture: Mixture, s: int, theta: float, vertex: Array, amount: float) -> None:
    """Add a possibly negative weight to structure ``s``, which is appended if it is new."""
    if s == mixture.totals[SIZE]:
        mixture.vertices[s] = vertex
        mixture.theta[s] = theta
        mixture.weights[s] = 0.0
        mixture.totals[SIZE] += 1
    mixture.weights[s] += amount
    mixture.totals[SCORE] += amount * theta
    for i in range(vertex.shape[0]):
        mixture.marginals[i, vertex[i]] += amount


@allocating
def scale(mixture: Mixture, factor: float) -> None:
    """Multiply all weights, and with them the marginals and the score, by a factor."""
    mixture.weights[: int(mixture.totals[SIZE])] *= factor
    mixture.marginals[:] *= factor
    mixture.totals[SCORE] *= factor


@inner
def line_search(gain: float, curvature: float, largest: float) -> float:
    """Return the optimal step, at most ``largest`` (Eq. 8)."""
    return largest if gain >= largest * curvature else gain / curvature


@allocating
def step_forward(mixture: Mixture, vertex: Array, theta: float, gain: float) -> None:
    """Move weight from all structures of the mixture to one."""
    slots = vertex.shape[0]
    curvature = slots - 2.0 * overlap(mixture.marginals, vertex) + mixture.totals[NORM]
    step = line_search(gain, curvature, 1.0)
    if step == 1.0:
        mixture.totals[SIZE] = 0
    s = find(mixture, vertex)
    scale(mixture, 1.0 - step)
    move(mixture, s, theta, vertex, step)


@allocating
def step(mixture: Mixture, vertex: Array, theta: float, gain: float, variant: int) -> None:
    """Take one step of a variant, given the best structure, its score and its gap."""
    if variant == VANILLA:
        step_forward(mixture, vertex, theta, gain)
        return
    average = mixture.totals[SCORE] - mixture.totals[NORM]
    w, lowest = worst(mixture)
    leaving, slots, largest = mixture.vertices[w], vertex.shape[0], mixture.weights[w]
    if variant == PAIRWISE:
        # Move weight from one structure of the mixture to another one.
        curvature = 2.0 * (slots - shared_parts(leaving, vertex, slots))
        length = line_search(gain + average - lowest, curvature, largest)
        move(mixture, find(mixture, vertex), theta, vertex, length)
    elif mixture.totals[SIZE] == 1 or gain >= average - lowest:
        step_forward(mixture, vertex, theta, gain)
        return
    else:
        # Move away from a structure of the mixture.
        curvature = slots - 2.0 * overlap(mixture.marginals, leaving) + mixture.totals[NORM]
        largest /= 1.0 - largest
        length = line_search(average - lowest, curvature, largest)
        scale(mixture, 1.0 + length)
    move(mixture, w, mixture.theta[w], mixture.vertices[w], -length)
    if length == largest:
        # Remove the structure, whose weight is now zero: the last one replaces it.
        last = int(mixture.totals[SIZE]) - 1
        mixture.vertices[w], mixture.theta[w] = mixture.vertices[last], mixture.theta[last]
        mixture.weights[w], mixture.totals[SIZE] = mixture.weights[last], last


@inner
def squared_norm(marginals: Array) -> float:
    """Compute ``‖u‖²``."""
    total = 0.0
    for i in range(marginals.shape[0]):
        for a in range(marginals.shape[1]):
            total += marginals[i, a] * marginals[i, a]
    return total


@on_disk
def run(
    code: int, scores: Array, transitions: Array, variant: int, tol: float, history: Array,
    marginals: Array,
) -> int:  # fmt: skip
    """Solve one instance by a variant of conditional gradient.

    Args:
        code: family of structures.
        scores: ``(R, C)`` unary scores in double precision.
        transitions: ``(n - 1, m, m)``, or of length zero.
        variant: ``VANILLA``, ``AWAY`` or ``PAIRWISE``.
        tol: gap at which to stop.
        history: output ``(rounds, 3)``: objective, gap and number of structures of each iterate.
        marginals: output ``(R, C)``, initially zero.

    Returns:
        The number of iterates, or the negated status ``INFEASIBLE`` or ``INVALID``.
    """
    n, m, flipped = extent(code, np.array(scores.shape))
    slots, vertex, space = np.empty((n, m)), np.empty(n, np.int32), scratch(code, n, m)
    if not load(code, scores, flipped, slots):
        return -INVALID
    if not best_vertex(code, slots, transitions, space, vertex):
        return -INFEASIBLE
    # Add to the objective the largest score of every slot, which `load` subtracted.
    offset = 0.0
    for i in range(n):
        largest = -float("inf")
        for a in range(m):
            row, column = position(code, flipped, i, a)
            if slots[i, a] > -float("inf"):
                largest = max(largest, scores[row, column])
        offset += largest
    rounds, reduced = history.shape[0], np.empty_like(slots)
    room = rounds + 2
    mixture = Mixture(
        np.empty((room, n), np.int32), np.empty(room), np.empty(room), np.zeros((n, m)), np.zeros(3)
    )
    move(mixture, 0, score_of(slots, transitions, vertex)[0], vertex, 1.0)
    for k in range(rounds):
        reduced[:] = slots - mixture.marginals
        best_vertex(code, reduced, transitions, space, vertex)
        mixture.totals[NORM] = squared_norm(mixture.marginals)
        best = score_of(reduced, transitions, vertex)[0]
        gain = best - mixture.totals[SCORE] + mixture.totals[NORM]
        history[k, 0] = offset + mixture.totals[SCORE] - mixture.totals[NORM] / 2.0
        history[k, 1], history[k, 2] = gain, mixture.totals[SIZE]
        if gain <= tol or k + 1 == rounds:
            rounds = k + 1
            break
        step(mixture, vertex, score_of(slots, transitions, vertex)[0], gain, variant)
    for i in range(n):
        for a in range(m):
            row, column = position(code, flipped, i, a)
            marginals[row, column] = mixture.marginals[i, a]
    return rounds
