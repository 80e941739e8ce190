"""How kernels are compiled: no Python objects, no global lock, sums may be reordered."""

import hashlib
from pathlib import Path
from typing import Any

from numba import njit


def _fingerprint(folder: Path) -> int:
    """A number that changes with every source file of a folder, never zero."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:6], "big") + 1


SOURCES = _fingerprint(Path(__file__).parent)
"""Part of the key of compiled code on disk, where numba itself looks at one file only."""

EXACT: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, "forceinline": True}
"""Options of functions whose rounding tricks must not be reordered."""

exact = njit(**EXACT)
"""Compiles such a function."""

_FREE: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}

inner = njit(**_FREE)
"""Compiles any other function; its sums may use vector instructions, NaN keeps its meaning."""

small = njit(**_FREE, forceinline=True)
"""The same for functions that are called for every short row: a call costs more than their work."""
