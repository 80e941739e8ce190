"""SparseMAP, forward and backward, compared with a loop over examples with an oracle in Python.

The loop solves the same problems to the same gap with the same active-set method, one example at a
time: matchings by ``scipy.optimize.linear_sum_assignment``, sequences by Viterbi in numpy, trees by
the oracle of this library. No peer with compiled oracles can be installed today.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from benchmarks.targets import Target, target_for
from benchmarks.timing import cpu_seconds, paired, processor_seconds
from repro.structures import Arborescence, LinearChain, Matching, Structure, sparsemap

BATCH = 32
_LOOP_BATCH = 2
"""Batch size of the loop, which is slow."""


@dataclass(frozen=True)
class Case:
    """Problem: its structure, the shape of its scores, and whether there are transitions.

    Attributes:
        name: key in tables and for ``--only``.
        size: shape in tables: number of words of a tree, else both dimensions.
    """

    name: str
    structure: Structure
    size: str
    shape: tuple[int, int]
    transitions: bool = False

    def scores(self, batch: int) -> list[Tensor]:
        """Draw float32 scores from N(0, 1), equal in every call."""
        generator = torch.Generator().manual_seed(0)
        shapes: list[tuple[int, ...]] = [self.shape]
        if self.transitions:
            shapes.append((self.shape[0] - 1, self.shape[1], self.shape[1]))
        drawn = [torch.randn(batch, *s, generator=generator) for s in shapes]
        return [scores.requires_grad_() for scores in drawn]


CASES = (
    Case("sparsemap_sequence", LinearChain(), "20x20", (20, 20), transitions=True),
    Case("sparsemap_sequence", LinearChain(), "50x50", (50, 50), transitions=True),
    Case("sparsemap_matching", Matching(), "20x20", (20, 20)),
    Case("sparsemap_matching", Matching(), "30x30", (30, 30)),
    Case("sparsemap_tree", Arborescence(), "20", (21, 21)),
    Case("sparsemap_tree", Arborescence(), "40", (41, 41)),
)


@dataclass(frozen=True)
class Solved:
    """Row of the table; times are milliseconds per example.

    Attributes:
        name: name of the case.
        shape: shape of the case.
        threads: number of threads of torch.
        milliseconds: median time.
        fastest: least time.
        processor: least CPU time of all threads together.
        loop: median time of the loop.
        ratio: median over rounds of the time of the loop divided by that of the batch.
        iterations: mean number of oracle calls.
        structures: mean number of selected structures.
        gap: largest duality gap.
        target: target for the milliseconds, or None.
    """

    name: str
    shape: str
    threads: int
    milliseconds: float
    fastest: float
    processor: float
    loop: float
    ratio: float
    iterations: float
    structures: float
    gap: float
    target: Target | None

    @property
    def met(self) -> bool | None:
        """Return whether the median time meets the target; None without a target."""
        return None if self.target is None else self.target.met(self.milliseconds)


class LoopOracle:
    """Oracle of a case for one example, in numpy and SciPy where possible."""

    def __init__(self, case: Case) -> None:
        self.case = case
        n, m = case.shape
        self.unary_parts = n * m
        self.additional_parts = (n - 1) * m * m if case.transitions else 0

    def map(self, scores: Tensor) -> Tensor:
        """Return the structure with the highest score as a 0/1 vector."""
        n, m = self.case.shape
        unary = scores[: n * m].view(n, m)
        found = torch.zeros_like(scores)
        if self.case.transitions:
            between = scores[n * m :].view(n - 1, m, m)
            tags = _viterbi(unary.numpy(), between.numpy())
            found[: n * m].view(n, m)[np.arange(n), tags] = 1
            found[n * m :].view(n - 1, m, m)[np.arange(n - 1), tags[:-1], tags[1:]] = 1
        elif isinstance(self.case.structure, Matching):
            found.view(n, m)[linear_sum_assignment(unary.numpy(), maximize=True)] = 1
        else:
            vertex = self.case.structure.map(unary.unsqueeze(0))
            found.copy_(self.case.structure.indicator(vertex, unary.unsqueeze(0)).flatten())
        return found


def _viterbi(unary: np.ndarray, between: np.ndarray) -> np.ndarray:
    best, before = unary[0], []
    for i in range(1, len(unary)):
        paths = best[:, None] + between[i - 1]
        before.append(paths.argmax(0))
        best = paths.max(0) + unary[i]
    tags = [int(best.argmax())]
    for pointers in reversed(before):
        tags.append(int(pointers[tags[-1]]))
    return np.array(tags[::-1])


def solve_case(case: Case, seconds: float) -> Solved:
    """Time a case and the loop in turn, with the current number of threads.

    Args:
        case: what to solve.
        seconds: time limit, see :func:`benchmarks.timing.paired`.
    """
    scores, few = case.scores(BATCH), case.scores(_LOOP_BATCH)
    solution = sparsemap(case.structure, *scores)
    measured = _pass(lambda: sparsemap(case.structure, *scores).marginals, scores)
    oracle = LoopOracle(case)
    flat = [s.detach().flatten(1).requires_grad_() for s in few]
    loop = _pass(lambda: sparsemap(oracle, *flat).marginals, flat)
    timing = paired(measured, loop, cpu_seconds, seconds)
    threads, middle = torch.get_num_threads(), 1000 * median(timing.measured) / BATCH
    return Solved(
        name=case.name,
        shape=case.size,
        threads=threads,
        milliseconds=middle,
        fastest=1000 * min(timing.measured) / BATCH,
        processor=1000 * min(processor_seconds(measured) for _ in range(5)) / BATCH,
        loop=1000 * median(timing.baseline) / _LOOP_BATCH,
        ratio=BATCH / _LOOP_BATCH / timing.ratio,
        iterations=float(solution.iterations.double().mean()),
        structures=float(solution.counts.double().mean()),
        gap=float(solution.gap.max()),
        target=target_for("cpu", threads, case.name, case.size),
    )


def _pass(forward: Callable[[], Tensor], inputs: list[Tensor]) -> Callable[[], None]:
    """Return a forward and backward pass with a fixed incoming gradient."""
    direction = torch.randn(forward().shape, generator=torch.Generator().manual_seed(1))

    def run() -> None:
        marginals = forward()
        torch.autograd.grad(marginals, inputs, direction.to(marginals.dtype))

    return run
