"""Results in the documents are those of the committed records."""

import pytest

from benchmarks.numbers import DEFINITION, PAGES, QUESTIONS, REFERENCE, ROOT, filled, undeclared
from repro.errors import UserError

TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
README = ROOT / "README.md"
CRF = '[crf]: results/full/tables/niculae2018/table1.md "CRF | vi | published"\n'


@pytest.mark.parametrize(
    "page", [page for page in PAGES if DEFINITION.search(TEXTS[page])], ids=lambda page: page.name
)
def test_every_result_is_what_its_query_gives(page):
    assert filled(page, TEXTS[page]) == TEXTS[page], "`make numbers` writes what the records say"
    used = {label for _, label in REFERENCE.findall(TEXTS[page])}
    assert [label for label, _, _ in DEFINITION.findall(TEXTS[page]) if label not in used] == []


@pytest.mark.parametrize("page", [README, ROOT / "docs/results.md"], ids=lambda page: page.name)
def test_no_result_stands_without_a_query(page):
    assert DEFINITION.search(TEXTS[page]) or QUESTIONS.search(TEXTS[page])
    assert list(undeclared(TEXTS[page])) == []


def test_a_wrong_result_is_replaced():
    assert filled(README, f"CRF [69.11][crf]\n\n{CRF}") == f"CRF [69.10][crf]\n\n{CRF}"


@pytest.mark.parametrize(
    "claim", ["CRF has 69.1", "2 points better", "66 % of beams", "p < 0.01", "*it is so* holds"]
)
def test_a_result_without_a_query_is_found(claim):
    assert len(list(undeclared(f"CRF [69.10][crf], 1.5-entmax, §4.1. {claim}\n\n{CRF}"))) > 0


@pytest.mark.parametrize(
    ("target", "query"),
    [
        ("results/full/tables/niculae2018/table1.md", "no such loss | vi"),
        ("results/full/tables/niculae2018/table1.md", "CRF | nowhere"),
        ("results/full/tables/niculae2018/table1.md", "margin CRF | vi | published"),
        ("results/full/tables/niculae2018/table9.md", "CRF | vi"),
        ("results/full/report.md", "loss=crf | test/uas"),  # several runs of one seed
        ("docs/papers/niculae2018.md", "published: somewhere"),
        ("docs/faq.md", "CRF | vi"),
    ],
)
def test_a_query_without_an_answer_is_an_error(target, query):
    with pytest.raises(UserError):
        filled(README, f'[?][x]\n\n[x]: {target} "{query}"\n')
