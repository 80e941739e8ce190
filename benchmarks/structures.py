"""SparseMAP, forward and backward, beside a loop over examples with an oracle in Python.

The loop solves the same problems to the same gap with the same active set, one example after the
other: matchings by ``scipy.optimize.linear_sum_assignment``, sequences by Viterbi in numpy, trees
by the oracle of this library. No peer with compiled oracles installs today.
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
_IN_THE_LOOP = 2
"""Examples of the batch that the loop takes, which is slow."""


@dataclass(frozen=True)
class Case:
    """A problem: its structure, the shape of its scores, and whether there are transitions.

    Attributes:
        name: key in tables and for ``--only``.
        size: what tables call the shape: words of trees, and both sides of others.
    """

    name: str
    structure: Structure
    size: str
    shape: tuple[int, int]
    transitions: bool = False

    def scores(self, batch: int) -> list[Tensor]:
        """Scores from N(0, 1), in single precision; the same in every call."""
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
    """A row of the table; times in milliseconds for each instance.

    Attributes:
        name: name of the case.
        shape: shape of the case.
        threads: number of threads of torch.
        milliseconds: median.
        fastest: the least.
        processor: processor time of all threads together, the least.
        loop: median of the loop.
        ratio: how many times as long the loop takes, median over rounds.
        iterations: oracle calls, mean over the batch.
        structures: selected ones, mean over the batch.
        gap: the largest.
        target: target for the milliseconds, if there is one.
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
        """Return whether the median keeps the target; None without one."""
        return None if self.target is None else self.target.met(self.milliseconds)


class LoopOracle:
    """The oracle of a case as users of another library would write it."""

    def __init__(self, case: Case) -> None:
        self.case = case
        n, m = case.shape
        self.unary_parts = n * m
        self.additional_parts = (n - 1) * m * m if case.transitions else 0

    def map(self, scores: Tensor) -> Tensor:
        """The best structure as a 0/1 vector."""
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
    """Time a case and the loop in turn, with the present number of threads.

    Args:
        case: what to solve.
        seconds: how long, see :func:`benchmarks.timing.paired`.
    """
    scores, few = case.scores(BATCH), case.scores(_IN_THE_LOOP)
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
        loop=1000 * median(timing.baseline) / _IN_THE_LOOP,
        ratio=BATCH / _IN_THE_LOOP / timing.ratio,
        iterations=float(solution.iterations.double().mean()),
        structures=float(solution.counts.double().mean()),
        gap=float(solution.gap.max()),
        target=target_for("cpu", threads, case.name, case.size),
    )


def _pass(forward: Callable[[], Tensor], inputs: list[Tensor]) -> Callable[[], None]:
    """Forward and backward with a fixed direction."""
    direction = torch.randn(forward().shape, generator=torch.Generator().manual_seed(1))

    def run() -> None:
        marginals = forward()
        torch.autograd.grad(marginals, inputs, direction.to(marginals.dtype))

    return run
