"""The report in a browser: no errors, no requests, sorting, links, narrow screens, print."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import measured
import pytest
from chromium import EXECUTABLE, Page
from sections import document_of, section_of

from repro.config.experiment import Experiment
from repro.report.claims import Verdict
from repro.report.document import Document
from repro.report.many_runs import comparison_page, list_page
from repro.report.mapping_page import write_mapping_page
from repro.report.render_html import CHARTS, STYLE, html_report, html_run, template_text
from repro.results import Archive, Measurement, publish

RESULTS = Path(__file__).parents[2] / "results"
ERRORS = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}
pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="needs Chromium")


@contextmanager
def opened(folder: Path, text: str, name: str = "page.html") -> Iterator[Page]:
    """Open a page in the browser; at the end it must have logged nothing."""
    (folder / name).write_text(text, encoding="utf-8")
    with Page(folder / name) as page:
        yield page
        assert not {one["method"] for one in page.events} & ERRORS


@pytest.fixture
def page(tmp_path: Path, experiment: Experiment, records: list[Measurement]) -> Iterator[Page]:
    section = section_of(experiment, records, "demo")
    with opened(tmp_path, html_report(Document("demo", "A warning.", (section,), ()))) as page:
        yield page


def width_at(page: Page, width: int) -> int:
    """Width of the content on a screen of some width."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    page.call("Emulation.setDeviceMetricsOverride", **size)
    return int(page.evaluate("document.documentElement.scrollWidth"))


def enter(page: Page, name: str, value: object, event: str = "input") -> None:
    """Give a field of a page a value, as its reader does."""
    field = f"document.getElementById('{name}')"
    page.evaluate(
        f"{field}.value = '{value}'; {field}.dispatchEvent(new Event('{event}', {{bubbles: true}}))"
    )


FIRST_COLUMN = (
    "[...document.querySelector('table').tBodies[0].rows].map(r => r.cells[1].textContent)"
)


