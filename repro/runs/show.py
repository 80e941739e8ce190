"""Print one run, or how far a sweep is, from the folders that they keep."""

import shutil
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from repro.results import ResultsError, find_run, run_folder
from repro.runs.display import RunState, last_line
from repro.runs.launch import read_sweep
from repro.runs.locking import is_claimed


def show(results_dir: Path, run_id: str) -> None:
    """Print a run.

    Args:
        results_dir: searched at every scale.
        run_id: an identity, or the beginning of one.

    Raises:
        ResultsError: no run, or several, begin like this.
    """
    folder = find_run(results_dir, run_id)
    console = Console()

    def show_file(title: str, path: Path) -> None:
        console.rule(title)
        text = path.read_text(encoding="utf-8", errors="replace")
        console.print(escape(text), highlight=False, soft_wrap=True)

    interrupted = folder.status == "running" and not is_claimed(folder.path)
    state, path = "interrupted" if interrupted else folder.status, escape(str(folder.path))
    console.print(f"[bold]{folder.run_id}[/]  {state}  {path}", soft_wrap=True)
    if damaged := folder.damaged_files():
        console.print(f"  damaged    {escape(', '.join(damaged))}", highlight=False, soft_wrap=True)
    elif folder.environment.exists():
        for key, value in folder.read_environment().items():
            console.print(f"  {key:10} {escape(str(value))}", highlight=False, soft_wrap=True)
    if folder.config.exists():
        show_file("configuration", folder.config)
    if folder.traceback.exists():
        show_file("traceback", folder.traceback)
    if folder.status == "done":
        table, record = Table("metric", "value", "signature"), folder.read_record()
        for metric, number in record.metrics.items():
            table.add_row(escape(metric), f"{number:.4f}", escape(record.signatures[metric]))
        console.print(table)


def show_status(results_dir: Path, name: str | None) -> int:
    """Print the runs of a sweep that have not ended well, and the number of the others.

    Args:
        results_dir: searched at every scale.
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
        raise ResultsError(
            f"no sweep below {results_dir}" + (f" begins with {name!r}" * bool(name))
        )
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
