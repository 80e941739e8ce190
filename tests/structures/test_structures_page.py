"""The examples of the page on structures run and print what they say."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "structures.md"


def test_examples() -> None:
    failed, attempted = doctest.testfile(str(PAGE), module_relative=False)
    assert attempted >= 8
    assert failed == 0
