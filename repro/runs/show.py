"""Description of one run, of the newest ones, or of a sweep, as read from their folders."""

import shutil
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from repro.errors import UserError
from repro.results import Record, ResultsError, RunFolder, find_run, recent_runs, run_folder
from repro.results.labels import age_text, main_first, main_metric, result_text, run_title
from repro.results.store import current_record, newer_record, read_settings
from repro.runs.display import RunState, read_sweep
from repro.runs.locking import is_claimed, run_state

DIVERGED = "its training diverged; try a lower training.learning_rate"


Facts = dict[str, Any]
"""What a command shows, as values for JSON."""


def newest(results_dir: Path) -> list[Facts]:
    """Describe the ten runs that were changed last.

    Raises:
        ResultsError: there is none.
    """
    found = recent_runs(results_dir)[:10]
    if not found:
        raise ResultsError(f"no run below {results_dir}")
    return [_listed(folder) for folder in found]


def _listed(folder: RunFolder) -> Facts:
    """Describe a run for lists: identity, status, scale, title, result, age in days, command."""
    command, result = "", ""
    with suppress(UserError):  # damaged, or not written yet
        result = result_text(folder.read_record()) if folder.status == "done" else ""
        command = folder.read_environment()["command"]
    return {
        "run_id": folder.run_id, "status": run_state(folder), "scale": folder.scale,
        "title": _title(folder), "result": result, "days": days_old(folder), "command": command,
    }  # fmt: skip


def _title(folder: RunFolder) -> str:
    """Return the title of a run; empty if its record or configuration is not there or damaged."""
    with suppress(UserError, OSError):
        record = folder.read_record()
        return run_title(record.settings, record.corpus, len(record.members))
    settings = read_settings(folder)
    return run_title(settings, str(settings.get("data.corpus"))) if "task.name" in settings else ""


def days_old(folder: RunFolder) -> float:
    """Return the number of days since a run was changed."""
    return (time.time() - folder.path.stat().st_mtime) / 86400


def print_newest(rows: Sequence[Facts]) -> None:
    """Print the result of :func:`newest`, a line for each run."""
    print_list(
        ("run", "state", "scale", "age", "result", "title"),
        [
            (row["run_id"], row["status"], row["scale"], age_text(86400 * row["days"]),
             row["result"], row["title"] or row["command"])
            for row in rows
        ],
    )  # fmt: skip


def print_list(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their titles, in aligned columns as wide as the terminal."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        line = "  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True))
        print(line.rstrip()[: max(40, shutil.get_terminal_size().columns)])


def describe(results_dir: Path, run_id: str) -> Facts:
    """Describe a run: its folder, environment and metrics, and its traceback if it failed.

    It is named by its identity or the beginning of it, at any scale. A run whose folder is missing
    is described by its record, with ``None`` as its folder; so is one whose published record
    finished later than that in its folder.

    Raises:
        ResultsError: no run, or more than one, has an identity that begins so.
    """
    folder = find_run(results_dir, run_id)
    if isinstance(folder, Record):
        return _recorded(folder)
    if folder.status == "done" and (newer := newer_record(folder)):
        return _recorded(newer) | {"folder": str(folder.path)}
    found: Facts = {
        "run_id": folder.run_id,
        "status": run_state(folder),
        "title": _title(folder),
        "folder": str(folder.path),
    }
    if damaged := folder.damaged_files():
        found["damaged"] = damaged
    elif folder.environment.exists():
        found["environment"] = folder.read_environment()
    if folder.status == "done":
        record = folder.read_record()
        found |= _measured(record)
    for path in (folder.traceback, folder.config):
        if path.exists():
            found[path.stem] = path.read_text(encoding="utf-8", errors="replace")
    return found


def _recorded(record: Record) -> Facts:
    """Describe a run by its record."""
    return {
        "run_id": record.run_id,
        "status": "done",
        "title": run_title(record.settings, record.corpus, len(record.members)),
        "folder": None,
        "environment": {name: getattr(record, name) for name in ("commit", "device", "command")},
        **_measured(record),
        "config": yaml.safe_dump(record.config, sort_keys=False, allow_unicode=True),
    }


