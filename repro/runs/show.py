"""Print one run, or the state of a sweep, as read from their folders."""

import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from repro.errors import UserError
from repro.results import ResultsError, RunFolder, find_run, recent_runs, run_folder
from repro.runs.display import RunState, last_line, read_sweep
from repro.runs.locking import is_claimed

DIVERGED = "its training diverged; try a lower training.learning_rate"


def show_newest(results_dir: Path, most: int = 10) -> None:
    """Print the runs that were changed last, each with its status, scale and command.

    Raises:
        ResultsError: there is none.
    """
    found = recent_runs(results_dir)[:most]
    if not found:
        raise ResultsError(f"no run below {results_dir}")
    for folder in found:
        command = ""
        with suppress(UserError):  # damaged, or not written yet
            command = folder.read_environment()["command"]
        scale = folder.path.parents[1].name
        line = f"{folder.run_id}  {_status(folder):11}  {scale:5}  {command}"
        print(line[: max(40, shutil.get_terminal_size().columns)])


def show(results_dir: Path, run_id: str, config: bool = False) -> None:
    """Print a run: its folder, its metrics with their signatures, its traceback if it failed.

    Args:
        results_dir: folder of results, searched at every scale.
        run_id: an identity, or the beginning of one.
        config: print the configuration as well.

    Raises:
        ResultsError: no run, or more than one, has an identity that begins so.
    """
    folder = find_run(results_dir, run_id)
    print(f"{folder.run_id}  {_status(folder)}  {folder.path}")
    if damaged := folder.damaged_files():
        print(f"  damaged    {', '.join(damaged)}")
    elif folder.environment.exists():
        for key, value in folder.read_environment().items():
            parts = value.items() if isinstance(value, dict) else ()
            print(f"  {key:10} {'; '.join(f'{k}: {v}' for k, v in parts) or value}")
    if folder.status == "done":
        record = folder.read_record()
        width = max(map(len, record.metrics), default=0)
        for metric, number in record.metrics.items():
            print(f"{metric:{width}} {metric_text(number)}  {record.signatures[metric]}")
        if record.diverged:
            print(DIVERGED)
    shown = [folder.traceback, *([folder.config] if config else [])]
    for path in (path for path in shown if path.exists()):
        print(f"\n{path.name}\n{path.read_text(encoding='utf-8', errors='replace')}")


def _status(folder: RunFolder) -> str:
    interrupted = folder.status == "running" and not is_claimed(folder.path)
    return "interrupted" if interrupted else folder.status


def metric_text(value: float) -> str:
    """Format a metric value, right-aligned; large ones in scientific notation."""
    return f"{value:12.4f}" if abs(value) < 1e6 else f"{value:12.4e}"


def show_status(results_dir: Path, name: str | None) -> int:
    """Print the runs of a sweep that are not done, and the number of runs by status.

    Args:
        results_dir: folder of results, searched at every scale.
        name: name of the sweep's folder, or its beginning; the latest by default.

    Returns:
        The exit status: 1 if a run failed.

    Raises:
        ResultsError: there is no such sweep.
    """
    found = sorted(
        results_dir.glob(f"*/sweeps/{name or ''}*/sweep.json"), key=lambda path: path.parent.name
    )
    if not found:
        named = f" begins with {name!r}" if name else ""
        raise ResultsError(f"no sweep below {results_dir}{named}")
    folder = found[-1].parent
    kept = read_sweep(folder)
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(f"{folder}\n{kept['command']}")
    counts: Counter[str] = Counter()
    for run_id, label in kept["runs"].items():
        run = run_folder(folder.parents[2], folder.parents[1].name, run_id)
        state = RunState(run, label)
        state.poll()
        counts[state.status] += 1
        if state.status != "done":
            text = last_line(run) if state.status == "failed" else state.text
            console.print(f"{run_id}  {state.status:8}{label}  {text if run.path.exists() else ''}")
    if kept["jobs"] and shutil.which("squeue"):
        from repro.runs.slurm import queue

        try:
            jobs = Counter(queue(kept["jobs"]).values())
            text = ", ".join(f"{number} {state}" for state, number in jobs.items())
        except OSError as error:
            text = str(error).splitlines()[-1]
        console.print(f"jobs: {text or 'none in the queue'}")
    console.print(", ".join(f"{number} {status}" for status, number in counts.items()))
    return 1 if counts["failed"] else 0
