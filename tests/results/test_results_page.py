import doctest
import os
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "results-as-data.md"


def test_the_examples_of_the_page_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPRO_RESULTS_DIR", raising=False)
    flags = doctest.NORMALIZE_WHITESPACE
    found = doctest.testfile(os.fspath(PAGE), module_relative=False, optionflags=flags)
    assert found.attempted >= 5
    assert found.failed == 0
