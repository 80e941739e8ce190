"""What needs a GPU, in the time that there is: ``make gpu MINUTES=25 ARGS="data_dir=…"``.

In this order: CUDA tests; the speed of training; the benchmark of mappings and losses; a demo run
of each task on the card and on the CPU; runs of the papers' protocols (Peters et al. 2019, Table 1;
Malaviya et al. 2018, Table 1, on Multi30k), side by side. A step begins only if its estimate fits
into the time that is left; trainings take what is left. What was stopped, failed or had no time
comes next time: ``results/gpu`` keeps the state, and trainings continue from their checkpoints.
Every call rewrites ``docs/gpu.md`` and packs ``results/gpu.tgz``: records, statistics and tables,
without weights.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from benchmarks.__main__ import UNMEASURED
from benchmarks.gpu_report import Report, read_json, with_graphs
from benchmarks.training import EAGER_AND_GRAPH, JOEYNMT
from repro.atomic import atomic_write_json
from repro.config.compose import compose_run
from repro.config.experiment import load_experiment
from repro.config.planning import Cells, PlannedRun, plan_artefacts
from repro.errors import UserError
from repro.runs.environment import source_commit

ROOT = Path(__file__).resolve().parents[1]
TASKS = ("snli", "nmt", "summarization", "morphology", "parsing", "nli_alignment")
TESTS = {"updates": ("tests/models", "tests/training"), "tasks": ("tests/tasks",)}
"""Folders of CUDA tests by step; all others are the tests of kernels."""
TIMED = (
    ("snli", "demo"), ("snli", "full"), ("parsing", "demo"), ("parsing", "full"),
    ("summarization", "demo"), ("nli_alignment", "demo"),
)  # fmt: skip
"""Task and scale of updates that are timed on the card and on one thread of the CPU."""
_FIRST = ("1 / 1", "1.5 / 1.5", "2 / 1.5")
"""Cells of Peters et al. (2019), Table 1, that are trained first: output α / attention α."""
_ROWS = ("softmax", "sparsemax", "csoftmax (c = 0.2)", "csparsemax (c = 0.2)")
TRAININGS: dict[str, tuple[str, str, Cells]] = {
    "medium-first": ("peters2019/table1", "full", Cells(_FIRST, ["medium (avg.)"])),
    "medium": ("peters2019/table1", "full", Cells(None, ["medium (avg.)"])),
    "high-first": ("peters2019/table1", "full", Cells(_FIRST, ["high (avg.)"])),
    "high": ("peters2019/table1", "full", Cells(None, ["high (avg.)"])),
    "translation": ("malaviya2018/table1", "subset", Cells(_ROWS, ["De-En BLEU"])),
}
"""Artefact, scale and cells of each step of training."""
_PYTHON = (sys.executable, "-m")
# A kernel that fails is an error here; in runs PyTorch code replaces it.
_STRICT = ("env", "REPRO_KERNELS=require", *_PYTHON)
# The warning of pytest-benchmark about several processes would be an error.
_PARALLEL = ("-p", "no:benchmark", "-n", str(min(14, max(1, (os.cpu_count() or 1) - 2))))
_GRACE = 75.0
"""Seconds in which a stopped command writes its checkpoint, and an MPS daemon ends (30 at most)."""

Run = Callable[[Sequence[str], float, Path], int | None]
"""Runs a command with a limit in seconds and a log; returns its status, None if it was stopped."""


@dataclass(frozen=True)
class Step:
    """A command with its estimate.

    Attributes:
        name: key of its state, name of its log and its files.
        command: the command line.
        seconds: estimated time; of trainings, the time in which they begin.
        runs: runs of the command, for the page.
        known: statuses after which the outcome is known and the step is not repeated.
    """

    name: str
    command: tuple[str, ...]
    seconds: float
    runs: tuple[PlannedRun, ...] = ()
    known: tuple[int, ...] = (0,)


def plan(settings: Sequence[str], folder: Path) -> list[Step]:
    """Return all steps in their order.

    Args:
        settings: settings of every run.
        folder: the folder of states, logs and results.
    """
    timed = ("benchmarks", "--device=cuda", "--tested", f"--output={folder}/benchmark")
    demo = ("repro", "run", "-m", f"task={','.join(TASKS)}", "scale=demo", "seed=1")
    together = f"hydra.launcher.parallel_runs={len(TASKS)}"
    on_card = (*with_graphs(settings), "hardware=cuda", f"results_dir={folder}")
    on_cpu = (*settings, "hardware=cpu", f"results_dir={folder}/cpu")
    demo_runs = (PlannedRun("demo", task, "", 1, (f"task={task}", "scale=demo")) for task in TASKS)
    return [
        *_tests(folder),
        *_speeds(settings, folder),
        Step("benchmark", (*_STRICT, *timed), 240, known=(0, UNMEASURED)),
        Step("demo", (*_PYTHON, *demo, *on_card, together), 180, runs=(*demo_runs,)),
        Step("demo-cpu", (*_PYTHON, *demo, *on_cpu, together), 120),
        *_trainings(on_card),
    ]


def _tests(folder: Path) -> Iterator[Step]:
    """Yield the CUDA tests, with an error where a kernel fails."""
    others = [f"--ignore={one}" for paths in TESTS.values() for one in paths]
    for name, paths in {**TESTS, "kernels": ("tests", *others)}.items():
        junit = f"--junitxml={folder}/tests-{name}.xml"
        command = (*_STRICT, "pytest", "-q", "-m", "gpu", *_PARALLEL, junit, *paths)
        yield Step(f"tests-{name}", command, 200, known=(0, 1))


def _speeds(settings: Sequence[str], folder: Path) -> Iterator[Step]:
    """Yield the timings of updates; those of inflection and translation have a peer."""
    eager, graphs = EAGER_AND_GRAPH
    peer = [JOEYNMT] if find_spec(JOEYNMT) else []

    def step(name: str, run: Sequence[str], *options: str, rows: Sequence[str]) -> Step:
        given = (word for row in rows for word in ("--row", row))
        output = f"--output={folder}/speed-{name}.json"
        command = (*_PYTHON, "benchmarks.training", *run, *settings, *given, *options, output)
        return Step(f"speed-{name}", command, 120)

    on_card = (eager, *peer, graphs)
    (inflection, *_) = _runs("peters2019/table1", "full", Cells(_FIRST[1:2], ["medium (avg.)"]))
    run = (*inflection.overrides, "hardware=cuda")
    yield step("inflection", run, "--processes", "1", "8", "12", rows=on_card)
    (translation, *_) = _runs("malaviya2018/table1", "subset", Cells(_ROWS[1:2], ["De-En BLEU"]))
    yield step("translation", (*translation.overrides, "hardware=cuda"), rows=on_card)
    fewer = ("--before=100", "--updates=20")
    for task, scale in TIMED:
        run = (f"task={task}", f"scale={scale}")
        yield step(f"{task}-{scale}", (*run, "hardware=cuda"), *fewer, rows=EAGER_AND_GRAPH)
        one_thread = ("hardware.threads=1",)
        yield step(f"{task}-{scale}-cpu", (*run, "hardware=cpu"), *fewer, rows=one_thread)


def _trainings(settings: Sequence[str]) -> Iterator[Step]:
    """Yield the runs of the papers' protocols; those of a step train side by side."""
    for name, (experiment, scale, cells) in TRAININGS.items():
        chosen = [
            f"--{option}={','.join(labels)}"
            for option, labels in cells._asdict().items()
            if labels is not None
        ]
        run = (experiment, f"scale={scale}", *settings, "hardware.parallel_runs=0", *chosen)
        runs = _runs(experiment, scale, cells)
        yield Step(name, (*_PYTHON, "repro", "reproduce", *run), 60, runs)


