"""The site of `make docs` has every page and image that its pages and reports link to."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from links import Links, dead_links

from repro import losses, mappings, structures

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the site is built from, made by the rule of the Makefile."""
    root = tmp_path_factory.mktemp("site")
    for name in ("Makefile", "benchmarks", "results", "experiments"):
        (root / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "docs", root / "docs")  # a link would be copied as one
    for page in ROOT.glob("*.md"):
        shutil.copy(page, root)
    command = ["make", "pages", f"BIN={Path(sys.executable).parent}"]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    pages = root / "build" / "docs" / "pages"
    (pages / "index.html").touch()  # of README.md, once the site is built
    return pages


@pytest.fixture(scope="module")
def site(pages: Path) -> Path:
    """The built site; skipped where the extra ``docs`` is not installed."""
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings_handlers.python")
    (pages / "index.html").unlink()
    root = pages.parents[2]
    for name in ("mkdocs.yml", "repro"):
        (root / name).symlink_to(ROOT / name)
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet"]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    return root / "build" / "docs" / "site"


def dead_references(pages: Path) -> Iterator[str]:
    """Links and images of Markdown pages that lead to no file, queries of results included."""
    for page in pages.rglob("*.md"):
        text = page.read_text("utf-8")
        inline = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
        defined = re.findall(r"^\[[^\]]+\]: (\S+)", text, re.MULTILINE)
        for link in (unquote(one) for one in (*inline, *defined)):
            if not re.match(r"\w+:", link) and not (page.parent / link).exists():
                yield f"{page.relative_to(pages)}: {link}"


def test_pages_lead_to_pages_and_images(pages):
    assert not [*dead_references(pages)]


def test_reports_are_part_of_the_site(pages):
    for scale in ("small", "subset", "full"):
        assert dead_links(pages / "results" / scale / "report.html") == []


def test_every_recorded_run_has_a_page(pages):
    records = {path.relative_to(pages) for path in pages.glob("results/*/records/*.json")}
    found = {path.relative_to(pages) for path in pages.glob("results/*/pages/*.html")}
    names = {path.parents[1] / "pages" / f"{path.stem}.html" for path in records}
    assert found - names == {path.parent / "compare.html" for path in names}
    assert len(names) > 300
    assert names <= found


def test_reports_lead_back_to_the_documentation(pages):
    reports = [*(pages / "results").rglob("*.html")]
    assert len(reports) > 4
    for report in reports:
        back = [
            (report.parent / one).resolve() for one in Links(report).addresses if ":" not in one
        ]
        assert (pages / "index.html").resolve() in back, report


def test_pages_load_nothing_from_another_machine(site):
    asked = r"<(?:script|link|img|iframe)[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^\"' >]+"
    found = {
        match for page in site.rglob("*.html") for match in re.findall(asked, page.read_text())
    }
    assert found == set()


def test_the_reference_has_every_public_name(site):
    found = Links(site / "docs" / "api.html").targets
    for module in (losses, mappings, structures):
        missing = [name for name in module.__all__ if f"{module.__name__}.{name}" not in found]
        assert {*missing} <= {"regularized"}  # a module has that name, too
    assert {"repro.load", "repro.mappings.regularized.regularized"} <= found


def test_the_list_of_pages_has_every_document_and_leads_to_files(pages):
    """Pages of single mappings are listed on a page of their own."""
    listed = re.findall(
        r"^ +- [^:\n]+: (\S+\.(?:md|html))$", (ROOT / "mkdocs.yml").read_text(), re.M
    )
    assert [page for page in listed if not (pages / page).is_file()] == []
    documents = {*pages.glob("*.md"), *pages.glob("docs/**/*.md")}
    single = {*pages.glob("docs/mappings/*.md")}
    assert {page.relative_to(pages).as_posix() for page in documents - single} <= {*listed}
