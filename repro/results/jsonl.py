"""Files of one JSON object, or of one per line, written whole or grown line by line.

A line counts only together with its line feed: what a crash left after the last one is no line.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from repro.atomic import atomic_write_bytes
from repro.results.errors import ResultsError

Row = dict[str, Any]


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], checksum: bool = False) -> None:
    """Replace a file by these rows, atomically; see :func:`repro.atomic.atomic_path`."""
    atomic_write_bytes(path, b"".join(_line(row) for row in rows), checksum)


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Add one row at the end, on disk before this returns; a torn last line is cut off first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as stream:
        stream.seek(0)
        stream.truncate(stream.read().rfind(b"\n") + 1)
        stream.write(_line(row))
        stream.flush()
        os.fsync(stream.fileno())


def read_rows(path: Path, grown: bool = False) -> list[Row]:
    """Read every row of a file.

    Args:
        path: the file.
        grown: it grows line by line: a torn last line is left out, and no file means no rows.

    Raises:
        ResultsError: the file is missing or ends in a torn line, or a line is no JSON object.
    """
    if not path.is_file():
        if grown and not path.exists():
            return []
        raise ResultsError(f"{path}: no such file")
    *lines, torn = path.read_bytes().split(b"\n")
    if torn and not grown:
        raise ResultsError(f"{path}:{len(lines) + 1}: the last line is torn")
    rows = []
    for number, line in enumerate(lines, start=1):
        rows.append(_parsed(line, f"{path}:{number}"))
    return rows


def read_object(path: Path) -> Row:
    """Read a file that is one JSON object.

    Raises:
        ResultsError: the file is missing, or something else.
    """
    try:
        return _parsed(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise ResultsError(f"{path}: no such file") from None


def _parsed(text: bytes, place: str) -> Row:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # the latter where brackets nest too deeply
        raise ResultsError(f"{place}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ResultsError(f"{place}: expected an object, found {type(value).__name__}")
    return value


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n"
