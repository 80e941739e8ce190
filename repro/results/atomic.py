"""Atomic writes: a file is seen whole, in its old or its new state, and never in between."""

import json
import os
import secrets
from pathlib import Path
from typing import Any


def atomic_write_bytes(path: Path, content: bytes) -> None:
    """Replace the content of a file in one step, making its folder if it is missing.

    Args:
        path: the file to write.
        content: its new content.

    Raises:
        OSError: the file cannot be written; its old content then stands unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def atomic_write_text(path: Path, content: str) -> None:
    """Like :func:`atomic_write_bytes`, for text in UTF-8 with its line ends as they are."""
    atomic_write_bytes(path, content.encode("utf-8"))


def atomic_write_json(path: Path, value: Any) -> None:
    """Like :func:`atomic_write_bytes`, for a value of JSON; NaN and infinities are refused."""
    content = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    atomic_write_text(path, content + "\n")
