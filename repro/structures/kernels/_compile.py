"""Compilation of the kernels of the structures, and their cache on disk."""

from typing import Any

from numba import njit

from repro.compilation import CALLED, MERGED, compiled_on_disk
from repro.structures.kernels.codes import Array as Array

_OPTIONS: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}

allocating = njit(**_OPTIONS, **MERGED)
"""Decorator for functions that allocate arrays and are called by other kernels."""

inner = njit(**_OPTIONS, **CALLED, _nrt=False)
"""Decorator for functions that neither allocate nor return arrays. They do without reference counts
of their arguments, which would cost more than most kernels. Sums may be vectorized."""

inlined = njit(**_OPTIONS, **MERGED, _nrt=False, forceinline=True)
"""Decorator that inlines functions of an active set with few callers: its many arrays are costly to
pass."""

oracle = njit(**(_OPTIONS | CALLED | {"fastmath": _OPTIONS["fastmath"] | {"nnan"}}), _nrt=False)
"""Decorator for functions whose scores cannot be NaN, so that maxima may be vectorized too."""

on_disk = compiled_on_disk(**_OPTIONS)
"""Decorator for functions called from Python, whose machine code is cached on disk."""
