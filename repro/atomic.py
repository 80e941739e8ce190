"""Atomic writes: readers see a file in its old or its new state, never a partial one."""

import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_ABANDONED_SECONDS = 24 * 3600.0
"""Age after which a temporary file counts as left by a killed process."""


def temporary_beside(path: Path) -> Path:
    """Return a temporary name beside ``path``, and remove what killed processes left there."""
    for entry in path.parent.glob(f".*-{'[0-9a-f]' * 8}.tmp"):
        with suppress(OSError):  # another process removed it first, or it belongs to another user
            changed = max(file.stat().st_mtime for file in (entry, *entry.rglob("*")))
            if time.time() - changed > _ABANDONED_SECONDS:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    return path.with_name(f".{path.name}-{secrets.token_hex(4)}.tmp")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add ``path`` to an OSError of the block that names no file, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside ``path``, which replaces it once the block has filled it.

    The folder is created if it is missing.

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
        os.replace(temporary, path)
        # The file is complete and in place: if a folder cannot be opened or synchronized, as on
        # some network file systems, only a power failure may still undo the renaming.
        with suppress(OSError):
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def atomic_write_bytes(path: Path, content: bytes) -> None:
    """Replace the content of a file in one step; see :func:`atomic_path`."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def atomic_write_text(path: Path, content: str) -> None:
    """Replace the content of a file in one step by text in UTF-8, without newline translation."""
    atomic_write_bytes(path, content.encode("utf-8"))


def atomic_write_json(path: Path, value: Any) -> None:
    """Replace the content of a file in one step by JSON; ``ValueError`` for NaN and infinities."""
    content = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    atomic_write_text(path, content + "\n")
