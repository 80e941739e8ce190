"""Named arrays of numbers in one compressed file, ``.npz`` without any pickled object."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.atomic import atomic_path
from repro.results.errors import ResultsError

Array = NDArray[np.number]


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Replace a file by these arrays, atomically; the same arrays give the same bytes.

    Args:
        path: ends in ``.npz``.
        arrays: of numbers; names may contain ``/``.

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
        with np.load(path, allow_pickle=False) as content:
            return {name: content[name] for name in content.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ResultsError(f"{path}: no file of arrays ({error})") from error
