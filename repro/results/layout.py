"""Layout of the results folder; no other module joins these paths."""

import os
from pathlib import Path

from repro.results.errors import ResultsError


def require_writable(results_dir: Path) -> None:
    """Refuse a results folder that nothing can be written to, before anything is computed.

    Raises:
        ResultsError: it, or the nearest folder above it that exists, is no folder or read-only, or
            is a symbolic link that leads nowhere.
    """
    above = (results_dir, *results_dir.absolute().parents)
    nearest = next(path for path in above if path.exists() or path.is_symlink())
    if not nearest.exists():
        raise ResultsError(f"results_dir={results_dir}: {nearest} is a link that leads nowhere")
    if not nearest.is_dir():
        raise ResultsError(f"results_dir={results_dir}: {nearest} is a file; expected a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ResultsError(f"results_dir={results_dir}: {nearest} is read-only")


def scale_dir(results_dir: Path, scale: str) -> Path:
    """Everything of one scale."""
    return results_dir / scale


def runs_dir(results_dir: Path, scale: str) -> Path:
    """Folders of the runs, one per run."""
    return results_dir / scale / "runs"


def record_path(results_dir: Path, scale: str, run_id: str) -> Path:
    """Record of one finished run."""
    return results_dir / scale / "records" / f"{run_id}.json"


def comparisons_path(results_dir: Path, scale: str) -> Path:
    """Paired tests between runs of one scale."""
    return results_dir / scale / "significance.csv"


def table_path(results_dir: Path, scale: str, experiment_name: str, suffix: str) -> Path:
    """One rendering of a table; ``suffix`` is ``"md"``, ``"tex"`` or ``"csv"``."""
    return results_dir / scale / "tables" / f"{experiment_name}.{suffix}"


def figure_path(results_dir: Path, scale: str, experiment_name: str, suffix: str) -> Path:
    """Data or rendering of a figure; ``suffix`` is ``"json"``, ``"svg"`` or ``"png"``."""
    return results_dir / scale / "figures" / f"{experiment_name}.{suffix}"


def has_figure_data(results_dir: Path, scale: str) -> bool:
    """Return whether any figure has data at this scale; those of the library need no run."""
    return any((results_dir / scale / "figures").glob("*/*.json"))


def plans_path(results_dir: Path, scale: str) -> Path:
    """Composed configurations of the planned runs, kept from one report to the next."""
    return results_dir / scale / "plans.json"
