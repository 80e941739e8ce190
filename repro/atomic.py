"""Atomic writes: a file is seen whole, in its old or its new state, and never in between."""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary file beside ``path``, which takes its place once the block has filled it.

    Args:
        path: the file to write; its folder is made if it is missing.

    Raises:
        OSError: the file cannot be written; its old content then stands unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
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
