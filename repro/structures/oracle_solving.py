"""SparseMAP with an oracle in Python: the same active set, one instance after the other."""

import numpy as np
import torch

from repro.structures.any_oracle import OracleStructure
from repro.structures.kernels import entries
from repro.structures.kernels.batch import Found
from repro.structures.kernels.codes import INFEASIBLE, INVALID, RUNNING, Array
from repro.structures.kernels.gram import GAP, ROUNDS, SIZE, State
from repro.structures.selection import Selection
from repro.structures.solving import empty_report, joined, no_structures, refuse
from repro.structures.structure import Problem

_ROOM = 32
_UNIT = 2.0**-50


def solve_with_oracle(
    structure: OracleStructure, problem: Problem, tol: float, rounds: int
) -> Selection:
    """Solve a batch.

    Raises:
        ValueError: scores are NaN or +inf, or the oracle's answer is no 0/1 vector.
        InfeasibleError: the oracle's best structure has a forbidden part.
    """
    batch = problem.unary.size(0)
    scores = problem.all_scores.numpy()
    report = empty_report(batch)
    pieces = [(no_structures(batch, problem.width)[1], 0, 0)]
    marginals = torch.zeros_like(problem.unary)
    for b in range(batch):
        status, state = _solve_instance(structure, scores[b], problem, tol, rounds)
        size = state.counts[SIZE]
        report.statuses[b], report.counts[b] = status, size
        report.rounds[b], report.gaps[b] = state.counts[ROUNDS], state.values[GAP]
        chosen = state.vertices[:size, : problem.unary.size(1)] == 0
        marginals[b, :, 0] = torch.from_numpy(state.weights[:size] @ chosen)
        inverse = state.inverse[:size, :size].reshape(-1)
        pieces.append((Found(state.vertices, state.weights, inverse), size, size * size))
    refuse(report.statuses)
    return joined(problem, marginals, pieces, report)


def _solve_instance(
    structure: OracleStructure, scores: Array, problem: Problem, tol: float, rounds: int
) -> tuple[int, State]:
    unary = problem.unary.size(1)
    state: State = entries.empty_state(_ROOM, problem.width, unary)
    if not np.all(scores < np.inf):
        return INVALID, state
    vertex = structure.best(scores)
    score = _score(scores, vertex)
    if score == -np.inf:
        return INFEASIBLE, state
    entries.begin(state, vertex, score, _UNIT * (_size(scores, vertex) + unary))
    status = RUNNING
    while status == RUNNING:
        size, lowered = state.counts[SIZE], scores.copy()
        lowered[:unary] -= state.weights[:size] @ (state.vertices[:size, :unary] == 0)
        vertex = structure.best(lowered)
        state = entries.with_room(state)
        status = entries.advance(state, vertex, _score(scores, vertex), tol, rounds)
    return status, state


def _score(scores: Array, vertex: Array) -> float:
    return float(scores[vertex == 0].sum())


def _size(scores: Array, vertex: Array) -> float:
    return float(np.abs(scores[vertex == 0]).sum())
