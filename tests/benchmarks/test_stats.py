"""Counting lines, functions and helpers."""

from pathlib import Path

import pytest

from benchmarks import stats

SOURCE = '''"""Docstring."""


def _once() -> int:
    """Two lines
    of docstring."""
    return 1


def _twice() -> int:
    return 2


def public() -> int:
    return _once() + _twice() + _twice()
'''


def test_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "ROOT", tmp_path)
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "inner" / "module.py").write_text(SOURCE)
    modules = stats.read_modules(package)
    lines = SOURCE.count("\n")
    assert stats.lines_by_folder(modules, package) == {
        "package": (lines, 0, 0),
        "package/inner": (lines, 1, lines),
    }
    assert stats.function_lengths(modules) == [2, 2, 2]
    assert stats.single_caller_helpers(modules) == ["package/inner/module.py:4 _once"]
