"""Where everything lies below the results folder; no other module joins these paths."""

from pathlib import Path


def scale_dir(results_dir: Path, scale: str) -> Path:
    """Everything of one scale."""
    return results_dir / scale


def runs_dir(results_dir: Path, scale: str) -> Path:
    """Folders of the runs, one per run."""
    return results_dir / scale / "runs"


def records_path(results_dir: Path, scale: str, experiment_name: str) -> Path:
    """Tidy records of one experiment."""
    return results_dir / scale / "records" / f"{experiment_name}.csv"


def comparisons_path(results_dir: Path, scale: str, experiment_name: str) -> Path:
    """Comparisons of one experiment's rows with its baseline."""
    return results_dir / scale / "significance" / f"{experiment_name}.csv"


def table_path(results_dir: Path, scale: str, experiment_name: str, suffix: str) -> Path:
    """One rendering of a table; ``suffix`` is ``"md"``, ``"tex"`` or ``"csv"``."""
    return results_dir / scale / "tables" / f"{experiment_name}.{suffix}"


def figure_path(results_dir: Path, scale: str, experiment_name: str, suffix: str) -> Path:
    """Data or rendering of a figure; ``suffix`` is ``"json"``, ``"svg"`` or ``"png"``."""
    return results_dir / scale / "figures" / f"{experiment_name}.{suffix}"
