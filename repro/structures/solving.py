"""Solvers of checked problems on the CPU: batches, threads, and errors (:func:`refuse`)."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from repro.structures.arc_flow import POSITIVE, flows, paths, trellis
from repro.structures.kernels import batch as kernels
from repro.structures.kernels import entries
from repro.structures.kernels.batch import Found, Report
from repro.structures.kernels.codes import (
    CONVERGED,
    INFEASIBLE,
    INVALID,
    ROUNDING_UNIT,
    RUNNING,
    SEQUENCE,
    Array,
)
from repro.structures.kernels.gram import GAP, ITERATIONS, SIZE, State
from repro.structures.problem import InfeasibleError, Problem, Scores, Selection, starts

T = TypeVar("T")
_GRAIN = 20_000
"""Multiplications of an oracle, summed over the batch, that justify one more thread."""
_EXTRA_CALLS = 1000
"""A chain with ``p`` unary parts gets ``2 p`` plus this many oracle calls before the flow solver is
used. Almost all chains need fewer, and the flow solver takes as long as about a thousand."""
_FEWEST_CALLS = 500
"""The flow solver is used only if the caller allows at least this many oracle calls: a lower limit
asks for a rough solution."""


def _nothing(width: int) -> Found:
    """Return an empty mixture."""
    return Found(np.empty((0, width), np.int32), np.empty(0), np.empty(0))


def solve(problem: Problem, tol: float, max_iter: int, start: Selection | None) -> Selection:
    """Solve a batch with a compiled oracle.

    Chains with transitions first get ``2 n m + _EXTRA_CALLS`` oracle calls, but at most half of
    those allowed. Instances that remain unsolved continue from the mixture found by
    :mod:`repro.structures.arc_flow`.
    """
    batch = problem.unary.size(0)
    offsets, known = np.zeros(batch + 1, np.int64), _nothing(problem.width)
    if start is not None:
        other = start.problem
        same = isinstance(other, Problem) and other.code == problem.code
        if not same or other.unary.shape != problem.unary.shape:
            raise ValueError("the start is a solution of another structure or shape")
        offsets, known = start.offsets, Found(start.vertices, start.weights, np.empty(0))
    most = np.full(batch, max_iter)
    if problem.code == SEQUENCE and problem.additional.numel() and max_iter >= _FEWEST_CALLS:
        most = np.minimum(max_iter // 2, 2 * problem.sizes.prod(1).numpy() + _EXTRA_CALLS)
    found = _solve_from(problem, tol, most, offsets, known)
    stuck = np.flatnonzero(~found.converged & (found.iterations < max_iter) & (most < max_iter))
    if not len(stuck):
        return found
    # Near-optimal flows, decomposed into sequences and weights to start from. Each instance is
    # solved alone, so that results do not depend on the batch.
    harder = problem.subset(stuck)
    pieces, shares = [], []
    for b, (n, m) in enumerate(harder.sizes.tolist()):
        one = harder.subset(np.array([b]))
        flow = flows(trellis(one.unary[:, :n, :m], one.additional[:, : n - 1, :m, :m]))
        # An optimal flow uses about ``n m`` arcs. One that did not converge may use all of them;
        # its heaviest paths then suffice to start from.
        arcs = min(int((flow > POSITIVE).sum()), 4 * n * m)
        tags, weights = paths(flow, 1 + arcs)
        used = weights[0] > 0
        stored = np.full((int(used.sum()), harder.width), -1, np.int32)
        stored[:, :n] = tags[0, used].numpy()
        pieces.append(stored)
        shares.append(weights[0, used].numpy())
    offsets = starts(np.array([len(piece) for piece in pieces]))
    known = Found(np.concatenate(pieces), np.concatenate(shares), np.empty(0))
    better = _solve_from(harder, tol, max_iter - found.iterations[stuck], offsets, known)
    better.iterations[:] += found.iterations[stuck]
    return found.replaced(stuck, better)


def _solve_from(
    problem: Problem, tol: float, max_iter: Array, offsets: Array, known: Found
) -> Selection:
    """Solve a batch from known structures, with a limit of oracle calls for each instance."""
    report, batch = _empty_report(len(problem.unary)), problem.batch

    def solve_range(first: int, last: int) -> tuple[Found, int, int]:
        found: tuple[Found, int, int] = kernels.solve_range(
            batch, float(tol), max_iter, offsets, known, report, first, last
        )
        return found

    pieces = in_threads(solve_range, problem)
    refuse(report.statuses)
    return _joined(problem, pieces, report)


Oracle = Callable[[Array, Array], Array]
"""From scores ``(b, parts)`` of some rows of a batch to structures, 0 where chosen and else -1."""


def best_of_oracle(oracle: Oracle, problem: Scores) -> tuple[Array, Array]:
    """Find the highest-scoring structures ``(B, parts)`` and their scores ``(B,)``."""
    scores = problem.flat
    refuse(np.where((scores < np.inf).all(1), CONVERGED, INVALID))
    vertices = oracle(scores, np.arange(len(scores)))
    values = np.where(vertices == 0, scores, 0.0).sum(1)
    refuse(np.where(values > -np.inf, CONVERGED, INFEASIBLE))
    return vertices, values


def solve_with_oracle(oracle: Oracle, problem: Scores, tol: float, max_iter: int) -> Selection:
    """Solve a batch with an oracle in PyTorch, called for all unsolved instances at once."""
    scores, parts = problem.flat, problem.unary_parts
    vertices, values = best_of_oracle(oracle, problem)
    totals = np.where(vertices == 0, np.abs(scores), 0.0).sum(1)
    states: list[State] = []
    for vertex, value, total in zip(vertices, values, totals, strict=True):
        states.append(entries.empty_state(kernels.CAPACITY, scores.shape[1], parts))
        entries.begin(states[-1], vertex, float(value), ROUNDING_UNIT * (total + parts))
    report = _empty_report(len(scores))
    report.statuses[:] = RUNNING
    while len(running := np.flatnonzero(report.statuses == RUNNING)):
        lowered = scores[running]
        for row, b in enumerate(running.tolist()):
            state, used = states[b], states[b].counts[SIZE]
            lowered[row, :parts] -= state.weights[:used] @ (state.vertices[:used, :parts] == 0)
        vertices = oracle(lowered, running)
        values = np.where(vertices == 0, scores[running], 0.0).sum(1)
        for row, b in enumerate(running.tolist()):
            report.statuses[b], states[b] = entries.advance(
                states[b], vertices[row], float(values[row]), tol, max_iter
            )
    pieces = [(_nothing(scores.shape[1]), 0, 0)]
    for b in range(len(states)):
        state, size = states[b], int(states[b].counts[SIZE])
        report.counts[b] = size
        report.iterations[b], report.gaps[b] = state.counts[ITERATIONS], state.values[GAP]
        inverse = state.inverse[:size, :size].reshape(-1)
        pieces.append((Found(state.vertices, state.weights, inverse), size, size * size))
    return _joined(problem, pieces, report)


def best_vertices(problem: Problem) -> Tensor:
    """Find the highest-scoring structures, as the kernels store them, ``(B, width)``."""
    batch = problem.batch
    vertices = np.full((len(batch.unary), problem.width), -1, np.int32)
    statuses = np.full(len(batch.unary), CONVERGED)

    def map_range(first: int, last: int) -> None:
        kernels.map_range(batch, vertices, statuses, first, last)

    in_threads(map_range, problem)
    refuse(statuses)
    return torch.from_numpy(vertices)


def _empty_report(batch: int) -> Report:
    """Return a report to be filled in by the kernels; all instances count as converged."""
    counts, iterations = np.zeros(batch, np.int64), np.zeros(batch, np.int64)
    return Report(counts, iterations, np.zeros(batch), np.full(batch, CONVERGED))


def _joined(
    problem: Problem | Scores, pieces: list[tuple[Found, int, int]], report: Report
) -> Selection:
    """Concatenate the solutions of consecutive ranges of instances."""
    return Selection(
        problem=problem,
        vertices=np.concatenate([found.vertices[:used] for found, used, _ in pieces]),
        weights=np.concatenate([found.weights[:used] for found, used, _ in pieces]),
        inverses=np.concatenate([found.inverses[:size] for found, _, size in pieces]),
        counts=report.counts,
        iterations=report.iterations,
        gaps=report.gaps,
        converged=report.statuses == CONVERGED,
    )


def refuse(statuses: Array) -> None:
    """Raise the error of the first invalid, else of the first infeasible instance, if any."""
    for status, kind, reason in (
        (INVALID, ValueError, "a score is NaN or +inf"),
        (INFEASIBLE, InfeasibleError, "no structure is allowed: too many scores are -inf"),
    ):
        wrong = np.flatnonzero(statuses == status)
        if len(wrong):
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            raise kind(f"instance {wrong[0]}{more}: {reason}")


def in_threads(work: Callable[[int, int], T], problem: Problem) -> list[T]:
    """Split a batch evenly among threads; return the results in the order of the instances."""
    batch, cost = problem.unary.size(0), problem.unary.numel() * problem.unary.size(-1)
    threads = max(1, min(torch.get_num_threads(), os.cpu_count() or 1, batch, cost // _GRAIN))
    if threads == 1:
        return [work(0, batch)]  # starting a pool costs as much as a small instance
    ends = [k * batch // threads for k in range(1, threads + 1)]
    with ThreadPoolExecutor(threads - 1) as helpers:
        others = helpers.map(work, ends[:-1], ends[1:])
        return [work(0, ends[0]), *others]
