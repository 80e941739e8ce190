"""Compile options of kernels and the functions that they call.

A kernel is called from Python: it takes addresses of contiguous tensors, allocates its workspace
and makes one call into a loop without reference counting. The functions that it calls are inlined.
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
"""Decorator that compiles a function called by kernels. Sums are evaluated in the order written.

Without ``forceinline`` vectors are passed through memory, which costs 17 to 20 %. There is no
reference counting of arrays, which would take longer than solving a short row; such a function can
neither allocate nor return arrays.
"""

allocating = njit(**_INLINED)
"""Decorator that compiles a function which allocates arrays or a workspace for a kernel."""

kernel = compiled_on_disk(**_OPTIONS)
"""Decorator that compiles a function called from Python and caches the code on disk."""


def chosen_by_type(choose: Callable[..., Any]) -> Any:
    """Return a function for kernels; ``choose`` maps argument types to an implementation."""
    overload(choose, jit_options=_UNCOUNTED, strict=False)(choose)
    return choose


@intrinsic
def _pointer(typing_context: Any, address: Any, kind: Any) -> Any:
    """Convert an address to a pointer to numbers of the type of ``kind``."""
    result = types.CPointer(kind)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(result))

    return result(address, kind), generate


@allocating
def matrix(address, kind, rows, size):
    """Return the matrix at an address; addresses are cheaper to pass than arrays."""
    return carray(_pointer(address, kind), (rows, size))


@allocating
def vector(address, kind, size):
    """Return the one-dimensional array at an address; empty if the address is zero."""
    return carray(_pointer(address, kind), (size if address != 0 else 0,))
