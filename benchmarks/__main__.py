"""Time the rows after their tests; print and write a table and a plot: ``python -m benchmarks``."""

import argparse
import csv
import itertools
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from benchmarks.machine import bytes_per_second, describe_machine
from benchmarks.rows import Row, Shape, all_rows, target_for
from benchmarks.timing import bandwidth, clock_for, paired, submission_seconds
from repro.atomic import atomic_path, atomic_write_text
from repro.mappings.kernels import dispatch

ROOT = Path(__file__).resolve().parents[1]
_RESULTS = ROOT / "benchmarks" / "results"
_MAPPINGS = ("tests/laws", "tests/mappings/test_values.py", "tests/mappings/kernels")
TESTS: dict[str, tuple[str, ...]] = {
    "mapping": _MAPPINGS,
    "peer": _MAPPINGS,
    "loss": ("tests/losses/test_fenchel_young.py", "tests/losses/test_linear.py"),
    "structure": ("tests/structures/test_oracles.py", "tests/structures/test_sparsemap.py"),
}
"""Tests of each kind of row, which must pass before anything is timed."""
UNMEASURED = 3
"""Status if rows could not be measured."""
_FLUSHES = 20
"""Flushes before a forward pass on a CUDA device: some 2 ms, in which the host submits it."""
_HEADER = """\
| row | shape | threads | median ms | ratio | target | met |{}
|:---|:---|---:|---:|---:|---:|---:|{}"""
_ON_CUDA = " forward, GB/s | of the limit | host, times the baseline |", "---:|---:|---:|"
"""Further columns on CUDA devices."""


class Line(NamedTuple):
    """Line of the table: medians of milliseconds, and of the ratios of single rounds.

    Only on CUDA devices: ``forward`` is the best of five forward passes without the host's time,
    ``host`` the time in which the host submits one, ``host_baseline`` that of the baseline,
    and ``peak`` the bytes per second of the device's memory.
    """

    row: str
    shape: str
    threads: int
    milliseconds: float
    baseline: float
    ratio: float
    rounds: int
    target: float | None
    forward: float | None = None
    host: float | None = None
    host_baseline: float | None = None
    peak: float | None = None

    def __str__(self) -> str:
        met = "" if self.target is None else "yes" if self.ratio <= self.target else "no"
        limit = "" if self.target is None else f"≤ {self.target:g}"
        cells = self.row, self.shape, self.threads, f"{self.milliseconds:.3g}", f"{self.ratio:.2f}"
        more: tuple[str, ...] = ()
        if self.forward and self.host and self.host_baseline:
            moved = bandwidth(self.row, self.shape, self.forward / 1000, self.peak)
            more = (*moved, f"{self.host / self.host_baseline:.1f}")
        return f"| {' | '.join(map(str, (*cells, limit, met, *more)))} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status, which is 1 if a test fails, 3 if a row does."""
    options, rows = _parse(arguments)
    device = torch.device(options.device)
    machine = describe_machine(device)
    if not options.tested and (failed := failure({row.kind for row in rows})):
        print(f"{failed}\n\nA test fails: nothing is timed.")
        return 1
    before, lines, unmeasured = torch.get_num_threads(), list[Line](), list[str]()
    header = _HEADER.format(*(_ON_CUDA if options.device == "cuda" else ("", "")))
    print(header)
    try:
        for line in _timings(rows, options, device, unmeasured):
            lines.append(line)
            print(line, flush=True)
    finally:  # also if it is stopped
        torch.set_num_threads(before)
        output = options.output or (None if options.only else _RESULTS)
        if output and lines:
            _write(output / machine.folder, machine.text, header, lines)
    for text in unmeasured:
        print(text, file=sys.stderr)
    return UNMEASURED if unmeasured else 0


