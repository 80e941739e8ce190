"""Time of SparseMAP, forward and backward, against a loop over examples with an oracle in Python.

The loop solves the same problems to the same gap with the same active set, one example after the
other: matchings by ``scipy.optimize.linear_sum_assignment``, sequences by Viterbi in numpy, trees
by the oracle of this library. The floor of a row is the time of its oracle calls alone.

    python -m benchmarks.structures --threads 2
"""

import argparse
import csv
import io
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from benchmarks.machine import describe_machine
from benchmarks.timing import cpu_seconds, paired
from repro.atomic import atomic_write_text
from repro.structures import Arborescence, Matching, Sequence, Structure, sparsemap

_COLUMNS = "| {:<14} | {:>9} | {:>9} | {:>9} | {:>7} | {:>9} | {:>10} | {:>10} | {:>8} |"


@dataclass(frozen=True)
class Case:
    """A problem: its structure, the shape of its scores, and whether there are transitions."""

    name: str
    structure: Structure
    shape: tuple[int, int]
    transitions: bool = False

    def scores(self, batch: int, dtype: torch.dtype) -> list[Tensor]:
        """Normal scores, the same in every run."""
        generator = torch.Generator().manual_seed(0)
        shapes: list[tuple[int, ...]] = [self.shape]
        if self.transitions:
            shapes.append((self.shape[0] - 1, self.shape[1], self.shape[1]))
        drawn = [torch.randn(batch, *s, generator=generator, dtype=dtype) for s in shapes]
        return [scores.requires_grad_() for scores in drawn]


CASES = (
    Case("seq 20x20", Sequence(), (20, 20), True),
    Case("seq 50x50", Sequence(), (50, 50), True),
    Case("matching 20x20", Matching(), (20, 20)),
    Case("matching 30x30", Matching(), (30, 30)),
    Case("tree n=20", Arborescence(), (21, 21)),
    Case("tree n=40", Arborescence(), (41, 41)),
)


@dataclass(frozen=True)
class Timed:
    """A row of the table; times in milliseconds for each instance."""

    problem: str
    milliseconds: float
    fastest: float
    loop: float
    ratio: float
    floor: float
    iterations: float
    structures: float
    gap: float


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


def main() -> None:
    """Print a table, and write it as Markdown and CSV where a folder is named."""
    options = _options()
    torch.set_num_threads(options.threads)
    dtype = torch.float64 if options.double else torch.float32
    chosen = [case for case in CASES if options.only in case.name]
    lines = list(_heading(options))
    rows = []
    print("\n".join(lines), flush=True)
    for case in chosen:
        rows.append(time_case(case, options.batch, dtype, options.seconds))
        lines.append(_line(rows[-1]))
        print(lines[-1], flush=True)
    if options.folder:
        _write(Path(options.folder), lines, rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--double", action="store_true", help="double precision, gap 1e-10")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each problem")
    parser.add_argument("--only", default="", help="problems with this in their name")
    parser.add_argument("--folder", default="", help="where to write structures.md and .csv")
    return parser.parse_args()


def time_case(case: Case, batch: int, dtype: torch.dtype, seconds: float) -> Timed:
    """Time a case and the loop in turn; the loop takes a few of the instances."""
    scores, few = case.scores(batch, dtype), case.scores(min(batch, 2), dtype)
    solution = sparsemap(case.structure, *scores)
    measured = _pass(lambda: sparsemap(case.structure, *scores).marginals, scores)
    oracle = LoopOracle(case)
    flat = [s.detach().flatten(1).requires_grad_() for s in few]
    loop = _pass(lambda: sparsemap(oracle, *flat).marginals, flat)
    timing = paired(measured, loop, cpu_seconds, seconds)
    calls = [cpu_seconds(lambda: case.structure.map(*scores)) for _ in range(20)]
    iterations = float(solution.iterations.double().mean())
    return Timed(
        problem=case.name,
        milliseconds=1000 * median(timing.measured) / batch,
        fastest=1000 * min(timing.measured) / batch,
        loop=1000 * median(timing.baseline) / len(few[0]),
        ratio=batch / len(few[0]) / timing.ratio,
        floor=1000 * min(calls) / batch * (iterations + 1),
        iterations=iterations,
        structures=float(solution.counts.double().mean()),
        gap=float(solution.gap.max()),
    )


def _pass(forward: Callable[[], Tensor], inputs: list[Tensor]) -> Callable[[], None]:
    """Forward and backward with a fixed direction."""
    direction = torch.randn(forward().shape, generator=torch.Generator().manual_seed(1))

    def run() -> None:
        marginals = forward()
        torch.autograd.grad(marginals, inputs, direction.to(marginals.dtype))

    return run


def _heading(options: argparse.Namespace) -> Iterable[str]:
    machine = describe_machine(torch.device("cpu"))
    yield f"# SparseMAP, {machine.day}\n"
    yield f"- device: {machine.device}, {machine.processors} processors, {options.threads} used"
    yield f"- versions: {machine.versions}"
    yield f"- commit: {machine.commit}"
    precision = "double" if options.double else "single"
    yield f"- batch {options.batch}, scores from N(0, 1), {precision} precision"
    yield f"- load average at the start: {machine.load:.2f}"
    if machine.busy:
        yield "- **warning: the machine was busy; times are too long and ratios noisy**"
    yield "\nMilliseconds for each instance, forward and backward, medians of rounds in turn.\n"
    yield _COLUMNS.format(
        "problem", "median", "fastest", "loop", "ratio", "floor", "iterations", "structures", "gap"
    )
    yield "|---" + "|---:" * 8 + "|"


def _line(row: Timed) -> str:
    return _COLUMNS.format(
        row.problem, f"{row.milliseconds:.3f}", f"{row.fastest:.3f}", f"{row.loop:.1f}",
        f"{row.ratio:.0f}", f"{row.floor:.3f}", f"{row.iterations:.1f}", f"{row.structures:.1f}",
        f"{row.gap:.0e}",
    )  # fmt: skip


def _write(folder: Path, lines: list[str], rows: list[Timed]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write_text(folder / "structures.md", "\n".join(lines) + "\n")
    atomic_write_text(folder / "structures.csv", _csv(rows))


def _csv(rows: list[Timed]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(Timed.__dataclass_fields__))
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return out.getvalue()


if __name__ == "__main__":
    main()
