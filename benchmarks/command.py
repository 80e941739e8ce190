"""The command: choose rows, pass the gate, measure, print, write."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import torch

from benchmarks import gate, plot, tables
from benchmarks.linear_comparison import LINEAR, compare
from benchmarks.linear_loss import Setting
from benchmarks.machine import describe_machine
from benchmarks.measurement import Measurement, measure
from benchmarks.rows import SHAPES, Row, Shape, all_rows
from benchmarks.structures import CASES, Case, Solved, solve_case
from benchmarks.timing import clock_for, copy_bandwidth
from repro.atomic import atomic_write_text

_RESULTS = Path(__file__).parent / "results"
_CASE_SHARE = 6
"""Time for a case of SparseMAP and its loop, as a multiple of the seconds of a row."""


@dataclass(frozen=True)
class Plan:
    """Measurements to take.

    Attributes:
        rows: rows of the table.
        linear: setting of the fused linear loss; None leaves it out.
        cases: cases of SparseMAP; measured on the CPU only, with the largest number of threads.
        shapes: shapes of the scores.
        threads: numbers of threads; peers are measured with the largest only.
        device: device of the rows and of the linear loss.
        seconds: measuring time for each row at each shape.
        output: folder of the results; None writes nothing.
    """

    rows: list[Row]
    linear: Setting | None
    cases: list[Case]
    shapes: list[Shape]
    threads: list[int]
    device: torch.device
    seconds: float
    output: Path | None

    @property
    def kinds(self) -> set[str]:
        """Kinds of the planned rows, each of which has tests in :mod:`benchmarks.gate`."""
        more = {"linear": self.linear, "structure": self.cases}
        return {row.kind for row in self.rows} | {kind for kind, part in more.items() if part}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status, which is 1 if a test fails.

    Args:
        arguments: arguments of the command line.
    """
    plan = _plan(arguments)
    machine = describe_machine(plan.device)
    failed = gate.failure(plan.kinds)
    if failed:
        print(f"{failed}\n\nA test fails: nothing is timed.")
        return 1
    bandwidths, found = run(plan)
    solved = solve(plan)
    comparison = compare(plan.linear) if plan.linear else None
    page = tables.markdown(machine, found, solved, comparison, bandwidths)
    print(f"\n{page}")
    if plan.output:
        _write(plan.output / machine.folder, page, plan.rows, found, solved)
    return 0


def run(plan: Plan) -> tuple[dict[int, float], list[Measurement]]:
    """Measure every row; return copy bandwidths by number of threads, and the measurements."""
    clock, before = clock_for(plan.device), torch.get_num_threads()
    bandwidths, found = {}, []
    print(tables.progress(tables.COLUMNS))
    try:
        for threads in plan.threads:
            torch.set_num_threads(threads)
            bandwidths[threads] = copy_bandwidth(plan.device, clock)
            for row, shape in _cells(plan, threads):
                found.append(
                    measure(row, shape, plan.device, clock, bandwidths[threads], plan.seconds)
                )
                print(tables.progress(tables.cells(found[-1])), flush=True)
    finally:
        torch.set_num_threads(before)
    return bandwidths, found


def solve(plan: Plan) -> list[Solved]:
    """Measure the cases of SparseMAP."""
    before, solved = torch.get_num_threads(), []
    try:
        torch.set_num_threads(max(plan.threads))
        for case in plan.cases:
            solved.append(solve_case(case, _CASE_SHARE * plan.seconds))
            print(" ".join(tables.solved_cells(solved[-1])), flush=True)
    finally:
        torch.set_num_threads(before)
    return solved


def _cells(plan: Plan, threads: int) -> list[tuple[Row, Shape]]:
    rows = [row for row in plan.rows if row.kind != "peer" or threads == max(plan.threads)]
    return [(row, shape) for row in rows for shape in plan.shapes if row.takes(shape)]


def _write(
    folder: Path, page: str, rows: list[Row], found: list[Measurement], solved: list[Solved]
) -> None:
    if solved:
        tables.write_csv(folder / "structures.csv", solved)
    if found:
        tables.write_csv(folder / "measurements.csv", found)
        plot.draw(folder / "ratios.png", rows, found)
        page += "\n![Ratios](ratios.png)\n"
    atomic_write_text(folder / "table.md", page)
    print(f"written: {folder}")


def _plan(arguments: Sequence[str] | None) -> Plan:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: there is no CUDA device here")
    patterns = options.only or ["*"]
    rows = [row for row in all_rows() if any(fnmatch(row.name, p) for p in patterns)]
    linear = any(fnmatch(LINEAR, p) for p in patterns)
    on_cpu = options.device == "cpu"
    cases = [case for case in CASES if on_cpu and any(fnmatch(case.name, p) for p in patterns)]
    if not (rows or linear or cases):
        structures = dict.fromkeys(case.name for case in CASES)
        names = ", ".join([*(row.name for row in all_rows()), LINEAR, *structures])
        parser.error(f"--only {' '.join(patterns)} matches no row; rows: {names}")
    threads = options.threads if options.device == "cpu" else [torch.get_num_threads()]
    setting = Setting(threads=max(threads), device=options.device)
    return Plan(
        rows=rows,
        linear=setting if linear else None,
        cases=cases,
        shapes=options.shapes,
        threads=threads,
        device=torch.device(options.device),
        seconds=options.seconds,
        output=options.output or (None if options.only else _RESULTS),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=_count, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="rows by name, * allowed")
    parser.add_argument("--shapes", type=_shape, nargs="+", default=list(SHAPES), metavar="RxN")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row at each shape")
    parser.add_argument("--output", type=Path, help="folder of results; with --only none is made")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _shape(text: str) -> Shape:
    rows, _, size = text.partition("x")
    return Shape(_count(rows), _count(size))