def test_nothing_is_logged_or_requested(page):
    assert page.evaluate("document.title")
    urls = [
        one["params"]["request"]["url"]
        for one in page.events
        if one["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in urls if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in urls if url.startswith("file:")]) == 1


def test_a_header_sorts_by_mouse_and_keyboard(page):
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


def test_the_contents_can_be_searched_and_links_lead_somewhere(page):
    shown = "document.querySelectorAll('nav li:not([hidden])').length"
    assert page.evaluate(shown) == 1
    enter(page, "find", "no such thing")
    assert page.evaluate(shown) == 0
    broken = (
        "[...document.querySelectorAll('a[href^=\"#\"]')]"
        ".filter(a => !document.getElementById(a.hash.slice(1))).length"
    )
    assert page.evaluate(broken) == 0


def test_the_contents_stand_beside_the_page_on_a_small_laptop(page):
    beside = "document.querySelector('.side').getBoundingClientRect().right <= "
    beside += "document.querySelector('main').getBoundingClientRect().left"
    found = []
    for width in (768, 1000, 1264):
        width_at(page, width)
        found.append(page.evaluate(beside))
    assert found == [False, True, True]


@pytest.mark.parametrize("width", [390, 1000, 1400])
def test_the_page_never_scrolls_sideways(page, width):
    assert width_at(page, width) <= width


@pytest.mark.parametrize("name", ["index.html", "small/report.html"])
def test_committed_claims_fit_a_phone(tmp_path, name):
    file = tmp_path / "page.html"
    shutil.copyfile(RESULTS / name, file)
    tables = "[...document.querySelectorAll('.scroll:has(.matrix)')]"
    with Page(file) as page:
        width_at(page, 390)
        cut = page.evaluate(f"{tables}.map(one => one.scrollWidth > one.clientWidth)")
        assert cut
        assert not any(cut)


def luminance(color: str) -> float:
    """Relative luminance of ``rgb(…)``, as WCAG defines it."""
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", color)[:3])
    linear = [((one + 0.055) / 1.055) ** 2.4 for one in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_of_committed_figures_stand_out(tmp_path, scheme):
    file = tmp_path / "page.html"
    shutil.copyfile(RESULTS / "small" / "report.html", file)
    fills = "[...document.querySelectorAll('.drawing text')].map(e => getComputedStyle(e).fill)"
    panel = "getComputedStyle(document.querySelector('.drawing')).backgroundColor"
    with Page(file) as page:
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        page.call("Emulation.setEmulatedMedia", features=wanted)
        below, colors = page.evaluate(panel), {*page.evaluate(fills)}
    for color in colors:
        dark, light = sorted((luminance(color), luminance(below)))
        assert (light + 0.05) / (dark + 0.05) > 4.5, color


def test_print_leaves_the_navigation_out_and_cuts_nothing_off(page):
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('.side')).display") == "none"
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.scroll')).overflow") == "visible"
    )
    shown = "getComputedStyle(document.querySelector('%s')).display"
    assert page.evaluate(shown % ".folds > details") == "none"
    assert page.evaluate(shown % "td > details.seeds") != "none"


RECORD = replace(
    measured.RECORD, config={"task": "nmt", "seed": 1}, metrics={"test/bleu": 20.0},
    signatures={"test/bleu": ""}, command="c",
)  # fmt: skip


def run(seed: int, accuracy: float, *losses: float) -> dict[str, Any]:
    """A run for the page of comparison, with a validation every 40 s."""
    x = {"epoch": [*range(1, len(losses) + 1)], "time": [40.0 * n + 40 for n in range(len(losses))]}
    return {
        "id": f"{seed:012d}", "label": f"seed {seed}", "page": None, "group": "runs", "x": x,
        "y": {"dev_loss": losses}, "settings": {"seed": str(seed), "same": "1"},
        "metrics": {"test/bleu": accuracy},
    }  # fmt: skip


THREE = [run(1, 20.0, 4.0, 2.0), run(2, 21.5, 40.0, 2.0), run(3, 22.0, 4.0, 0.0)]
FIRST, SECOND, THIRD = NAMES = [one["id"] for one in THREE]
ROWS = "[...document.getElementById('%s').rows].map(r => [...r.cells].map(c => c.textContent))"
LINES = "[...document.querySelectorAll('.curves polyline')].map(one => one.dataset.run)"


@pytest.fixture
def compared(tmp_path: Path) -> Iterator[Page]:
    """Three runs side by side, on a page that needs no other file."""
    tests = {FIRST: {"test/bleu": {SECOND: 0.25}}}
    with opened(tmp_path, comparison_page(THREE, NAMES, tests), "compare.html") as page:
        yield page


def test_runs_stand_side_by_side(compared):
    assert compared.evaluate(ROWS % "metrics") == [
        ["metric", "seed 1", "seed 2", "seed 3"],
        ["test/bleu ↑", "20.00", "21.50+1.50, p = 0.250", "22.00+2.00"],
    ]
    assert compared.evaluate("document.querySelector('#metrics .best').cellIndex") == 3
    assert compared.evaluate(ROWS % "settings")[1:] == [["seed", "1", "2", "3"]]
    compared.evaluate("document.querySelector('#chosen button').click()")
    assert compared.evaluate(ROWS % "metrics")[1] == ["test/bleu ↑", "21.50", "22.00+0.50"]
    assert compared.evaluate("location.hash") == f"#{SECOND},{THIRD}"
    enter(compared, "add", FIRST, "change")
    assert compared.evaluate(ROWS % "metrics")[0][1:] == ["seed 2", "seed 3", "seed 1"]
    assert compared.evaluate(LINES) == [SECOND, THIRD, FIRST]


def test_runs_that_differ_in_their_seed_share_a_color(tmp_path):
    labels = ("a=1, seed=1", "a=1, seed=2", "a=2, seed=1")
    runs = [{**one, "label": label} for one, label in zip(THREE, labels, strict=True)]
    looks = "[...document.querySelectorAll('.legend polyline')].map(one => one.getAttribute('%s'))"
    ticks = "[...document.querySelectorAll('.curves text:not(.end)')].map(one => one.textContent)"
    with opened(tmp_path, comparison_page(runs, NAMES, {})) as page:
        colors, dashes = page.evaluate(looks % "style"), page.evaluate(looks % "stroke-dasharray")
        assert page.evaluate(ticks) == ["1", "2", "epoch"]
    assert colors[0] == colors[1] != colors[2]
    assert dashes[0] == dashes[2] != dashes[1]


def test_curves_are_toggled_rescaled_and_named(compared):
    title = "[...document.querySelectorAll('.curves text')].at(-1).textContent"
    assert compared.evaluate(title) == "epoch"
    button = "document.querySelectorAll('.legend button')[1]"
    for shown in ([FIRST, THIRD], [FIRST, SECOND, THIRD]):
        compared.evaluate(f"{button}.click()")
        assert compared.evaluate(LINES) == shown
        assert compared.evaluate(f"{button}.ariaPressed") == str(SECOND in shown).lower()
    points = "document.querySelector('.curves polyline').getAttribute('points')"
    linear = compared.evaluate(points)
    compared.evaluate("document.querySelector('.log').click()")
    assert compared.evaluate(points) != linear
    last = "document.querySelectorAll('.curves polyline')[2].points.length"
    assert compared.evaluate(last) == 1  # a logarithmic axis has no place for zero
    across = "document.querySelector('.across')"
    compared.evaluate(f"{across}.value = 'time'; {across}.dispatchEvent(new Event('change'))")
    assert compared.evaluate(title) == "time (s)"
    compared.evaluate("""{
      const svg = document.querySelector('.curves svg'), box = svg.getBoundingClientRect();
      const [x, y] = svg.querySelectorAll('polyline')[1].getAttribute('points').split(/[ ,]/);
      const [clientX, clientY] = [box.left + x * box.width / 340, box.top + y * box.height / 190];
      svg.dispatchEvent(new PointerEvent('pointermove', { clientX, clientY }));
    }""")
    assert compared.evaluate("document.querySelector('.curves output').textContent") == (
        "seed 2: 40 at time 40 s"
    )


def test_runs_side_by_side_fit_any_screen(compared):
    style = "getComputedStyle(document.querySelector('%s')).%s"
    parts = (("body", "backgroundColor"), ("body", "color"), (".curves text", "fill"))
    for scheme in ("light", "dark"):
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        compared.call("Emulation.setEmulatedMedia", features=wanted)
        colors = [re.findall(r"\d+", compared.evaluate(style % part)) for part in parts]
        page, *inks = (sum(map(int, color)) for color in colors)
        assert all((ink < page - 200) == (scheme == "light") for ink in inks)
        assert [width_at(compared, width) <= width for width in (390, 1400)] == [True, True]


def test_all_runs_are_sorted_filtered_and_grouped(tmp_path):
    for seed, (accuracy, mapping) in enumerate([(20.0, "softmax"), (22.0, "softmax"), (9.0, "x")]):
        config = {"task": {"name": "nmt"}, "mapping": {"name": mapping}, "seed": seed}
        metrics = {"test/bleu": accuracy, "dev/loss": 1.0 + seed}
        record = replace(
            RECORD, run_id=f"r{seed}", seed=seed, config=config, metrics=metrics,
            signatures=dict.fromkeys(metrics, ""), command="repro run decoding.beam_size=4",
        )  # fmt: skip
        publish(tmp_path, record)
    publish(tmp_path, replace(RECORD, run_id="other", scale="small"))
    for scale, paged in (("demo", '["r0"]'), ("small", "[]")):
        (tmp_path / scale / "pages").mkdir()
        (tmp_path / scale / "pages" / "list.js").write_text(f"addPages({paged});")
    rows = "[...document.getElementById('table').tBodies[0].rows].map(r => %s)"
    names, values = rows % "r.cells[0].textContent", rows % "r.cells[1].textContent"
    with opened(tmp_path / "demo", list_page(Archive(tmp_path, "demo"))) as page:
        assert sorted(page.evaluate(names)) == ["2 seeds", "other", "r2"]
        expected = ["9.00", "20.00", "21.00 ± 1.41"]
        for shown in (expected, expected[::-1]):
            page.evaluate("document.querySelectorAll('#table thead button')[1].click()")
            assert page.evaluate(values) == shown
        page.evaluate("document.querySelector('td button').click()")
        assert page.evaluate(names)[:3] == ["2 seeds", "r0page", "r1"]
        links = "[...document.querySelectorAll('%s a')].map(one => one.getAttribute('href'))"
        r0, r1 = "../demo/records/r0.json", "../demo/records/r1.json"
        assert page.evaluate(links % ".inner") == [r0, "../demo/pages/r0.html", r1]
        for key, value, left in (("scale", "demo", 3), ("mapping", "x", 1), ("seed", "2", 1)):
            enter(page, key, value)
            assert page.evaluate("document.getElementById('count').textContent") == (
                f"{left} of 4 runs"
            )
        enter(page, "metric", "dev/loss")
        assert (page.evaluate(names), page.evaluate(values)) == (["r2"], ["3.0000"])
        enter(page, "words", "beam_size=5")
        assert page.evaluate(names) == []
        assert width_at(page, 390) <= 390


def test_an_address_names_the_run_to_show_among_all_runs(tmp_path):
    for seed in (0, 1):
        publish(tmp_path, replace(RECORD, run_id=f"r{seed}", seed=seed))
    file = tmp_path / "demo" / "runs.html"
    file.write_text(list_page(Archive(tmp_path, "demo")), encoding="utf-8")
    with Page(file) as page:  # it logs that there is no list of the runs that have pages
        assert not page.evaluate("document.getElementById('r1')")
        page.evaluate("location.hash = 'r1'; dispatchEvent(new Event('hashchange'))")
        assert page.evaluate("document.querySelector('tr[aria-current]').id") == "r1"


def test_a_slider_chooses_among_computed_values(tmp_path):
    path = write_mapping_page(tmp_path)
    written = path.stat()
    assert written.st_size < 300_000
    assert write_mapping_page(tmp_path).stat().st_mtime_ns == written.st_mtime_ns
    points = "document.querySelector('#curve .%s').getAttribute('points')"
    value = "document.getElementById('value').textContent"
    kinds = "[...document.querySelectorAll('#regions rect')].map(r => r.classList[0])"
    with Page(path) as page:
        assert page.evaluate(value) == "α = 1.5"
        for place, reference in ((0, "softmax"), (10, "sparsemax")):
            enter(page, "slider", place)
            assert page.evaluate(points % "chosen") == page.evaluate(points % reference)
        assert {*page.evaluate(kinds)} == {"a", "b", "c"}
        enter(page, "mapping", "fusedmax")
        assert page.evaluate(value) == "λ = 0.2"
        assert {"e", "f"} <= {*page.evaluate(kinds)}
        assert width_at(page, 390) <= 390
        assert not {one["method"] for one in page.events} & ERRORS


def test_a_verdict_is_a_filter_of_the_claims(tmp_path, experiment):
    papers = ((Verdict.HOLDS, Verdict.HOLDS, Verdict.FAILS), (Verdict.HOLDS,))
    shown = "document.querySelectorAll('.margins tr[data-verdict]:not([hidden])').length"
    button = "document.querySelector('.filter [data-verdict=%s]').click()"
    papers_shown = "document.querySelectorAll('.judged:not([hidden])').length"
    with opened(tmp_path, html_report(document_of(experiment, *papers))) as page:
        counts = [(page.evaluate(shown), page.evaluate(papers_shown))]
        for name in ("holds", "fails", "fails"):
            page.evaluate(button % name)
            counts.append((page.evaluate(shown), page.evaluate(papers_shown)))
    assert counts == [(4, 2), (3, 2), (1, 1), (4, 2)]


@pytest.mark.parametrize("width", [390, 1000, 1400])
def test_a_long_claim_is_wrapped(tmp_path, experiment, width):
    document = document_of(experiment, (Verdict.HOLDS,), text="A claim of many words. " * 9)
    with opened(tmp_path, html_report(document)) as page:
        width_at(page, width)
        cell = "document.querySelector('.margins tbody th')"
        assert page.evaluate(f"{cell}.scrollWidth <= {cell}.clientWidth")


def test_pages_of_runs_share_a_style_and_a_script(tmp_path):
    for name in (STYLE, CHARTS):
        (tmp_path / name).write_text(template_text(name), encoding="utf-8")
    with opened(tmp_path, html_run(RECORD, THREE[0], {})) as page:
        assert page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") != "none"
        assert page.evaluate(LINES) == [FIRST]


def test_a_table_wider_than_its_box_says_so(page):
    width_at(page, 150)
    shown = "new Promise(done => requestAnimationFrame(() => setTimeout(() => done(%s), 100)))"
    cut = "document.querySelectorAll('.scroll.cut').length > 0"
    answer = page.call(
        "Runtime.evaluate", expression=shown % cut, awaitPromise=True, returnByValue=True
    )
    assert answer["result"]["value"]
