"""Print how far a sweep is, from its folder and those of its runs."""

import shutil
from collections import Counter
from pathlib import Path

from rich.console import Console

from repro.results import ResultsError, run_folder
from repro.runs.display import RunState, last_line
from repro.runs.launch import read_sweep


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
