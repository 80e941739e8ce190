"""Every mapping has a page with the same parts."""

from pathlib import Path

import pytest

from repro.mappings import MAPPINGS

DOCS = Path(__file__).parents[2] / "docs"
INDEX = DOCS / "mappings" / "README.md"
PAGES = sorted(path for path in INDEX.parent.glob("*.md") if path != INDEX)
PARTS = ("*Problem.*", "*Algorithm.*", "O(n", "*Jacobian.*", "*When.*", "*Accuracy.*")


def test_every_mapping_has_a_page():
    assert {page.stem for page in PAGES} == {*MAPPINGS, "regularized"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_all_parts(page):
    text = page.read_text(encoding="utf-8")
    assert [part for part in PARTS if part not in text] == []
