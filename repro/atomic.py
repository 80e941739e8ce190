"""Atomic writes: a file is seen whole, in its old or its new state, and never in between."""

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

from repro.processes import process_start, system_identity

_TEMPORARY = re.compile(r"\..*\.(?:(?P<system>[0-9a-f]{8})-)?(?P<pid>\d+)-[0-9a-f]{8}\.tmp")
_ABANDONED_SECONDS = 24 * 3600.0
"""Age of a temporary file after which its writer is taken for dead where nobody can look."""


def temporary_beside(path: Path) -> Path:
    """Name a temporary file or folder for what will be ``path``, and remove abandoned ones.

    The name tells the process that writes it. Whatever a killed process left in the folder is
    removed: at once if the process ran on this system, else after a day without a change.

    Args:
        path: a file or folder of an existing folder.
    """
    for entry in path.parent.glob(".*.tmp"):
        with suppress(OSError):  # another process removed it first, or it belongs to another user
            if _is_abandoned(entry):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    name = f".{path.name}.{system_identity()}-{os.getpid()}-{secrets.token_hex(4)}.tmp"
    return path.with_name(name)


def _is_abandoned(path: Path) -> bool:
    parts = _TEMPORARY.fullmatch(path.name)
    if parts is None:
        return False
    if parts["system"] == system_identity():
        return process_start(int(parts["pid"])) is None
    changed = max(file.stat().st_mtime for file in (path, *path.rglob("*")))
    return time.time() - changed > _ABANDONED_SECONDS


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
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside ``path``, which replaces it once the block has filled it.

    Args:
        path: the file to write; its folder is made if it is missing.

    Raises:
        OSError: the file cannot be written; its old content then stands unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(path)
    try:
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def atomic_write_bytes(path: Path, content: bytes) -> None:
    """Replace the content of a file in one step; see :func:`atomic_path`."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def atomic_write_text(path: Path, content: str) -> None:
    """Like :func:`atomic_write_bytes`, for text in UTF-8 with its line ends as they are."""
    atomic_write_bytes(path, content.encode("utf-8"))


def atomic_write_json(path: Path, value: Any) -> None:
    """Like :func:`atomic_write_bytes`, for a value of JSON; NaN and infinities are refused."""
    content = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    atomic_write_text(path, content + "\n")