def _timings(
    rows: Sequence[Row], options: argparse.Namespace, device: torch.device, unmeasured: list[str]
) -> Iterator[Line]:
    """Time every row at every shape; add those that fail to ``unmeasured``."""
    clock, forward_clock, peak = clock_for(device), clock_for(device, _FLUSHES), None
    if options.device == "cuda":
        peak = bytes_per_second(torch.cuda.get_device_properties(device))
    counts = options.threads if options.device == "cpu" else [torch.get_num_threads()]
    for threads, row in itertools.product(counts, rows):
        # The slow ones are compared with the most threads only.
        if row.kind not in ("mapping", "loss") and threads != max(counts):
            continue
        torch.set_num_threads(threads)
        for shape in options.shapes or row.shapes_on(options.device):
            passes, alone = row.passes(shape, device), tuple[float | None, ...]()
            try:
                timing = paired(*passes, clock, options.seconds)
            except RuntimeError as error:  # a kernel that fails, or out of memory
                unmeasured.append(f"{row.name} {shape}: {str(error).splitlines()[0]}")
                continue
            if options.device == "cuda":
                kernels = min(forward_clock(passes[0].forward) for _ in range(5))
                host = (submission_seconds(one.forward, device) for one in passes)
                alone = (*(1000 * one for one in (kernels, *host)), peak)
            middle = 1000 * median(timing.measured), 1000 * median(timing.baseline)
            target = target_for(options.device, threads, row.name, shape)
            place = row.name, str(shape), threads
            yield Line(*place, *middle, timing.ratio, timing.rounds, target, *alone)


def failure(kinds: Iterable[str]) -> str | None:
    """Run the tests of the given kinds of rows.

    Returns:
        None if all pass, else the end of what pytest printed.
    """
    paths = sorted({path for kind in kinds for path in TESTS[kind]})
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    return "\n".join((done.stdout + done.stderr).splitlines()[-30:])


def _write(folder: Path, text: str, header: str, lines: Sequence[Line]) -> None:
    """Write the table in Markdown, every number in CSV, and the plot of the ratios."""
    table = "\n".join([header, *map(str, lines)])
    page = f"# Benchmark\n\n{text}\n\n{table}\n\n![Ratios](ratios.png)\n"
    atomic_write_text(folder / "table.md", page)
    with atomic_path(folder / "measurements.csv") as path, path.open("w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([Line._fields, *lines])
    with atomic_path(folder / "ratios.png") as path:
        _plot(path, lines)
    print(f"written: {folder}")


def _plot(path: Path, lines: Sequence[Line]) -> None:
    """Draw a panel for each number of threads; targets are short vertical lines."""
    from matplotlib.figure import Figure

    counts, names = (list(dict.fromkeys(getattr(one, key) for one in lines))
                     for key in ("threads", "row"))  # fmt: skip
    size = 5.5 * len(counts), 0.32 * len(names) + 1.6
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(counts), sharey=True, squeeze=False)[0]
    for axes, threads in zip(panels, counts, strict=True):
        for one in lines:
            if one.threads == threads:
                axes.plot(one.ratio, names.index(one.row), "o", color="#4477aa", markersize=5)
                if one.target is not None:
                    axes.plot(one.target, names.index(one.row), "|", color="black", markersize=14)
        axes.set(xscale="log", ylim=(len(names) - 0.5, -0.5), title=f"threads: {threads}")
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("time of forward and backward, baseline = 1")
    figure.savefig(path, format="png", dpi=120)


def _parse(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[Row]]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=_count, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="rows by name, * allowed")
    parser.add_argument("--shapes", type=_shape, nargs="+", metavar="RxN", help="of every row")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row at each shape")
    parser.add_argument("--tested", action="store_true", help="the tests have just been run")
    parser.add_argument("--output", type=Path, help="folder of results; with --only none is made")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: there is no CUDA device here")
    known = [row for row in all_rows() if options.device == "cpu" or row.kind != "structure"]
    rows = [row for row in known if any(fnmatch(row.name, p) for p in options.only or ["*"])]
    if not rows:
        names = ", ".join(row.name for row in known)
        parser.error(f"--only {' '.join(options.only)} matches no row; rows: {names}")
    oblong = [str(shape) for shape in options.shapes or () if shape.rows != shape.size]
    if oblong and any(row.name == "sparsemap_tree" for row in rows):
        parser.error(f"--shapes {' '.join(oblong)}: sparsemap_tree takes square ones; see --only")
    return options, rows


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)


def _shape(text: str) -> Shape:
    rows, cross, size = text.partition("x")
    if not cross:
        raise argparse.ArgumentTypeError(f"{text} is not a shape such as 1280x50")
    return Shape(_count(rows), _count(size))


if __name__ == "__main__":
    if dispatch.MODE == "auto":
        dispatch.MODE = "require"  # a table of speeds has no place for what replaces a kernel
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was measured is written
    sys.exit(main())