def _measured(record: Record) -> Facts:
    return {
        "main": main_metric(record) if record.metrics else None,
        "metrics": record.metrics,
        "signatures": record.signatures,
        "diverged": record.diverged,
    }


def print_run(found: Facts, config: bool = False) -> None:
    """Print the result of :func:`describe`, with the configuration if it is wanted."""
    print(f"{found['run_id']}  {found['status']}  {found['folder'] or 'record only'}")
    if found["title"]:
        print(f"  {found['title']}")
    if "damaged" in found:
        print(f"  damaged    {', '.join(found['damaged'])}")
    for key, value in found.get("environment", {}).items():
        parts = value.items() if isinstance(value, dict) else ()
        print(f"  {key:10} {'; '.join(f'{k}: {v}' for k, v in parts) or value}")
    metrics = found.get("metrics", {})
    width = max(map(len, metrics), default=0)
    for metric in main_first(metrics, found.get("main")):
        print(f"{metric:{width}} {metric_text(metrics[metric])}  {found['signatures'][metric]}")
    if found.get("diverged"):
        print(DIVERGED)
    for key in ("traceback", *(["config"] if config else [])):
        if key in found:
            print(f"\n{key}\n{found[key]}")


def metric_text(value: float) -> str:
    """Format a metric value, right-aligned; large ones in scientific notation."""
    return f"{value:12.4f}" if abs(value) < 1e6 else f"{value:12.4e}"


def sweep_status(results_dir: Path, name: str | None) -> Facts:
    """Describe a sweep: its folder and command, its runs, and the number of runs by status.

    It is named by its folder or the beginning of that, at any scale; of several, it is that which
    was started, or went on, last.

    Raises:
        ResultsError: there is no such sweep.
    """
    found = sorted(
        results_dir.glob(f"*/sweeps/{name or ''}*/sweep.json"),
        key=lambda path: path.stat().st_mtime_ns,
    )
    if not found:
        named = f" begins with {name!r}" if name else ""
        raise ResultsError(f"no sweep below {results_dir}{named}")
    folder = found[-1].parent
    kept, rows = read_sweep(folder), []
    for run_id, label in kept["runs"].items():
        run = run_folder(folder.parents[2], folder.parents[1].name, run_id)
        state = RunState(run, label)
        state.poll()
        text = run.error if state.status == "failed" else state.text
        progress = text if state.status != "done" and run.path.exists() else ""
        status = run_state(run)
        if status == "absent":  # a record outlives the folder
            status = "done" if current_record(run) else "queued"
        row = {"run_id": run_id, "status": status, "label": label, "progress": progress}
        rows.append(row)
    jobs = None
    if kept["jobs"] and shutil.which("squeue"):
        from repro.runs.slurm import queue

        try:
            states = Counter(queue(kept["jobs"]).values())
            jobs = ", ".join(f"{number} {state}" for state, number in states.items())
        except OSError as error:
            jobs = str(error).splitlines()[-1]
    counts = dict(Counter(row["status"] for row in rows))
    facts = {"folder": str(folder), "command": kept["command"], "running": is_claimed(folder)}
    return {**facts, "runs": rows, "jobs": jobs, "counts": counts}


def print_status(found: Facts) -> None:
    """Print the runs of a sweep that are not done, and the number of runs by status."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(f"{found['folder']}\n{found['command']}")
    for row in found["runs"]:
        if row["status"] != "done":
            console.print(f"{row['run_id']}  {row['status']:12}{row['label']}  {row['progress']}")
    if found["jobs"] is not None:
        console.print(f"jobs: {found['jobs'] or 'none in the queue'}")
    counts, works = found["counts"], found["running"] or found["jobs"]
    if {"queued", "interrupted"} & {*counts} and "running" not in counts and not works:
        console.print(f"nothing is running; continue with: {found['command']}")
    console.print(", ".join(f"{number} {status}" for status, number in counts.items()))
