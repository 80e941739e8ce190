"""Atomic writes: readers see a file in its old or its new state, never a partial one."""

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
"""Age after which a temporary file counts as abandoned if its writer ran on another system."""


def temporary_beside(path: Path) -> Path:
    """Return a temporary name beside ``path``, and remove abandoned temporary files.

    The name contains the ID of this process. What a killed process left in the folder is removed:
    at once if the process ran on this system, else after a day without changes.

    Args:
        path: final path of the file or folder, in an existing folder.
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
    """Yield an empty folder in the system's temporary folder, removed after the block.

    Unlike those of :mod:`tempfile`, the folder of a killed process is removed by the next call.
    """
    folder = temporary_beside(Path(tempfile.gettempdir()) / "repro")
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let errors of the system in the block name a file: those of a full disk name none."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def atomic_path(path: Path, checksum: bool = False) -> Iterator[Path]:
    """Yield a temporary file beside ``path``, which replaces it once the block has filled it.

    Args:
        path: the file to write; its folder is created if it is missing.
        checksum: write a checksum beside the file, for :func:`repro.checksums.verify`. It is
            written as pending before the file is replaced, and renamed afterwards: after a crash
            at any moment, the file matches either the previous checksum or the pending one.

    Raises:
        OSError: names a file that cannot be written; the old content is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(path)
    try:
        with naming(path):
            yield temporary
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())
        if checksum:
            line = checksum_line(sha256_of_file(temporary), path.name)
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                # If two processes write the file, the checksum must be that of the last one.
                with suppress(OSError):  # not every file system has locks
                    fcntl.flock(folder, fcntl.LOCK_EX)
                atomic_write_text(pending_sidecar(path), line)
                os.replace(temporary, path)
                _sync(path.parent)
                with suppress(FileNotFoundError):  # renamed by another writer, without locks
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
    """Flush the entries of a folder to disk, if the file system supports that."""
    # The file is complete and in place: if a folder cannot be opened or synchronised, as on some
    # network file systems, only a power failure may still undo the renaming.
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
    """Replace the content of a file in one step by text in UTF-8, without newline translation."""
    atomic_write_bytes(path, content.encode("utf-8"), checksum)


def atomic_write_json(path: Path, value: Any, checksum: bool = False) -> None:
    """Replace the content of a file in one step by JSON; ``ValueError`` for NaN and infinities."""
    content = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    atomic_write_text(path, content + "\n", checksum)
