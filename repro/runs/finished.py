"""Finished runs, as long as their files are those that the run wrote."""

import logging

from repro.results import RunFolder

_log = logging.getLogger(__name__)


def is_finished(folder: RunFolder) -> bool:
    """Tell whether a run is done and its files are whole; a warning names damaged ones."""
    if folder.status != "done":
        return False
    damaged = folder.damaged_files()
    if damaged:
        _log.warning("%s: damaged (%s); the run is repeated", folder.path, ", ".join(damaged))
    return not damaged
