"""The examples of the two pages run and print what they say."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["mappings.md", "losses.md"])
def test_examples(page):
    failed, attempted = doctest.testfile(str(DOCS / page), module_relative=False)
    assert attempted >= 5
    assert failed == 0
