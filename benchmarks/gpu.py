"""Everything that needs a GPU, in steps that can be stopped and continued: ``make gpu``.

CUDA tests, the benchmark of the mappings, one run of each task on generated corpora, then the
morphological inflection of Peters et al. (2019), Table 1, medium setting, at the paper's protocol:
one run, the nine cells, three seeds. Every step is stopped after ``--limit`` seconds; a training
continues from its last checkpoint when the command is given again. What has been done, with
device, versions and commit, is written to ``docs/gpu.md``.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from benchmarks.machine import describe_machine
from repro.atomic import atomic_write_text
from repro.mappings.kernels import selfcheck

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "gpu.md"
TASKS = ("snli", "nmt", "summarization", "morphology", "parsing", "nli_alignment")
PYTHON = sys.executable
_REPRO = [PYTHON, "-m", "repro"]
_TABLE = [*_REPRO, "reproduce", "peters2019/table1", "scale=full", "--columns", "medium (avg.)"]


@dataclass(frozen=True)
class Step:
    """Command, and a name for what it shows."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """Outcome of a step.

    Attributes:
        name: name of the step.
        command: the command line.
        state: ``"done"``, ``"failed"`` or ``"unfinished"``.
        seconds: time spent on the step in all calls.
        machine: device, versions and commit of the last call.
    """

    name: str
    command: str
    state: str
    seconds: float
    machine: str


def steps(data_dir: str) -> list[Step]:
    """Return the steps in order.

    Args:
        data_dir: folder of the real corpora, which the last two steps read.
    """
    device = ["hardware=cuda", "results_dir=results"]
    data = [f"data_dir={data_dir}"]
    alphas = ["mapping=entmax", "mapping.alpha=1.5", "loss=entmax", "loss.alpha=1.5"]
    single = [*_REPRO, "run", "task=morphology", "scale=full", "task.setting=medium", *alphas]
    # A kernel that fails is an error here; in runs PyTorch replaces it.
    strict = ("env", "REPRO_KERNELS=require", PYTHON, "-m")
    return [
        Step("CUDA tests", (*strict, "pytest", "-q", "-m", "gpu", "-n", "0", "tests")),
        Step("benchmark of mappings and losses", (*strict, "benchmarks", "--device", "cuda")),
        *(
            Step(f"{task}, demo", (*_REPRO, "run", f"task={task}", "scale=demo", *device))
            for task in TASKS
        ),
        Step("inflection, medium, paper's protocol, one run", (*single, *device, *data)),
        Step("inflection, medium, nine cells, three seeds", (*_TABLE, *device, *data)),
    ]


def run_steps(planned: Sequence[Step], limit: float, folder: Path, machine: str) -> list[Outcome]:
    """Run every step that is not done and return the outcomes of all.

    Args:
        planned: steps in order; a failed step does not stop the others.
        limit: seconds after which a step is stopped.
        folder: folder for the outcome and the output of each step.
        machine: device, versions and commit.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for number, step in enumerate(planned):
        stored = folder / f"{number:02}.json"
        before = Outcome(**json.loads(stored.read_text())) if stored.exists() else None
        if before is None or before.state != "done" or before.name != step.name:
            log = folder / f"{number:02}.log"
            print(f"{step.name}: {' '.join(step.command)}", flush=True)
            state, seconds = _run(step, limit, log)
            earlier = 0.0 if before is None or before.name != step.name else before.seconds
            command = " ".join(step.command).replace(PYTHON, "python")
            before = Outcome(step.name, command, state, earlier + seconds, machine)
            atomic_write_text(stored, json.dumps(asdict(before)))
            print(f"  {state} after {seconds:.0f} s; output: {log}", flush=True)
        found.append(before)
    return found


def page(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a page in Markdown."""
    lines = [
        "# Results on a GPU",
        "",
        "Written by `make gpu`, which runs what is missing and continues what was stopped.",
        "",
        "| step | state | minutes | command | measured on |",
        "|:---|:---|---:|:---|:---|",
    ]
    lines += [
        f"| {one.name} | {one.state} | {one.seconds / 60:.1f} | `{one.command}` | {one.machine} |"
        for one in outcomes
    ]
    return "\n".join(lines) + "\n"


def _run(step: Step, limit: float, log: Path) -> tuple[str, float]:
    """Run a step, write its output to ``log``, and return its state and its seconds."""
    start = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            step.command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, env=os.environ
        )
        try:
            state = "done" if process.wait(limit) == 0 else "failed"
        except subprocess.TimeoutExpired:
            process.terminate()  # on SIGTERM a run writes a checkpoint before it ends
            process.wait()
            state = "unfinished"
    return state, time.monotonic() - start


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status, which is 0 if every step is done.

    Args:
        arguments: arguments of the command line.
    """
    parser = argparse.ArgumentParser("python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("REPRO_DATA_DIR", "data"))
    parser.add_argument("--limit", type=float, default=530, help="seconds of a step")
    parser.add_argument("--list", action="store_true", help="print the steps and stop")
    parsed = parser.parse_args(arguments)
    planned = steps(parsed.data_dir)
    if parsed.list:
        print("\n".join(" ".join(step.command) for step in planned))
        return 0
    if not torch.cuda.is_available():
        print("make gpu: PyTorch finds no CUDA device here", file=sys.stderr)
        return 2
    machine = describe_machine(torch.device("cuda"))
    described = f"{machine.day}, {machine.device}; {machine.versions}; commit {machine.commit}"
    outcomes = run_steps(planned, parsed.limit, ROOT / "results" / "gpu", described)
    atomic_write_text(PAGE, page(outcomes))
    for where, checks in selfcheck.outcomes().items():
        print(f"Self-checks of kernels on {where}:")
        for label, (error, bound) in sorted(checks.items()):
            print(
                f"  {'passed' if error <= bound else 'FAILED'}, {error:.1e} of {bound:.1e}: {label}"
            )
    return 0 if all(one.state == "done" for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
