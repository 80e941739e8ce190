"""Processor time of whole commands, of this checkout or also of an earlier one, in turn.

Processor time depends less than the clock on what else the machine does.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

_COMMANDS = {
    "a typo: `repro run task=nmtt`": "run task=nmtt",
    "a typo: `repro run maping=x`": "run maping=x",
    "a typo: `repro plan peters2019/tabel1`": "plan peters2019/tabel1",
    "`repro status`, nothing there": "status",
    "`repro show`, nothing there": "show",
    "`repro doctor`": "doctor",
    "`repro plan peters2019/table1`": "plan peters2019/table1",
    "`repro run`, everything compiled": "run",
    "`repro run` of a finished configuration": "run seed=1",  # the same: 1 is the default
}


def processor_seconds(checkout: Path, command: str, folder: Path) -> float:
    """Measure one command, whose corpora and results are in a folder."""
    if command == "run":
        shutil.rmtree(folder / "results", ignore_errors=True)
    places = {f"REPRO_{key.upper()}_DIR": str(folder / key) for key in ("results", "data")}
    environment = os.environ | places | {"PYTHONPATH": str(checkout)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles every module
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    arguments = [sys.executable, "-m", "repro", *command.split()]
    subprocess.run(arguments, env=environment, cwd=folder, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--before", type=Path, help="checkout of an earlier version")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median is printed")
    options = parser.parse_args()
    checkouts = [path.resolve() for path in (options.before, Path(__file__).parents[1]) if path]
    print(f"| command | {'before | ' * (len(checkouts) - 1)}processor s |")
    print(f"|:---|{'---:|' * len(checkouts)}")
    with tempfile.TemporaryDirectory() as scratch:
        for text, command in _COMMANDS.items():
            found: dict[Path, list[float]] = {path: [] for path in checkouts}
            for _ in range(options.rounds):
                for number, path in enumerate(checkouts):
                    (folder := Path(scratch) / str(number)).mkdir(exist_ok=True)
                    found[path].append(processor_seconds(path, command, folder))
            cells = (f"{median(seconds):.1f}" for seconds in found.values())
            print(f"| {text} | {' | '.join(cells)} |", flush=True)
