"""One process at a time works in a run folder."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class RunBusyError(RuntimeError):
    """Another process works in the run folder."""


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the system releases it when the process ends, however it ends.

    Raises:
        RunBusyError: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RunBusyError(f"{folder}: another process is working on this run") from error
        yield
