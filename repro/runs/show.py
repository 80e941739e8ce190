"""Print one run: its state, its configuration and its records."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from repro.results import RunFolder, find_run
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
    path = escape(str(folder.path))
    console.print(f"[bold]{folder.run_id}[/]  {_state(folder)}  {path}", soft_wrap=True)
    if damaged := folder.damaged_files():
        console.print(f"  damaged    {escape(', '.join(damaged))}", highlight=False, soft_wrap=True)
    elif folder.environment.exists():
        for key, value in folder.read_environment().items():
            console.print(f"  {key:10} {escape(str(value))}", highlight=False, soft_wrap=True)
    if folder.config.exists():
        console.rule("configuration")
        console.print(escape(_text(folder.config)), highlight=False, soft_wrap=True)
    _show_outcome(console, folder)


def _state(folder: RunFolder) -> str:
    """Name the state of a run, ``"interrupted"`` where no process works on it any more."""
    stopped = folder.status == "running" and not is_claimed(folder.path)
    return "interrupted" if stopped else folder.status


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _show_outcome(console: Console, folder: RunFolder) -> None:
    if folder.traceback.exists():
        console.rule("traceback")
        console.print(escape(_text(folder.traceback)), highlight=False, soft_wrap=True)
    if folder.status != "done":
        return
    table = Table("metric", "value", "signature")
    record = folder.read_record()
    for metric, value in record.metrics.items():
        table.add_row(escape(metric), f"{value:.4f}", escape(record.signatures[metric]))
    console.print(table)
