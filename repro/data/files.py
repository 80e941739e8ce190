"""Checksums and lines of files, and writes that leave equal files alone."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from repro.atomic import atomic_write_bytes
from repro.data.errors import DataError

GIT_DIGITS = 40
"""Hexadecimal digits of a git blob id; SHA-256 has 64."""


def write_if_changed(path: Path, content: bytes) -> None:
    """Write a whole file or nothing; an existing file with the same bytes is left alone."""
    if not path.is_file() or path.read_bytes() != content:
        atomic_write_bytes(path, content)


def sha256_of(content: bytes) -> str:
    """SHA-256 of ``content`` as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def git_blob_id(content: bytes) -> str:
    """The name git gives to a file with this content: 40 hexadecimal digits of SHA-1."""
    header = f"blob {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def checksum_like(known: str, content: bytes) -> str:
    """The checksum of ``content`` of the same kind: a git blob id if it has 40 digits."""
    return git_blob_id(content) if len(known) == GIT_DIGITS else sha256_of(content)


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