def _runs(experiment: str, scale: str, cells: Cells) -> tuple[PlannedRun, ...]:
    (runs,) = plan_artefacts([load_experiment(experiment)], scale, cells).values()
    return (*runs,)


def work(
    steps: Sequence[Step],
    folder: Path,
    where: str,
    seconds: float,
    run: Run,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[dict[str, Any]]:
    """Take every step that is not done and fits into the time, and yield all states after each.

    Args:
        steps: the plan.
        folder: folder of states, logs and results.
        where: commit and device; tests and measurements made elsewhere are repeated.
        seconds: time that there is.
        run: runs a command.
        clock: returns the time in seconds.
    """
    states, end = read_json(folder / "state.json", {}), clock() + seconds
    for step in steps:
        state = states.get(step.name, {"seconds": 0.0})
        if state.get("state") == "done" and (step.runs or state["where"] == where):
            continue
        start = clock()
        if step.seconds > end - start:
            times = f"{step.seconds / 60:.0f} minutes, {(end - start) / 60:.0f} left"
            print(f"{step.name}: not begun: {times}", flush=True)
            continue
        print(f"{step.name}: {shlex.join(step.command)}", flush=True)
        log = folder / "logs" / f"{step.name}.log"
        status = run(step.command, end - start, log)
        kind = "stopped" if status is None else "done" if status in step.known else "failed"
        spent = clock() - start
        states[step.name] = {"state": kind, "seconds": state["seconds"] + spent, "where": where}
        atomic_write_json(folder / "state.json", states)
        print(f"  {kind} after {spent:.0f} s; output: {log}", flush=True)
        yield states


def run_command(command: Sequence[str], limit: float, log: Path) -> int | None:
    """Run a command and stop it, with the processes that it has started, after the limit."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:  # also after Ctrl-C
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)  # a run writes a checkpoint
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status, which is 0 if every step is done."""
    parser = argparse.ArgumentParser("python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="of every run")
    parser.add_argument("--minutes", type=float, default=25, help="time that there is")
    parsed = parser.parse_intermixed_args(arguments)
    if not torch.cuda.is_available():
        print("make gpu: PyTorch finds no CUDA device here", file=sys.stderr)
        return 2
    folder = ROOT / "results" / "gpu"
    steps = plan(parsed.settings, folder)
    try:
        compose_run([*steps[-1].runs[0].overrides, *parsed.settings])
    except UserError as error:
        print(f"make gpu: {error}", file=sys.stderr)
        return 2
    runs = [run for step in steps for run in step.runs]
    report = Report(folder, ROOT / "results", runs, parsed.settings)
    where, page = f"{source_commit()}, {torch.cuda.get_device_name()}", ROOT / "docs" / "gpu.md"
    states: dict[str, Any] = read_json(folder / "state.json", {})
    try:
        for states in work(steps, folder, where, 60 * parsed.minutes, run_command):
            report.write(page, states)
    finally:
        report.write(page, states)
        report.pack(page, folder.with_suffix(".tgz"))
    return 0 if all(states.get(s.name, {}).get("state") == "done" for s in steps) else 1


if __name__ == "__main__":
    sys.exit(main())
