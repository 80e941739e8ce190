"""Formatting of measurements as Markdown, CSV and lines for a terminal."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

from benchmarks.linear_comparison import LinearComparison
from benchmarks.machine import Machine
from benchmarks.measurement import Measurement
from benchmarks.structures import BATCH, Solved
from repro.atomic import atomic_write_text

COLUMNS = (
    "row", "shape", "threads", "median ms", "ratio", "target", "met", "GB/s", "of roofline",
)  # fmt: skip
SOLVED_COLUMNS = (
    "row", "shape", "threads", "median ms", "target", "met", "fastest ms", "processor ms",
    "loop ms", "times", "iterations", "structures", "gap",
)  # fmt: skip
_WIDTHS = (22, 11, 7, 9, 8, 7, 4, 7, 11)
_TEXT = ("row", "shape", "path")
_BASELINES = {
    "mapping": "Mappings: ratio to `torch.softmax`, forward and backward",
    "loss": "Losses: ratio to `torch.nn.functional.cross_entropy`, forward and backward",
    "peer": "Peers: how many times as long as the mapping here takes",
}
_SOLVED = f"SparseMAP: milliseconds for each instance of {BATCH}, forward and backward"
_NOTES = """\
Float32, scores from N(0, 1). The two passes of a ratio run in turn in one process; times and ratios are medians over rounds.
GB/s counts the bytes that have to move: a mapping reads z and writes p, then reads p and g and writes dz (5 numbers for each
score); under bounds it also reads u and writes du (7); a loss reads z twice and writes dz (3). The roofline is the bandwidth of a
copy of 256 MB in the same process; small shapes stay in the cache and may exceed it.
SparseMAP stops at a gap of 1e-6; processor ms are those of all threads together; the loop takes examples one by one, with an oracle
in Python, and *times* is how many times as long it takes.
"""  # noqa: E501


def markdown(
    machine: Machine,
    measurements: Sequence[Measurement],
    solved: Sequence[Solved],
    comparison: LinearComparison | None,
    bandwidths: dict[int, float],
) -> str:
    """Return the page with all tables."""
    parts = [f"# Benchmark of {machine.day}\n", *_facts(machine, bandwidths)]
    for kind, title in _BASELINES.items():
        chosen = [found for found in measurements if found.kind == kind]
        if chosen:
            parts += [f"## {title}\n", table(COLUMNS, map(cells, chosen))]
    if solved:
        parts += [f"## {_SOLVED}\n", table(SOLVED_COLUMNS, map(solved_cells, solved))]
    if comparison:
        parts += [f"## {comparison.title}\n", table(*comparison.table()), comparison.summary()]
    return "\n".join([*parts, _NOTES])


def _facts(machine: Machine, bandwidths: dict[int, float]) -> list[str]:
    copies = ", ".join(f"{rate / 1e9:.1f} GB/s ({n})" for n, rate in bandwidths.items())
    lines = [
        f"- device: {machine.device}, {machine.processors} processors",
        f"- versions: {machine.versions}",
        f"- commit: {machine.commit}",
        f"- bandwidth of a copy (threads): {copies}",
        f"- load average at the start: {machine.load:.2f}",
    ]
    if machine.busy:
        lines.append("- **warning: the machine was busy; times are too long and ratios noisy**")
    return ["\n".join(lines) + "\n"]


def cells(found: Measurement) -> list[str]:
    """Return the cells of a line of the table of mappings, losses or peers."""
    met = {None: "", True: "yes", False: "no"}[found.met]
    return [
        found.name,
        found.shape,
        str(found.threads),
        f"{found.milliseconds:.3g}",
        f"{found.ratio:.2f}",
        str(found.target or ""),
        met,
        f"{found.rate / 1e9:.1f}",
        f"{found.roofline:.0%}",
    ]


def solved_cells(found: Solved) -> list[str]:
    """Return the cells of a line of the table of SparseMAP."""
    return [
        found.name,
        found.shape,
        str(found.threads),
        f"{found.milliseconds:.3f}",
        str(found.target or ""),
        {None: "", True: "yes", False: "no"}[found.met],
        f"{found.fastest:.3f}",
        f"{found.processor:.3f}",
        f"{found.loop:.1f}",
        f"{found.ratio:.0f}",
        f"{found.iterations:.1f}",
        f"{found.structures:.1f}",
        f"{found.gap:.0e}",
    ]


def progress(line: Sequence[str]) -> str:
    """Format a line of the table, or its header, for a terminal."""
    names, numbers = zip(line[:2], _WIDTHS, strict=False), zip(line[2:], _WIDTHS[2:], strict=True)
    padded = [f"{text:<{width}}" for text, width in names]
    return "  ".join([*padded, *(f"{text:>{width}}" for text, width in numbers)])


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; columns of numbers are aligned to the right."""
    rule = [":---" if name in _TEXT else "---:" for name in header]
    return "".join(f"| {' | '.join(line)} |\n" for line in (header, rule, *lines))


def write_csv(path: Path, measurements: Sequence[Measurement] | Sequence[Solved]) -> None:
    """Write every field of every measurement, unrounded, and whether the target is met."""
    stream = io.StringIO()
    names = [field.name for field in fields(measurements[0])]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*names, "met"])
    for found in measurements:
        values = [getattr(found, name) for name in names]
        writer.writerow(["" if value is None else value for value in (*values, found.met)])
    atomic_write_text(path, stream.getvalue())
