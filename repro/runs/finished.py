"""Finished runs, as long as their files are those that the run wrote."""

import logging

from repro.checksums import DamagedFileError
from repro.results import Record, RunFolder

_log = logging.getLogger(__name__)


def is_finished(folder: RunFolder) -> bool:
    """Tell whether a run is done and its files are whole; a warning names damaged ones."""
    if folder.status != "done":
        return False
    damaged = folder.damaged_files()
    if damaged:
        _log.warning("%s: damaged (%s); the run is repeated", folder.path, ", ".join(damaged))
    return not damaged


def finished_records(folder: RunFolder) -> list[Record]:
    """Records of a run; none if it is not done, or, with a warning, if they are damaged."""
    if folder.status != "done":
        return []
    try:
        return folder.read_records()
    except DamagedFileError as error:
        _log.warning("%s; the run counts as not done", error)
        return []
