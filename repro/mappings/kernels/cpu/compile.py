"""Compile options of kernels, and how Python calls them.

A kernel is what Python calls: it takes addresses of contiguous tensors, allocates its workspace and
makes one call into a loop that counts no references. Everything below it is inlined.
"""

from collections.abc import Callable
from typing import Any

from numba import carray, njit, types
from numba.extending import intrinsic, overload

from repro.compilation import MERGED, compiled_on_disk

_OPTIONS: Any = {"nogil": True, "error_model": "numpy"}
_INLINED: Any = _OPTIONS | MERGED | {"forceinline": True}
_UNCOUNTED: Any = _INLINED | {"_nrt": False}

inline = njit(**_UNCOUNTED)
"""Compiles a function that kernels call. Sums are taken in the order that is written.

Without ``forceinline`` vectors are passed through memory, which costs 17 to 20 %. References to
arrays are not counted, which would take longer than a short row: such a function can neither
allocate nor return arrays.
"""

allocating = njit(**_INLINED)
"""Compiles a function that makes arrays or a workspace for a kernel."""

kernel = compiled_on_disk(**_OPTIONS)
"""Compiles what Python calls and keeps the code on disk."""


def chosen_by_type(choose: Callable[..., Any]) -> Any:
    """Make a function that kernels call, given what chooses it by the types of its arguments."""
    overload(choose, jit_options=_UNCOUNTED, strict=False)(choose)
    return choose


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
