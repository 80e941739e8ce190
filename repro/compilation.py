"""numba functions whose machine code is cached on disk, until a module of their folder changes.

This is the only module of the package that :mod:`repro.mappings` imports from outside itself.
"""

import contextlib
import gc
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _WithoutCollections(event.Listener):
    """Listener that disables the garbage collector while numba compiles.

    Compiling one kernel creates millions of objects that live until its end: collections in between
    find nothing and take 14 % of the time.
    """

    def __init__(self) -> None:
        self._depth, self._enabled = 0, False

    def on_start(self, event: event.Event) -> None:
        """Disable the collector if this is an outermost compilation."""
        if self._depth == 0:
            self._enabled = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: event.Event) -> None:
        """Restore the collector if this is an outermost compilation."""
        self._depth -= 1
        if self._depth == 0 and self._enabled:
            gc.enable()


event.register("numba:compile", _WithoutCollections())


class _CalledCode(JITCodeLibrary):
    """LLVM code of a function that only compiled functions call.

    It becomes machine code only as a part of its callers. By default numba also generates machine
    code for the function by itself, which nothing here uses; together with :class:`_MergedCode`,
    omitting it reduces the time of compilation by 35 % for α-entmax and 44 % for SparseMAP.
    """

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return the null pointer: the function has no machine code of its own."""
        return 0

    @property
    def codegen(self) -> "_CalledCode":
        """Return this object, so that numba sets the environment by :meth:`set_env`."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: only machine code has an environment."""


class _MergedCode(_CalledCode):
    """LLVM code of a function that is optimized only as a part of its callers."""

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
"""Options of :func:`numba.njit` for functions that only compiled functions call."""

MERGED: Any = CALLED | {"pipeline_class": _MergedCompiler}
"""Options of :func:`numba.njit` for functions to be optimized only as parts of their callers.

This compiles faster than :data:`CALLED`. If ``fastmath`` allows reordering sums, their order then
depends on the caller.
"""


@cache
def _sources(folder: Path) -> str:
    """Compute a checksum over the modules of a folder and this module."""
    files = [*sorted(folder.glob("*.py")), Path(__file__)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


class _SourcesCache(FunctionCache):
    """Disk cache of compiled code, invalid once any module in the folder of the function changes.

    By default numba checks only the file of the function that Python calls.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._folder = Path(function.__code__.co_filename).parent

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return (*super()._index_key(signature, codegen), _sources(self._folder))


def compiled_on_disk(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that Python calls, cached on disk, or in memory if that is read-only.

    Args:
        options: keyword arguments of :func:`numba.njit`.
    """

    def compile_function(function: Callable[..., Any]) -> Any:
        compiled = njit(**options)(function)
        with contextlib.suppress(RuntimeError):
            compiled._cache = _SourcesCache(function)
        return compiled

    return compile_function
