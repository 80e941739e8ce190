"""Atomic writes: a file is seen whole, in its old or its new state, and never in between."""

import fcntl
import json
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from repro.checksums import checksum_line, pending_sidecar, sha256_of_file, sidecar
from repro.processes import process_start, system_identity

_TEMPORARY = re.compile(r"\..*\.(?:(?P<system>[0-9a-f]{8})-)?(?P<pid>\d+)-[0-9a-f]{8}\.tmp")
_ABANDONED_SECONDS = 24 * 3600.0
"""Age of a temporary file after which its writer is taken for dead where nobody can look."""


def temporary_beside(path: Path) -> Path:
    """Name a temporary file or folder for what will be ``path``, and remove abandoned ones.

    The name holds the process that writes it. Whatever a killed process left in the folder is
    removed: at once if the process ran on this system, else after a day without a change.

    Args:
        path: a file or folder of an existing folder.
    """
    for entry in path.parent.glob(".*.tmp"):
        with suppress(OSError):  # another process removed it first, or it belongs to another user
            if (parts := _TEMPORARY.fullmatch(entry.name)) is None:
                continue
            if parts["system"] == system_identity():
                abandoned = process_start(int(parts["pid"])) is None
            else:
                changed = max(file.stat().st_mtime for file in (entry, *entry.rglob("*")))
                abandoned = time.time() - changed > _ABANDONED_SECONDS
            if abandoned:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    name = f".{path.name}.{system_identity()}-{os.getpid()}-{secrets.token_hex(4)}.tmp"
    return path.with_name(name)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield an empty folder below the system's temporary folder, which the block may fill.

    Unlike those of :mod:`tempfile`, the folder of a killed process is removed by the next call.
    """
    folder = temporary_beside(Path(tempfile.gettempdir()) / "repro")
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def atomic_path(path: Path, checksum: bool = False) -> Iterator[Path]:
    """Yield a temporary file beside ``path``, which replaces it once the block has filled it.

    Args:
        path: the file to write; its folder is made if it is missing.
        checksum: keep a checksum beside the file, for :func:`repro.checksums.verify`. It is
            written as pending before the file is replaced and renamed afterwards, so that a crash
            at any moment leaves a file that matches one of the two.

    Raises:
        OSError: the file cannot be written; its old content is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(path)
    try:
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        if checksum:
            line = checksum_line(sha256_of_file(temporary), path.name)
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                # Of two writers of one file, the checksum of the last one must stay.
                with suppress(OSError):  # not every file system has locks
                    fcntl.flock(folder, fcntl.LOCK_EX)
                atomic_write_text(pending_sidecar(path), line)
                os.replace(temporary, path)
                _sync(path.parent)
                with suppress(FileNotFoundError):  # another writer was there, without locks
                    os.replace(pending_sidecar(path), sidecar(path))
            finally:
                os.close(folder)
        else:
            os.replace(temporary, path)
            _sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sync(folder: Path) -> None:
    """Put a new name on disk, where the file system can do that for a folder."""
    # The file is complete and in place: where a folder cannot be opened or synchronised, as on
    # some network file systems, only a power cut may still undo the renaming.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def atomic_write_bytes(path: Path, content: bytes, checksum: bool = False) -> None:
    """Replace the content of a file in one step; see :func:`atomic_path`."""
    with atomic_path(path, checksum) as temporary:
        temporary.write_bytes(content)


def atomic_write_text(path: Path, content: str, checksum: bool = False) -> None:
    """Replace the content of a file by text in UTF-8, with its line ends as they are."""
    atomic_write_bytes(path, content.encode("utf-8"), checksum)


def atomic_write_json(path: Path, value: Any, checksum: bool = False) -> None:
    """Replace the content of a file by a value as JSON; NaN and infinities are refused."""
    content = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    atomic_write_text(path, content + "\n", checksum)
