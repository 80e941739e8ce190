"""The examples of the pages on structures and structured losses print what they say."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["structures.md", "structured_losses.md"])
def test_examples(page: str) -> None:
    failed, attempted = doctest.testfile(str(DOCS / page), module_relative=False)
    assert attempted >= 8
    assert failed == 0
