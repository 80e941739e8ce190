"""Files of one JSON object per line, written whole or grown line by line.

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
        stream.truncate(len(_whole_lines(stream.read())))
        stream.write(_line(row))
        stream.flush()
        os.fsync(stream.fileno())


def read_rows(path: Path) -> list[Row]:
    """Read every row of a file that was written whole.

    Raises:
        ResultsError: the file is missing or ends in a torn line, or a line is no JSON object.
    """
    content = _content(path)
    whole = _whole_lines(content)
    if len(whole) != len(content):
        torn = whole.count(b"\n") + 1
        raise ResultsError(f"{path}:{torn}: the last line is torn")
    return _parse_lines(path, whole)


def read_grown_rows(path: Path) -> list[Row]:
    """Read every row of a file that grows; a torn last line is left out, no file means no rows.

    Raises:
        ResultsError: a whole line is no JSON object.
    """
    return _parse_lines(path, _whole_lines(_content(path))) if path.exists() else []


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise ResultsError(f"{path}: no such file")
    return path.read_bytes()


def _whole_lines(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n"


def _parse_lines(path: Path, whole: bytes) -> list[Row]:
    lines = whole.split(b"\n")[:-1]
    return [_parse(path, number, line) for number, line in enumerate(lines, start=1)]


def _parse(path: Path, number: int, line: bytes) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:  # the latter where brackets nest too deeply
        raise ResultsError(f"{path}:{number}: not JSON ({error})") from error
    if not isinstance(row, dict):
        raise ResultsError(f"{path}:{number}: expected an object, found {type(row).__name__}")
    return row
