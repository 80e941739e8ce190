"""What needs a GPU, in the time that there is: ``make gpu MINUTES=25 ARGS="data_dir=…"``.

In this order: CUDA tests; the benchmark of mappings and losses; a demo run of each task on the card
and on the CPU; the speed of training; runs of the papers' protocols (Peters et al. 2019, Table 1;
Malaviya et al. 2018, Table 1, on Multi30k). A step begins only if its estimate fits into the time
that is left. What was stopped, failed or had no time comes next time: ``results/gpu`` keeps the
state, and trainings continue from their checkpoints. Every call rewrites ``docs/gpu.md`` and packs
``results/gpu.tgz``: records, statistics and tables, without weights.
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
from benchmarks.gpu_report import Report, read_json, scale_of
from benchmarks.training import JOEYNMT
from repro.atomic import atomic_write_json
from repro.config.compose import compose_run
from repro.config.experiment import load_experiment
from repro.config.identity import changes_numbers
from repro.config.planning import PlannedRun, plan_runs
from repro.errors import UserError
from repro.results import list_runs
from repro.runs.environment import source_commit

ROOT = Path(__file__).resolve().parents[1]
TASKS = ("snli", "nmt", "summarization", "morphology", "parsing", "nli_alignment")
FIRST_CELLS = ("1 / 1", "1.5 / 1.5", "2 / 1.5")
"""Cells of Peters et al. (2019), Table 1, that are trained first: output α / attention α."""
ROWS = ("softmax", "sparsemax", "csoftmax (c = 0.2)", "csparsemax (c = 0.2)")
"""Rows of Malaviya et al. (2018), Table 1; the speed of the first two stands for all."""
# The warning of pytest-benchmark about several processes would be an error.
_PARALLEL = ("-p", "no:benchmark", "-n", str(min(14, max(1, (os.cpu_count() or 1) - 2))))
_VALIDATIONS = 1.25
"""Time of a training divided by that of its updates."""
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
        seconds: estimated time; of a training, that beside its epochs.
        speed: of a training, the step that measures its speed and counts its updates.
        runs: runs of the command, for the page.
        repeated: of a training, the command in its record.
        known: statuses after which the outcome is known and the step is not repeated.
    """

    name: str
    command: tuple[str, ...]
    seconds: float
    speed: str = ""
    runs: tuple[PlannedRun, ...] = ()
    repeated: str = ""
    known: tuple[int, ...] = (0,)


def plan(settings: Sequence[str], folder: Path) -> list[Step]:
    """Return all steps in their order.

    Args:
        settings: settings of every run.
        folder: the folder of states, logs and results.
    """
    python, cuda = (sys.executable, "-m"), ("hardware=cuda", f"results_dir={folder}")
    # A kernel that fails is an error here; in runs PyTorch code replaces it.
    strict, junit = ("env", "REPRO_KERNELS=require", *python), f"--junitxml={folder}/tests.xml"
    tests = (*strict, "pytest", "-q", "-m", "gpu", *_PARALLEL, junit, "tests")
    timed = (*strict, "benchmarks", "--device=cuda", "--tested", f"--output={folder}/benchmark")
    demo = (*python, "repro", "run", "-m", f"task={','.join(TASKS)}", "scale=demo", "seed=1")
    side_by_side = f"hydra.launcher.parallel_runs={len(TASKS)}"
    on_cpu = ("hardware=cpu", f"results_dir={folder}/cpu")
    demo_runs = (PlannedRun("demo", task, "", 1, (f"task={task}", "scale=demo")) for task in TASKS)
    steps = [
        Step("tests", tests, 300, known=(0, 1)),
        Step("benchmark", timed, 240, known=(0, UNMEASURED)),
        Step("demo", (*demo, *settings, *cuda, side_by_side), 180, runs=(*demo_runs,)),
        Step("demo-cpu", (*demo, *settings, *on_cpu, side_by_side), 120),
    ]
    inflection = [
        run
        for run in plan_runs(load_experiment("peters2019/table1"), "full")
        if run.column.endswith("(avg.)")
    ]
    medium, high = (
        sorted(
            (run for run in inflection if run.column.startswith(setting)),
            key=lambda run: run.row not in FIRST_CELLS,  # stable
        )
        for setting in ("medium", "high")
    )
    translation = [
        run
        for run in plan_runs(load_experiment("malaviya2018/table1"), "subset")
        if run.row in ROWS and run.column == "De-En BLEU"
    ]
    groups = {"medium": medium, "high": high, "translation": translation}
    for name, runs in groups.items():
        rows = [run for run in runs if run.seed == 1 and run.row in (*FIRST_CELLS[:2], *ROWS[:2])]
        options = (word for run in rows for word in ("--row", shlex.join(run.overrides)))
        output = ("--output", f"{folder}/speed-{name}.json")
        command = (*python, "benchmarks.training", *settings, "hardware=cuda", *options, *output)
        steps.append(Step(f"speed-{name}", command, 180))
    if find_spec(JOEYNMT):
        row, output = shlex.join(medium[0].overrides), f"{folder}/speed-{JOEYNMT}.json"
        beside = ("--row", row, "--row", f"{JOEYNMT} {row}", "--output", output)
        command = (*python, "benchmarks.training", *settings, "hardware=cuda", *beside)
        steps.append(Step(f"speed-{JOEYNMT}", command, 60))
    for name, runs in groups.items():
        for run in runs:
            overrides = (*run.overrides, *settings)
            command = (*python, "repro", "run", *overrides, *cuda)
            repeated = shlex.join(["repro", "run", *filter(changes_numbers, overrides)])
            label = f"{name} {run.row} seed {run.seed}".replace(" / ", "-")
            steps.append(Step(label, command, 60, f"speed-{name}", (run,), repeated))
    return steps


def estimate(step: Step, folder: Path) -> float | None:
    """Return the seconds that a step takes; None if the speed of its training is not known."""
    if not step.speed:
        return step.seconds
    speeds = read_json(folder / f"{step.speed}.json", [])
    if not speeds:
        return None
    left = 1.0
    for one in list_runs(folder, scale_of(step.runs[0])):
        if read_json(one.environment, {}).get("command") == step.repeated:
            left = 0.0 if one.status == "done" else 1 - read_json(one.progress, {}).get("share", 0)
    longest = max(speed["updates"] / speed["updates_per_second"] for speed in speeds)
    return step.seconds + _VALIDATIONS * longest * left


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
        needed, start = estimate(step, folder), clock()
        if needed is None or needed > end - start:
            time_needed = "unknown" if needed is None else f"{needed / 60:.0f} minutes"
            text = f"{step.name}: not begun: {time_needed}, {(end - start) / 60:.0f} minutes left"
            print(text, flush=True)
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
