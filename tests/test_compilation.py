"""Compiled loops: code of called functions within their callers, and the cache on disk."""

import gc
import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

MODULE = """
from numba import njit
from repro.compilation import CALLED, MERGED, compiled_on_disk
from {name}.sibling import OFFSET

@njit(**MERGED)
def square(x):
    return x * x

@njit(**CALLED)
def shifted(x):
    return square(x) + OFFSET

@compiled_on_disk(nogil=True)
def total(values):
    result = 0.0
    for value in values:
        result += shifted(value)
    return result
"""
VALUES = np.array([1.0, 2.0, 3.0])


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with loops, whose name no other test has."""
    folder = tmp_path / f"loops_{tmp_path.name.replace('-', '_')}"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "sibling.py").write_text("OFFSET = 0.5\n")
    (folder / "loops.py").write_text(MODULE.format(name=folder.name))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return folder.name


def imported_anew(name: str) -> ModuleType:
    from repro.compilation import _sources

    _sources.cache_clear()
    for module in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[module]
    importlib.invalidate_caches()
    return importlib.import_module(f"{name}.loops")


def test_only_what_python_calls_becomes_machine_code(name):
    loops = imported_anew(name)
    assert loops.total(VALUES) == 15.5
    for function, compiled in ((loops.square, False), (loops.shifted, False), (loops.total, True)):
        (result,) = function.overloads.values()
        address = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
        assert (address != 0) == compiled


def test_code_on_disk_is_used_until_a_file_of_the_folder_changes(name, tmp_path):
    for _ in range(2):
        loops = imported_anew(name)
        assert loops.total(VALUES) == 15.5
    assert sum(loops.total.stats.cache_hits.values()) == 1
    (tmp_path / name / "sibling.py").write_text("OFFSET = 1.0\n")
    loops = imported_anew(name)
    assert loops.total(VALUES) == 17.0
    assert not loops.total.stats.cache_hits


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_is_collected_during_a_compilation(name, enabled):
    loops, during = imported_anew(name), list[str]()

    def note(phase: str, _info: dict[str, int]) -> None:
        during.append(phase)

    (gc.enable if enabled else gc.disable)()
    gc.collect()
    gc.callbacks.append(note)
    try:
        loops.total(VALUES)
        seen, kept = len(during), gc.isenabled()
    finally:
        gc.callbacks.remove(note)
        gc.enable()
    assert kept == enabled
    # Compiling creates enough objects for a hundred collections; one may precede and one follow it.
    assert seen <= 2 * 2
