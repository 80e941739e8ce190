"""Compiled loops: machine code only of what Python calls, kept on disk until its folder changes.

:mod:`repro.mappings` imports nothing of the package but this module.
"""

import contextlib
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _CalledCode(JITCodeLibrary):
    """LLVM code of a function that only compiled functions call.

    It becomes machine code as a part of what Python calls. By default numba makes machine code of
    each function by itself as well, which nothing here uses; with :class:`_MergedCode`, leaving
    that out takes a third off the time of compilation (35 % for α-entmax, 44 % for SparseMAP).
    """

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return the null pointer, as of any function without machine code."""
        return 0

    @property
    def codegen(self) -> "_CalledCode":
        """Return this object: numba asks it to set the environment, which only machine code has."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Leave the environment unset."""


class _MergedCode(_CalledCode):
    """LLVM code of a function that is optimized as a part of its callers only."""

    def _optimize_final_module(self) -> None:
        pass


class _CalledCompiler(Compiler):
    code = _CalledCode

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        super().__init__(typing, target, self.code(target.codegen(), "called"), *rest)


class _MergedCompiler(_CalledCompiler):
    code = _MergedCode


CALLED: Any = {
    "pipeline_class": _CalledCompiler,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
"""Options of functions that compiled functions call, never Python."""

MERGED: Any = CALLED | {"pipeline_class": _MergedCompiler}
"""Options of such functions that are optimized once, in their callers, which compiles faster.

Of sums that may be reordered (``fastmath``), the order then depends on the caller.
"""


@cache
def _sources(folder: Path) -> str:
    """Checksum of the modules of a folder, and of this one."""
    files = [*sorted(folder.glob("*.py")), Path(__file__)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


class _SourcesCache(FunctionCache):
    """Keeps compiled code on disk until any file of the function's folder changes.

    numba itself looks only at the file of the function that Python calls.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._folder = Path(function.__code__.co_filename).parent

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return (*super()._index_key(signature, codegen), _sources(self._folder))


def compiled_on_disk(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile what Python calls and keep the code on disk, or in memory if that is read-only.

    Args:
        options: of :func:`numba.njit`.
    """

    def compile_function(function: Callable[..., Any]) -> Any:
        compiled = njit(**options)(function)
        with contextlib.suppress(RuntimeError):
            compiled._cache = _SourcesCache(function)
        return compiled

    return compile_function
