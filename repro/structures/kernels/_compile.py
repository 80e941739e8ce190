"""Compilation of the kernels of the structures, and their cache on disk."""

from typing import Any

from numba import njit

from repro.compilation import compiled_on_disk
from repro.structures.kernels.codes import Array as Array

_OPTIONS: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}

_CALLED: Any = _OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Functions that other kernels call, never Python, need nothing around them: a fifth of the time
that all takes to compile."""

allocating = njit(**_CALLED)
"""Compiles a function that other kernels call; sums may use vector instructions."""

inner = njit(**_CALLED, _nrt=False)
"""Compiles a function that makes no arrays and returns none: it counts no references to those it
is given, which would take more time than most kernels."""

inlined = njit(**_CALLED, _nrt=False, forceinline=True)
"""Inlines a function that is called in few places with an active set, which takes long to pass."""

oracle = njit(**(_CALLED | {"fastmath": _OPTIONS["fastmath"] | {"nnan"}}), _nrt=False)
"""Compiles a function whose scores cannot be NaN, so that maxima use vector instructions too."""

on_disk = compiled_on_disk(**_OPTIONS)
"""Compiles what Python calls and keeps the code on disk."""
