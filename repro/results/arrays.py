"""Named arrays of numbers in one compressed file, ``.npz`` without any pickled object."""

import lzma
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.atomic import atomic_path
from repro.results.errors import ResultsError

Array = NDArray[np.number]
_UNREADABLE = (
    OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
    RuntimeError,  # an encrypted member, or a compression that is not supported
    MemoryError, OverflowError,  # a shape that cannot be
)  # fmt: skip


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Replace a file by these arrays, atomically; the same arrays give the same bytes.

    Args:
        path: ends in ``.npz``.
        arrays: arrays of numbers; names may contain ``/``.

    Raises:
        ValueError: an array holds objects.
    """
    objects = [name for name, array in arrays.items() if array.dtype.hasobject]
    if objects:
        raise ValueError(f"arrays of objects cannot be stored: {', '.join(objects)}")
    ordered: dict[str, Any] = dict(sorted(arrays.items()))
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **ordered)


def read_arrays(path: Path) -> dict[str, Array]:
    """Read what :func:`write_arrays` wrote.

    Raises:
        ResultsError: the file is missing or damaged.
    """
    try:
        found: dict[str, Array] = {}
        with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            for name in archive.namelist():
                with archive.open(name) as member:
                    array = np.lib.format.read_array(member, allow_pickle=False)
                    if member.read(1):  # at its end the checksum of the member is compared
                        raise ValueError(f"{name} is longer than its array")
                found[name.removesuffix(".npy")] = array
        return found
    except _UNREADABLE as error:
        raise ResultsError(f"{path}: no file of arrays ({error})") from error
