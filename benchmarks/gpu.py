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
from collections.abc import Mapping
from pathlib import Path

import torch

from benchmarks.machine import describe_machine
from repro.atomic import atomic_write_text
from repro.mappings.kernels import selfcheck

ROOT = Path(__file__).resolve().parents[1]
TASKS = ("snli", "nmt", "summarization", "morphology", "parsing", "nli_alignment")
_HEAD = """# Results on a GPU

Written by `make gpu`, which runs what is missing and continues what was stopped.

| step | state | minutes | command | measured on |
|:---|:---|---:|:---|:---|
"""


def steps(data_dir: str) -> dict[str, list[str]]:
    """Return the command of each step by its name; ``data_dir`` has the corpora of the last two."""
    python, device = [sys.executable, "-m"], ["hardware=cuda", "results_dir=results"]
    alphas = ["mapping=entmax", "mapping.alpha=1.5", "loss=entmax", "loss.alpha=1.5"]
    medium = ["task=morphology", "scale=full", "task.setting=medium", *alphas]
    table = ["peters2019/table1", "scale=full", "--columns", "medium (avg.)"]
    # A kernel that fails is an error here; in runs PyTorch replaces it.
    strict, data = ["env", "REPRO_KERNELS=require"], f"data_dir={data_dir}"
    return {
        "CUDA tests": [*strict, *python, "pytest", "-q", "-m", "gpu", "-n", "0", "tests"],
        "benchmark of mappings and losses": [*strict, *python, "benchmarks", "--device", "cuda"],
        **{
            f"{task}, demo": [*python, "repro", "run", f"task={task}", "scale=demo", *device]
            for task in TASKS
        },
        "inflection, medium, paper's protocol, one run": [
            *python, "repro", "run", *medium, *device, data,
        ],
        "inflection, medium, nine cells, three seeds": [
            *python, "repro", "reproduce", *table, *device, data,
        ],
    }  # fmt: skip


def run_steps(planned: Mapping[str, list[str]], limit: float, folder: Path, text: str) -> list[str]:
    """Run every step that is not done and return a line of the page for each.

    Args:
        planned: commands by name; a failed step does not stop the others.
        limit: seconds after which a step is stopped.
        folder: folder for the outcome and the output of each step.
        text: device, versions and commit.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, (name, command) in enumerate(planned.items()):
        stored, log = folder / f"{number:02}.json", folder / f"{number:02}.log"
        found = json.loads(stored.read_text()) if stored.exists() else {}
        found = found if found.get("name") == name else {"name": name, "seconds": 0.0}
        if found.get("state") != "done":
            print(f"{name}: {' '.join(command)}", flush=True)
            state, seconds = _run(command, limit, log)
            found |= {"state": state, "seconds": found["seconds"] + seconds, "machine": text}
            atomic_write_text(stored, json.dumps(found))
            print(f"  {state} after {seconds:.0f} s; output: {log}", flush=True)
        printed = " ".join(command).replace(sys.executable, "python")
        minutes, where = found["seconds"] / 60, found["machine"]
        lines.append(f"| {name} | {found['state']} | {minutes:.1f} | `{printed}` | {where} |")
    return lines


def _run(command: list[str], limit: float, log: Path) -> tuple[str, float]:
    """Run a step, write its output to ``log``, and return its state and its seconds."""
    start = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        try:
            state = "done" if process.wait(limit) == 0 else "failed"
        except subprocess.TimeoutExpired:
            process.terminate()  # on SIGTERM a run writes a checkpoint before it ends
            process.wait()
            state = "unfinished"
    return state, time.monotonic() - start


def main() -> int:
    """Run the command and return the exit status, which is 0 if every step is done."""
    parser = argparse.ArgumentParser("python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("REPRO_DATA_DIR", "data"))
    parser.add_argument("--limit", type=float, default=530, help="seconds of a step")
    parsed = parser.parse_args()
    if not torch.cuda.is_available():
        print("make gpu: PyTorch finds no CUDA device here", file=sys.stderr)
        return 2
    text = describe_machine(torch.device("cuda")).text
    lines = run_steps(steps(parsed.data_dir), parsed.limit, ROOT / "results" / "gpu", text)
    atomic_write_text(ROOT / "docs" / "gpu.md", _HEAD + "\n".join([*lines, ""]))
    for where, checks in selfcheck.outcomes().items():
        print(f"Self-checks of kernels on {where}:")
        for label, (error, bound) in sorted(checks.items()):
            verdict = "passed" if error <= bound else "FAILED"
            print(f"  {verdict}, {error:.1e} of {bound:.1e}: {label}")
    return 0 if all("| done |" in line for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
