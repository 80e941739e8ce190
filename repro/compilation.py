"""Compiled loops on disk, valid until any file of their folder changes.

:mod:`repro.mappings`, which imports nothing else of the package, has its own copy of this class.
"""

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache


class _SourcesCache(FunctionCache):
    """Keeps compiled code on disk until any file of the function's folder changes.

    numba itself looks only at the file of the function that Python calls.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        digest = hashlib.sha256()
        for path in sorted(Path(function.__code__.co_filename).parent.glob("*.py")):
            digest.update(path.read_bytes())
        self._sources = digest.hexdigest()

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return (*super()._index_key(signature, codegen), self._sources)


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
