"""The page on structured losses shows what the library does."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "structured_losses.md"


def test_the_examples_run() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried >= 10
    assert failed == 0
