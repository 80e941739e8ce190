"""Compile options of kernels, and how Python calls them.

A kernel is what Python calls: it takes addresses of contiguous tensors, allocates its workspace and
makes one call into a loop that counts no references. Everything below it is inlined.
"""

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import carray, njit, types
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

_FILES = sorted(Path(__file__).parent.glob("*.py"))
_SOURCES = hashlib.sha256(b"".join(path.read_bytes() for path in _FILES)).hexdigest()


class _SourcesCache(FunctionCache):
    """Keeps compiled code on disk until any file of this folder changes.

    numba itself looks only at the file of the function that Python calls.
    """

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return (*super()._index_key(signature, codegen), _SOURCES)


_OPTIONS: Any = {"nogil": True, "error_model": "numpy"}
INLINE: Any = _OPTIONS | {"forceinline": True, "_nrt": False}
"""Options of overloads that kernels call.

Without ``forceinline`` vectors are passed through memory, which costs 17 to 20 %.
"""

inline = njit(**INLINE, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Compiles a function that kernels call. Sums are taken in the order that is written.

References to arrays are not counted, which would take longer than a short row: such a function can
neither allocate nor return arrays.
"""

allocating = njit(**_OPTIONS, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Compiles a function that makes arrays or a workspace for a kernel."""


def kernel(function: Callable[..., Any]) -> Any:
    """Compile what Python calls and keep the code on disk, or in memory if that is read-only."""
    compiled = njit(**_OPTIONS)(function)
    with contextlib.suppress(RuntimeError):
        compiled._cache = _SourcesCache(function)
    return compiled


@intrinsic
def _pointer(typing_context: Any, address: Any, kind: Any) -> Any:
    """A pointer to numbers of the type of ``kind``."""
    result = types.CPointer(kind)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(result))

    return result(address, kind), generate


@allocating
def matrix(address, kind, rows, size):
    """The tensor at an address; addresses are cheaper to pass than arrays."""
    return carray(_pointer(address, kind), (rows, size))


@allocating
def vector(address, kind, size):
    """The tensor with one axis at an address; empty if there is none."""
    return carray(_pointer(address, kind), (size if address != 0 else 0,))
