"""Compilation of the kernels of the structures, and their cache on disk."""

from typing import Any

from numba import njit

from repro.compilation import CALLED, MERGED, compiled_on_disk
from repro.structures.kernels.codes import Array as Array

_OPTIONS: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}

allocating = njit(**_OPTIONS, **MERGED)
"""Compiles a function that other kernels call and that makes arrays."""

inner = njit(**_OPTIONS, **CALLED, _nrt=False)
"""Compiles a function that makes no arrays and returns none: it counts no references to those it
is given, which would take more time than most kernels. Sums may use vector instructions."""

inlined = njit(**_OPTIONS, **MERGED, _nrt=False, forceinline=True)
"""Inlines a function that is called in few places with an active set, which takes long to pass."""

oracle = njit(**(_OPTIONS | CALLED | {"fastmath": _OPTIONS["fastmath"] | {"nnan"}}), _nrt=False)
"""Compiles a function whose scores cannot be NaN, so that maxima use vector instructions too."""

on_disk = compiled_on_disk(**_OPTIONS)
"""Compiles what Python calls and keeps the code on disk."""
