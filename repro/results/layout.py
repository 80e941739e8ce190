"""Paths in the results folder."""

import os
from pathlib import Path

from repro.errors import ResultsError

OWN_SPLIT = "own"
"""Split of the examples in ``experiments/examples``, which belong to no corpus."""


def require_writable(results_dir: Path) -> None:
    """Check that the results folder can be written to, before anything is computed.

    Raises:
        ResultsError: the folder, or if it does not exist its nearest existing parent, is not a
            folder, read-only, or a broken symbolic link.
    """
    above = (results_dir, *results_dir.absolute().parents)
    nearest = next(path for path in above if path.exists() or path.is_symlink())
    if not nearest.exists():
        raise ResultsError(f"results_dir={results_dir}: {nearest} is a broken symbolic link")
    if not nearest.is_dir():
        raise ResultsError(f"results_dir={results_dir}: {nearest} is a file; expected a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ResultsError(f"results_dir={results_dir}: {nearest} is read-only")


def scale_dir(results_dir: Path, scale: str) -> Path:
    """Return the folder of one scale."""
    return results_dir / scale


def runs_dir(results_dir: Path, scale: str) -> Path:
    """Return the folder that contains the run folders."""
    return results_dir / scale / "runs"


def record_path(results_dir: Path, scale: str, run_id: str) -> Path:
    """Return the path of the record of one finished run."""
    return results_dir / scale / "records" / f"{run_id}.json"


def statistics_path(results_dir: Path, scale: str, run_id: str) -> Path:
    """Return the path of the sufficient statistics of one finished run, kept with its record."""
    return results_dir / scale / "statistics" / f"{run_id}.npz"


def comparisons_path(results_dir: Path, scale: str) -> Path:
    """Return the path of the paired tests between runs of one scale."""
    return results_dir / scale / "significance.csv"


def table_path(results_dir: Path, scale: str, experiment_name: str, suffix: str) -> Path:
    """Return the path of a table; ``suffix`` is ``"md"``, ``"tex"`` or ``"csv"``."""
    return results_dir / scale / "tables" / f"{experiment_name}.{suffix}"


def speeds_path(results_dir: Path, scale: str, experiment_name: str) -> Path:
    """Return the path of the speeds of an artefact, from updates timed in turn."""
    return results_dir / scale / "speeds" / f"{experiment_name}.json"


def figure_path(results_dir: Path, scale: str, experiment_name: str, suffix: str) -> Path:
    """Return the path of a figure (``suffix`` ``"svg"`` or ``"png"``) or its data (``"json"``)."""
    return results_dir / scale / "figures" / f"{experiment_name}.{suffix}"


def has_figure_data(results_dir: Path, scale: str) -> bool:
    """Return whether any figure has data at this scale, which does not imply a run."""
    return any((results_dir / scale / "figures").glob("*/*.json"))


def plans_path(results_dir: Path, scale: str) -> Path:
    """Return the path of the cache of composed configurations of planned runs."""
    return results_dir / scale / "plans.json"
