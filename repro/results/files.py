"""Files of results: named arrays of numbers, one JSON object, or one JSON object per line.

A line is complete only with its line feed: text after the last one was left by a crash. Control
characters are read as :func:`~repro.errors.visible` writes them, since tables, pages and figures
show what is read.
"""

import json
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.atomic import atomic_path, atomic_write_bytes, naming
from repro.errors import CONTROL, ResultsError, visible

Array = NDArray[np.number]
Row = dict[str, Any]
_UNREADABLE = (
    OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
    RuntimeError,  # an encrypted member, or a compression that is not supported
    MemoryError, OverflowError,  # an impossible shape
)  # fmt: skip


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays to an ``.npz`` file atomically; equal arrays give identical bytes.

    Nothing is pickled; names may contain ``/``.

    Raises:
        ValueError: an array has the dtype object.
    """
    objects = [name for name, array in arrays.items() if array.dtype.hasobject]
    if objects:
        raise ValueError(f"arrays of objects cannot be stored: {', '.join(objects)}")
    ordered: dict[str, Any] = dict(sorted(arrays.items()))
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **ordered)


def read_arrays(path: Path) -> dict[str, Array]:
    """Read the output of :func:`write_arrays`.

    Raises:
        ResultsError: the file is missing or damaged.
    """
    try:
        found: dict[str, Array] = {}
        with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            for name in archive.namelist():
                with archive.open(name) as member:
                    array = np.lib.format.read_array(member, allow_pickle=False)
                    if member.read(1):  # reading up to the end verifies the CRC
                        raise ValueError(f"{name} is longer than its array")
                found[name.removesuffix(".npy")] = array
        return found
    except _UNREADABLE as error:
        raise ResultsError(f"{path}: not a file of arrays ({error})") from error


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows to a file atomically."""
    atomic_write_bytes(path, b"".join(_line(row) for row in rows))


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append one row and flush it to disk; an incomplete last line is removed first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path), path.open("a+b") as stream:
        stream.seek(0)
        stream.truncate(stream.read().rfind(b"\n") + 1)
        stream.write(_line(row))
        stream.flush()
        os.fsync(stream.fileno())


def read_rows(path: Path, grown: bool = False) -> list[Row]:
    """Read every row of a file.

    If the file is ``grown`` by rows that are appended, an incomplete last line is ignored, and a
    missing file has no rows.

    Raises:
        ResultsError: the file is missing, its last line incomplete, or a line not a JSON object.
    """
    if not path.is_file():
        if grown and not path.exists():
            return []
        raise ResultsError(f"{path}: no such file")
    *lines, torn = path.read_bytes().split(b"\n")
    if torn and not grown:
        raise ResultsError(f"{path}:{len(lines) + 1}: the last line is incomplete")
    return [_parsed(line, f"{path}:{number}") for number, line in enumerate(lines, start=1)]


def read_object(path: Path, exact: bool = False) -> Row:
    """Read a file that contains one JSON object.

    With ``exact``, control characters stay as they are, for what is not shown.

    Raises:
        ResultsError: the file is missing or not a JSON object.
    """
    try:
        return _parsed(path.read_bytes(), str(path), exact)
    except FileNotFoundError:
        raise ResultsError(f"{path}: no such file") from None


def _parsed(text: bytes, place: str, exact: bool = False) -> Row:
    try:
        value = json.loads(text)
        if b"\\u" in text:  # half a surrogate pair could be neither printed nor written
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:  # the latter if brackets nest too deeply
        raise ResultsError(f"{place}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ResultsError(f"{place}: expected an object, found {type(value).__name__}")
    # Most rows are weights by the thousand: only escapes and characters as they are can hide one.
    safe = exact or (b"\\" not in text and not CONTROL.search(text.decode(errors="replace")))
    return value if safe else visible(value)


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n"
