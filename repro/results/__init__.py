"""The only door to the results folder: records, run folders, atomic writes."""

from repro.atomic import atomic_write_bytes, atomic_write_json, atomic_write_text
from repro.results.comparison import Comparison, read_comparisons, write_comparisons
from repro.results.errors import ResultsError
from repro.results.layout import (
    comparisons_path,
    figure_path,
    records_path,
    require_writable,
    runs_dir,
    scale_dir,
    table_path,
)
from repro.results.merge import read_experiment_records, write_experiment_records
from repro.results.record import FIELDS, Record, record_from_dict
from repro.results.store import RunFolder, Status, find_run, list_runs, run_folder

__all__ = [
    "FIELDS",
    "Comparison",
    "Record",
    "ResultsError",
    "RunFolder",
    "Status",
    "atomic_write_bytes",
    "atomic_write_json",
    "atomic_write_text",
    "comparisons_path",
    "figure_path",
    "find_run",
    "list_runs",
    "read_comparisons",
    "read_experiment_records",
    "record_from_dict",
    "records_path",
    "require_writable",
    "run_folder",
    "runs_dir",
    "scale_dir",
    "table_path",
    "write_comparisons",
    "write_experiment_records",
]
