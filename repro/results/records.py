"""Records of one scale: a file for each finished run, whoever started it."""

import logging
from pathlib import Path

from repro.atomic import atomic_write_text
from repro.checksums import DamagedFileError
from repro.results.layout import record_path
from repro.results.record import Record, read_record
from repro.results.store import list_runs

_log = logging.getLogger(__name__)


def publish(results_dir: Path, record: Record) -> Path:
    """Put the record of a finished run beside the others of its scale; returns its file."""
    path = record_path(results_dir, record.scale, record.run_id)
    atomic_write_text(path, record.to_json() + "\n")
    return path


def read_records(results_dir: Path, scale: str) -> list[Record]:
    """Read the record of every run, by name; of runs copied from elsewhere, in their folders.

    Damaged records are left out; a warning names their file.

    Raises:
        ResultsError: a file is no record.
    """
    published = record_path(results_dir, scale, "").parent.glob("*.json")
    finished = (folder.record for folder in list_runs(results_dir, scale) if folder.done.exists())
    found: dict[str, Record] = {}
    for path in (*sorted(published), *finished):
        if path.parent.name in found:
            continue
        try:
            record = read_record(path)
            found[record.run_id] = record
        except DamagedFileError as error:
            _log.warning("%s", error)
    return [found[name] for name in sorted(found)]
