"""Listing and removal of run folders; the records of finished runs stay."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro.checksums import DamagedFileError
from repro.config.identity import flattened, without_nuisance
from repro.errors import meant
from repro.results import ResultsError, RunFolder, read_records, recent_runs
from repro.results.frame import parse_filter
from repro.results.labels import age_text, counted
from repro.results.layout import record_path
from repro.results.record import read_record
from repro.results.store import publish_again, read_config
from repro.runs.display import read_sweep
from repro.runs.locking import (
    STATES,
    RunBusyError,
    is_claimed,
    remove_locked,
    run_lock,
    run_state,
)
from repro.runs.show import days_old, print_list

Row = dict[str, Any]


def run_rows(results_dir: Path, filters: Sequence[str]) -> list[Row]:
    """Describe the run folders that agree with filters, the last changed first.

    Filters are conditions ``KEY=VALUE,VALUE`` on ``state``, ``scale``, ``run_id``, or settings, of
    which a group is named by its choice.

    Returns:
        For each run its identity, scale, state, size in bytes, age in days, folder, and whether
        there are weights.

    Raises:
        ResultsError: a filter is not ``KEY=VALUE``, no run has its key, or there is no such state
            or identity.
    """
    wanted, rows, keys = [*map(parse_filter, filters)], [], set[str]()
    for unknown in {s for key, values in wanted if key == "state" for s in values} - STATES:
        raise ResultsError(f"state={unknown}: expected one of {', '.join(sorted(STATES))}")
    for folder in recent_runs(results_dir):
        content = read_config(folder) if wanted else {}
        typed = flattened(content)
        settings = typed | flattened(without_nuisance(content))
        if "data.folder" in typed:  # its whole path
            settings["data.folder"] = typed["data.folder"]
        row: Row = {
            "run_id": folder.run_id,
            "scale": folder.scale,
            "state": run_state(folder),
            "bytes": 0,
            "days": days_old(folder),
            "weights": folder.model.exists() or folder.checkpoint.exists(),
            "folder": str(folder.path),
        }
        known = settings | row
        keys |= known.keys()
        if all(one.agrees_with(known) for one in wanted):
            files = (path for path in folder.path.rglob("*") if path.is_file())
            row["bytes"] = sum(path.stat().st_size for path in files)
            rows.append(row)
    if not rows and any(key == "run_id" for key, _ in wanted):
        raise ResultsError(f"no run below {results_dir} agrees with {' '.join(filters)}")
    for key, _ in wanted:
        if keys and not {key, f"{key}.name"} & keys:
            raise ResultsError(f"no run has a setting {key!r}{meant(key, keys)}")
    return rows


def print_runs(rows: Sequence[Row]) -> None:
    """Print the result of :func:`run_rows` with the total size."""
    ages, sizes = [age_text(86400 * r["days"]) for r in rows], [size_text(r["bytes"]) for r in rows]
    named = ([row[key] for row in rows] for key in ("run_id", "state", "scale"))
    titles = ("run", "state", "scale", "age", "size")
    print_list(titles, [*zip(*named, ages, sizes, strict=True)])
    total = size_text(sum(row["bytes"] for row in rows))
    print(f"{counted(len(rows), 'run')}, {total}")


def size_text(number: float) -> str:
    """Format a number of bytes in MiB."""
    return f"{number / 2**20:.1f} MiB"


def needed(results_dir: Path) -> dict[str, str]:
    """Map each run to keep to the reason: in an ensemble or unfinished sweep, or in progress."""
    reasons: dict[str, str] = {}
    for scale in {path.parents[1].name for path in results_dir.glob("*/runs/*")}:
        for record in read_records(results_dir, scale):
            reasons |= dict.fromkeys(record.members, f"a member of ensemble {record.run_id}")
    for path in results_dir.glob("*/sweeps/*/sweep.json"):
        folders = {run: path.parents[2] / "runs" / run for run in read_sweep(path.parent)["runs"]}
        if any(is_claimed(folder) for folder in folders.values()):
            reasons |= dict.fromkeys(folders, f"part of the sweep {path.parent.name} in progress")
    for folder in recent_runs(results_dir):
        if is_claimed(folder.path):
            reasons[folder.run_id] = "in progress"
    return reasons


def remove(rows: Sequence[Row], weights: bool) -> list[int]:
    """Remove the folders of runs, or only their weights, each while its lock is held.

    A run that was begun or has ended since it was listed stays, and so does one that is done and
    whose record can neither be published nor is; a line on standard error says so.

    Returns:
        The bytes freed by each removal.
    """
    freed = []
    for row in rows:
        folder = RunFolder(Path(row["folder"]))
        if folder.status == "absent":  # removed by another process
            continue
        try:
            with run_lock(folder.path):
                if folder.status != {"interrupted": "running"}.get(row["state"], row["state"]):
                    print(f"{row['run_id']} kept: it is {folder.status} now", file=sys.stderr)
                elif weights:
                    freed.append(folder.remove_weights())
                else:
                    if folder.status == "done":
                        publish_again(folder)
                        read_record(record_path(*folder.place))  # or its numbers would be lost
                    remove_locked(folder.path)
                    freed.append(row["bytes"])
        except (RunBusyError, DamagedFileError, ResultsError) as error:
            print(f"{row['run_id']} kept: {error}", file=sys.stderr)
    return freed
