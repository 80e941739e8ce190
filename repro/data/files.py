"""Atomic writes, checksums and lines of files."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from repro.data.errors import DataError


def write_atomic(path: Path, content: bytes) -> None:
    """Write a whole file or nothing, by renaming a temporary file of the same folder.

    Args:
        path: the file; missing parent folders are made.
        content: its bytes; an existing file with the same bytes is left alone.
    """
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as temporary:
            temporary.write(content)
        Path(name).chmod(0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def sha256_of(content: bytes) -> str:
    """SHA-256 of ``content`` as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def numbered_lines(content: bytes, path: Path) -> Iterator[tuple[int, str]]:
    """Lines of UTF-8 text with their numbers from one.

    Only LF and CR LF end a line; other line breaks of Unicode are ordinary symbols.

    Args:
        content: the bytes; the last line may lack its LF.
        path: where they were read, for messages.

    Raises:
        DataError: a line is not UTF-8; names the file and the line.
    """
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}:{number}: not UTF-8 (byte {error.start + 1})") from None
        yield number, text.removesuffix("\r")
