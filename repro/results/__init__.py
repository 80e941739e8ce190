"""Access to the results folder: records, run folders, atomic writes."""

from typing import TYPE_CHECKING, Any

from repro.atomic import atomic_write_bytes, atomic_write_json, atomic_write_text
from repro.errors import ResultsError
from repro.results.comparison import Comparison, read_comparisons, write_comparisons
from repro.results.frame import load
from repro.results.layout import (
    OWN_SPLIT,
    figure_path,
    has_figure_data,
    record_path,
    require_writable,
    runs_dir,
    scale_dir,
    table_path,
)
from repro.results.record import Record, from_dict, read_record
from repro.results.store import (
    RunFolder,
    Status,
    all_records,
    find_record,
    find_run,
    list_runs,
    publish,
    read_records,
    read_statistics,
    recent_runs,
    run_folder,
)

if TYPE_CHECKING:
    from repro.results.cells import Archive, Measurement

__all__ = [
    "OWN_SPLIT",
    "Archive",
    "Comparison",
    "Measurement",
    "Record",
    "ResultsError",
    "RunFolder",
    "Status",
    "all_records",
    "atomic_write_bytes",
    "atomic_write_json",
    "atomic_write_text",
    "figure_path",
    "find_record",
    "find_run",
    "from_dict",
    "has_figure_data",
    "list_runs",
    "load",
    "publish",
    "read_comparisons",
    "read_record",
    "read_records",
    "read_statistics",
    "recent_runs",
    "record_path",
    "require_writable",
    "run_folder",
    "runs_dir",
    "scale_dir",
    "table_path",
    "write_comparisons",
]


def __getattr__(name: str) -> Any:
    """Import cells on first use: they need Hydra and every metric, a folder of results neither."""
    if name not in ("Archive", "Measurement"):
        raise AttributeError(name)
    from repro.results import cells

    return getattr(cells, name)
