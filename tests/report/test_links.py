"""Every link of the committed reports and of their pages leads somewhere."""

from pathlib import Path

import pytest
from links import dead_links

RESULTS = Path(__file__).parents[2] / "results"
REPORTS = [RESULTS / scale / "report.html" for scale in ("small", "subset", "full")]


@pytest.mark.parametrize("report", REPORTS, ids=lambda path: path.parent.name)
def test_committed_reports_have_no_dead_link(report: Path) -> None:
    assert dead_links(report) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text('<p id="a"><a href="#a"><a href="#b"><a href="x.html#c">')
    (tmp_path / "x.html").write_text('<img src="none.png"><a href="report.html#d">')
    found = dead_links(tmp_path / "report.html")
    assert sorted(found) == [
        "report.html: #b", "report.html: x.html#c", "x.html: none.png", "x.html: report.html#d",
    ]  # fmt: skip
