"""How kernels are compiled: no Python objects, no global lock, sums may be reordered."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit, types
from numba.extending import intrinsic


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

_UNSEEN: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only others call: neither Python nor C has a way in."""

exact = njit(**EXACT, **_UNSEEN)
"""Compiles such a function."""

_FREE: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}

inner = njit(**_FREE, **_UNSEEN)
"""Compiles any other function; its sums may use vector instructions, NaN keeps its meaning."""

small = njit(**_FREE, **_UNSEEN, forceinline=True)
"""The same for functions that are called for every short row: a call costs more than their work."""

lean = njit(**_FREE, **_UNSEEN, forceinline=True, _nrt=False)
"""The same for functions that allocate nothing, where references to arrays are not counted."""

spliced = njit(**_FREE, **_UNSEEN, inline="always")
"""The same for parts of one larger function, which are compiled once only, in it."""


def on_disk(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile what Python calls and keep the code; in memory where no folder can be written."""
    try:
        compiled: Callable[..., Any] = njit(cache=True, **_FREE)(function)
    except RuntimeError:
        compiled = njit(**_FREE)(function)
    return compiled


@intrinsic
def pointer(typing_context: Any, address: Any, kind: Any) -> Any:
    """A pointer to numbers of the type of ``kind`` at an address.

    Addresses are cheaper to pass from Python than arrays, by more than a short row costs.
    """
    result = types.CPointer(kind)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(result))

    return result(address, kind), generate
