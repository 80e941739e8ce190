"""Every link of the committed reports leads to a file that is committed, too."""

import shutil
import subprocess
from pathlib import Path

import pytest
from links import dead_links

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a fresh clone: without what `repro report` writes beside them."""
    if not (ROOT / ".git").exists():
        return ROOT / "results"
    root = tmp_path_factory.mktemp("clone")
    found = subprocess.run(
        ["git", "ls-files", "-z", "results"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, found.stdout.split("\0")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, root / name)
    return root / "results"


@pytest.mark.parametrize("scale", ["small", "subset", "full"])
def test_committed_reports_have_no_dead_link(results, scale):
    assert dead_links(results / scale / "report.html") == []


def test_dead_links_are_found(tmp_path):
    (tmp_path / "report.html").write_text('<p id="a"><a href="#a"><a href="#b"><a href="x.html#c">')
    (tmp_path / "x.html").write_text('<img src="none.png"><a href="report.html#d">')
    found = dead_links(tmp_path / "report.html")
    assert sorted(found) == [
        "report.html: #b", "report.html: x.html#c", "x.html: none.png", "x.html: report.html#d",
    ]  # fmt: skip
