"""Exclusive locks on run folders, for processes of one machine or of several.

The lock is one of the kernel (``flock``) on the file ``lock`` in the folder. It ends with its
process, however that ends. Between machines it holds on file systems that pass such locks on, as
NFS from version 4 on and Lustre (mounted with ``flock``) do.
"""

import fcntl
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from repro.atomic import naming
from repro.results import RunFolder

_LOCK = "lock"
_PATIENCE_SECONDS = 0.5
"""Displays hold a lock for a moment, to see whether it is free; that does not make a run busy."""
_POLL_SECONDS = 1.0


class RunBusyError(RuntimeError):
    """Raised when another process works on the run."""


@contextmanager
def run_lock(folder: Path, on_busy: Callable[[RunBusyError], None] | None = None) -> Iterator[None]:
    """Lock the folder of a run or sweep, created if missing, exclusively while the block runs.

    Read the content of the folder inside the block only: it may change until then. If another
    process holds the run, ``on_busy`` is called once and the process waited for.

    Raises:
        RunBusyError: another process holds the run, and there is no ``on_busy``.
        OSError: the folder cannot be written.
    """
    file = folder / _LOCK
    lock = FileLock(file)
    try:
        _acquire(lock, folder, timeout=_PATIENCE_SECONDS)
    except Timeout:
        holder = file.read_text(encoding="utf-8", errors="replace").strip() or "another process"
        busy = RunBusyError(f"{folder}: {holder} is working on it")
        if on_busy is None:
            raise busy from None
        on_busy(busy)
        _acquire(lock, folder, poll=_POLL_SECONDS)
    try:
        since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        file.write_text(f"process {os.getpid()} on {socket.gethostname()}, since {since},\n")
        yield
    finally:
        lock.release()


def _acquire(lock: FileLock, folder: Path, timeout: float = -1, poll: float = 0.05) -> None:
    """Acquire a lock in a folder, which another process may remove meanwhile."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:  # removed when `mkdir` looked at what was in its way
            if folder.exists():
                raise
            continue
        with suppress(FileNotFoundError), naming(folder / _LOCK):
            lock.acquire(timeout, poll_interval=poll)
            return


def remove_locked(folder: Path) -> None:
    """Remove a run folder whose lock this process holds; the lock goes last, so none can enter.

    What an interrupted removal leaves is an interrupted run without an ended training.
    """
    run = RunFolder(folder)
    first = [run.done, run.training, *folder.glob("logged-*")]  # they say how far the run has come
    for path in [*first, *(one for one in folder.iterdir() if one not in first)]:
        if path.name != _LOCK:
            whole = path.is_dir() and not path.is_symlink()
            shutil.rmtree(path) if whole else path.unlink(missing_ok=True)
    (folder / _LOCK).unlink()
    with suppress(OSError):  # another process has begun the run anew
        folder.rmdir()


def is_claimed(folder: Path) -> bool:
    """Return whether a process works on a run or sweep, without writing to its folder."""
    try:
        with (folder / _LOCK).open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, IsADirectoryError):  # no process can hold a folder
        return False
    except OSError:  # held; without `flock`, the file exists while a process holds it
        return True
    return False


def announce(busy: RunBusyError) -> None:
    """Print that this process waits; usable as ``on_busy`` of :func:`run_lock`."""
    print(f"repro: waiting: {busy}", file=sys.stderr)


STATES = frozenset({"done", "failed", "interrupted", "running"})
"""States of runs that have a folder."""


def run_state(folder: RunFolder) -> str:
    """Return the status of a run, ``interrupted`` if no process works on it."""
    interrupted = folder.status == "running" and not is_claimed(folder.path)
    return "interrupted" if interrupted else folder.status
