"""Checksums and lines of files, and writes that leave identical files untouched."""

import hashlib
import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from repro.atomic import atomic_write_bytes
from repro.errors import DataError

LineT = TypeVar("LineT")
ExampleT = TypeVar("ExampleT")
_SURROGATE = re.compile("[\ud800-\udfff]")


def require_files(folder: Path, names: Sequence[str], advice: str = "") -> None:
    """Refuse a folder that lacks a file.

    Raises:
        DataError: names the folder, the missing files, all that are expected and those found.
    """
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        found = [name for name in names if name not in missing]
        raise DataError(
            f"{folder} has no {', '.join(missing)}; expected {', '.join(names)}; found "
            f"{', '.join(found) or 'none of them'}{advice}"
        )


def write_if_changed(path: Path, content: bytes) -> None:
    """Write a file atomically, unless it exists with the same bytes."""
    if not path.is_file() or path.read_bytes() != content:
        atomic_write_bytes(path, content)


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of ``content`` as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Decode and number the lines of a file; see :func:`decoded_lines`."""
    with path.open("rb") as stream:
        yield from decoded_lines(stream, path)


def decoded_lines(lines: Iterable[bytes], path: Path) -> Iterator[tuple[int, str]]:
    """Decode and number the lines of a text file, as all readers of text do.

    Only LF and CR LF end a line; other line breaks of Unicode are ordinary characters. A byte order
    mark at the start of the file is dropped.

    Args:
        lines: binary stream, or its lines; the last one may lack its LF.
        path: the file, for messages.

    Yields:
        The number of each line, from one, and its text.

    Raises:
        DataError: a line is not UTF-8; names the file and the line.
    """
    for number, line in enumerate(lines, start=1):
        content = line.removeprefix(BOM_UTF8) if number == 1 else line
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}:{number}: not UTF-8 (byte {error.start + 1})") from None
        yield number, text.removesuffix("\n").removesuffix("\r")


def each_line(
    lines: Iterable[tuple[int, LineT]], path: Path, parse: Callable[[LineT], ExampleT]
) -> Iterator[ExampleT]:
    """Yield the example of each numbered line.

    Raises:
        DataError: ``parse`` raised ValueError; names the file and the line.
    """
    for number, line in lines:
        try:
            example = parse(line)
        except ValueError as error:
            raise DataError(f"{path}:{number}: {error}") from None
        yield example


def parse_json_object(line: str) -> dict[str, Any]:
    """Parse one line of a file of JSON objects.

    Raises:
        ValueError: the line is not a JSON object, or a string in it has a lone surrogate, which
            UTF-8 cannot encode.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected a JSON object ({error})") from None
    if not isinstance(record, dict):
        raise ValueError(f"expected a JSON object, found {type(record).__name__}")
    # Decoded UTF-8 contains no surrogates, so only an escape can introduce one.
    if "\\u" in line and (found := _SURROGATE.search(json.dumps(record, ensure_ascii=False))):
        raise ValueError(
            f"expected text that UTF-8 can encode, found the lone surrogate {found[0]!r}"
        )
    return record
