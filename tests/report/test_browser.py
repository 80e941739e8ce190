"""The report in a browser: no errors, no requests, sorting, links, narrow screens, print."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from chromium import EXECUTABLE, Page

from repro.config.claims import Claim, Order
from repro.config.experiment import Experiment
from repro.report.claims import ClaimsOfPaper, Judged, Verdict
from repro.report.document import Document, build_section
from repro.report.render_html import STYLE, html_comparison, html_report, html_run, style
from repro.report.run_pages import Curve, RunPage
from repro.results import Measurement, Record

pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="needs Chromium")


@pytest.fixture
def page(tmp_path: Path, experiment: Experiment, records: list[Measurement]) -> Iterator[Page]:
    found = [replace(record, scale="demo") for record in records]
    section = build_section(experiment, found, "demo", None)
    file = tmp_path / "report.html"
    file.write_text(html_report(Document("demo", "A warning.", (section,), ())), encoding="utf-8")
    (tmp_path / "profile").mkdir()
    with Page(file, tmp_path / "profile") as opened:
        yield opened


FIRST_COLUMN = (
    "[...document.querySelector('table').tBodies[0].rows].map(r => r.cells[1].textContent)"
)


def test_nothing_is_logged_or_requested(page: Page) -> None:
    assert page.evaluate("document.title")
    kinds = [one["method"] for one in page.events]
    assert not {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"} & set(
        kinds
    )
    urls = [
        one["params"]["request"]["url"]
        for one in page.events
        if one["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in urls if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in urls if url.startswith("file:")]) == 1


def test_a_header_sorts_by_mouse_and_keyboard(page: Page) -> None:
    original = page.evaluate(FIRST_COLUMN)
    header = "document.querySelector('table').tHead.rows[0].cells[1]"
    orders = []
    for event in (
        "click()",
        "dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}))",
        "click()",
    ):
        page.evaluate(f"{header}.{event}")
        orders.append(page.evaluate(FIRST_COLUMN))
    assert orders == [sorted(original), sorted(original, reverse=True), original]


def test_the_contents_can_be_searched_and_links_lead_somewhere(page: Page) -> None:
    shown = "document.querySelectorAll('nav li:not([hidden])').length"
    assert page.evaluate(shown) == 1
    field = "document.getElementById('find')"
    page.evaluate(f"{field}.value = 'no such thing'; {field}.dispatchEvent(new Event('input'))")
    assert page.evaluate(shown) == 0
    broken = (
        "[...document.querySelectorAll('a[href^=\"#\"]')]"
        ".filter(a => !document.getElementById(a.hash.slice(1))).length"
    )
    assert page.evaluate(broken) == 0


@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_never_scrolls_sideways(page: Page, width: int) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    page.call("Emulation.setDeviceMetricsOverride", **size)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_print_leaves_the_navigation_out_and_cuts_nothing_off(page: Page) -> None:
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('.side')).display") == "none"
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.scroll')).overflow") == "visible"
    )
    shown = "getComputedStyle(document.querySelector('%s')).display"
    assert page.evaluate(shown % ".folds > details") == "none"
    assert page.evaluate(shown % "td > details.seeds") != "none"


RECORD = Record(
    run_id="0123456789ab", kind="run", scale="demo", seed=1, config={"task": "nmt", "seed": 1},
    metrics={"test/bleu": 20.0}, signatures={"test/bleu": ""}, corpus="c", fingerprint="f" * 64,
    epoch=6, commit="a", device="cpu", versions="v", wall_time=1.0, finished="", command="c",
    members=[],
)  # fmt: skip


def test_any_two_runs_stand_side_by_side(tmp_path: Path) -> None:
    def run(seed: int, accuracy: str) -> RunPage:
        config = {"task": "nmt", "seed": seed}
        record = replace(RECORD, run_id=f"{seed:012d}", seed=seed, config=config)
        curve = Curve("loss", "", (2.0, 1.0), (1.0, 2.0))
        return RunPage(record, (("test/bleu", accuracy, ""),), (("a", "t"),), (curve,))

    pages = [run(1, "20.00"), run(2, "21.50"), run(3, "22.00")]
    (tmp_path / "profile").mkdir()
    (tmp_path / STYLE).write_text(style(), encoding="utf-8")
    file = tmp_path / "compare.html"
    labels = {one.record.run_id: "softmax" for one in pages}
    file.write_text(html_comparison(pages, labels), encoding="utf-8")
    rows = "[...document.getElementById('%s').rows].map(r => [...r.cells].map(c => c.textContent))"
    with Page(file, tmp_path / "profile") as page:
        kinds = {one["method"] for one in page.events}
        assert not {"Runtime.exceptionThrown", "Log.entryAdded"} & kinds
        assert page.evaluate(rows % "metrics")[1] == ["test/bleu", "20.00", "21.50", "−1.50"]
        assert page.evaluate(rows % "settings")[1:] == [["seed", "1", "2"]]
        assert page.evaluate("document.querySelectorAll('polyline').length") == 2
        second = "document.getElementById('second')"
        page.evaluate(
            f"{second}.value = '000000000003'; {second}.dispatchEvent(new Event('change'))"
        )
        assert page.evaluate(rows % "metrics")[1][3] == "−2.00"
        assert page.evaluate("location.hash") == "#000000000001,000000000003"


def test_a_verdict_is_a_filter_of_the_claims(tmp_path: Path, experiment: Experiment) -> None:
    claim = Claim("claim", "A claim.", "§1", "table9", order=Order(better=["a"], than=["b"]))
    kinds = (Verdict.HOLDS, Verdict.HOLDS, Verdict.FAILS)
    rows = tuple(Judged("paper2020", claim, experiment, one) for one in kinds)
    document = Document("full", "", (), (), claims=(ClaimsOfPaper("paper2020", "", rows, ()),))
    file = tmp_path / "report.html"
    file.write_text(html_report(document), encoding="utf-8")
    (tmp_path / "profile").mkdir()
    shown = "document.querySelectorAll('.margins tr[data-verdict]:not([hidden])').length"
    button = "document.querySelector('.filter [data-verdict=%s]').click()"
    with Page(file, tmp_path / "profile") as page:
        counts = [page.evaluate(shown)]
        for name in ("holds", "fails", "fails"):
            page.evaluate(button % name)
            counts.append(page.evaluate(shown))
    assert counts == [3, 2, 1, 3]


def test_pages_of_runs_share_a_style_file(tmp_path: Path) -> None:
    (tmp_path / STYLE).write_text(style(), encoding="utf-8")
    (tmp_path / "profile").mkdir()
    file = tmp_path / "run.html"
    file.write_text(html_run(RunPage(RECORD, (), (), ())), encoding="utf-8")
    with Page(file, tmp_path / "profile") as page:
        assert not {one["method"] for one in page.events} & {"Log.entryAdded"}
        assert page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") != "none"


def test_a_table_wider_than_its_box_says_so(page: Page) -> None:
    page.call(
        "Emulation.setDeviceMetricsOverride",
        width=150,
        height=800,
        deviceScaleFactor=1,
        mobile=True,
    )
    shown = "new Promise(done => requestAnimationFrame(() => setTimeout(() => done(%s), 100)))"
    cut = "document.querySelectorAll('.scroll.cut').length > 0"
    answer = page.call(
        "Runtime.evaluate", expression=shown % cut, awaitPromise=True, returnByValue=True
    )
    assert answer["result"]["value"]
