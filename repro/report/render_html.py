"""Self-contained HTML pages: style, images and script are embedded."""

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from repro.evaluation.metrics import metric_of
from repro.report.cell import FAILED, MISSING, number_text
from repro.report.charts import Chart
from repro.report.claims import GENERATED, METHOD, Verdict, counts
from repro.report.document import Document
from repro.report.grid import Grid
from repro.report.margins import TICKS, margin_of, verdict_word
from repro.report.matrix import LEGEND, SCALES, Line, answers
from repro.report.provenance import GENERATED_SCALE
from repro.report.sweeps import SweepView
from repro.results import Record
from repro.results.labels import main_first, main_metric

_CELL = re.compile(r"([\d.]+)([*°]?)((?: ± [\d.]+)?(?: \(\d+/\d+\))?)([^\d\s]*)")
"""Pattern of a cell: value, sign of significance, spread with count of runs, marks."""
_BROKEN = re.compile(r"(?<=\b\w)-(?=\w)|(?<=\w)-(?=\w\b)")
"""Hyphens beside a single letter, as in R-1 or m-SparseMAP, at which no line should break."""
_SPACES = re.compile(r"(?<=±) | (?==)|(?<==) ")
"""Spaces beside ± and =, at which no label should break."""
PAGES, STYLE, CHARTS = "pages", "style.css", "charts.js"
"""Name of the folder of the pages of runs, next to the report, and of their style and script."""
PAGES_LIST = "list.js"
"""Name of the script that tells the page of all runs which of them have pages, in their folder."""
MAPPINGS_PAGE = "mappings.html"
"""Name of the page of the mappings, in the folder above the report."""
_TEMPLATES = Path(__file__).parent / "templates"


def runs_page(scale: str) -> str:
    """Return the address of the page of all runs from the report of a scale.

    Runs on generated corpora, which are not committed, have a page of their own beside the report.
    """
    return "runs.html" if scale == GENERATED_SCALE else "../runs.html"


def html_report(
    document: Document,
    addresses: Mapping[str, str] | None = None,
    others: Sequence[tuple[str, str]] = (),
) -> str:
    """Render the report with its drawings; every text of a record is escaped.

    Runs without one of the ``addresses`` are not linked. ``others`` are titles and addresses.
    """
    addresses = addresses or {}
    # Drawings are inserted unescaped: this package made them and escaped all of their text.
    drawn = {s.anchor: s.figure.svg for s in document.sections if s.figure is not None}
    drawn |= {one.sweep.anchor: one.svg for one in document.sweeps if one.svg is not None}
    generated = document.scale == GENERATED_SCALE

    def charts_of(view: SweepView) -> list[dict[str, Any]]:
        return [{**chart, "page": addresses.get(chart["id"])} for chart in view.charts]

    judged = (one for paper in document.claims for one in (*paper.measured, *paper.unmeasured))
    found = Counter(one.verdict for one in judged)
    return _render(
        "report.html.j2",
        document=document,
        **_script("report.js"),
        charts={one.sweep.anchor: embed(charts_of(one)) for one in document.sweeps if one.charts},
        others=others,
        linked={section.anchor for section in document.sections},
        drawings={anchor: Markup(svg.read_text(encoding="utf-8")) for anchor, svg in drawn.items()},
        addresses=addresses,
        margin_of=partial(margin_of, generated=generated),
        links={scale: f"../{scale}/report.html" for scale in SCALES},
        generated=generated,
        verdicts=[(one, found[one]) for one in Verdict if found[one]],
        total=found.total(),
    )


def html_index(lines: Sequence[Line], reports: Collection[str]) -> str:
    """Render the claims at all scales, with links to the reports of some."""
    links = {scale: f"{scale}/report.html" for scale in SCALES if scale in reports}
    return _render("index.html.j2", lines=lines, links=links, questions=answers(lines))


def html_run(
    record: Record,
    chart: Chart,
    artefacts: Mapping[str, str],
    paged: Collection[str] = (),
    listed: bool = True,
    example: str = "",
) -> str:
    """Render the page of one run, which contains no text of a corpus but generated ones.

    ``artefacts`` are named by address, ``paged`` are the runs that links may lead to, ``listed``
    says whether there are a list of all runs and a page that compares them. The drawing of an
    ``example`` is inserted unescaped.
    """
    names = main_first(record.metrics, main_metric(record))
    metrics = [
        (name, number_text(record.metrics[name], metric_of(name).digits), record.signatures[name])
        for name in names
    ]
    curves = embed([chart]) if chart["y"] else ""
    content = {"record": record, "metrics": metrics, "artefacts": artefacts, "chart": curves}
    content["example"] = Markup(example)
    return _render("run.html.j2", **content, paged=paged, listed=listed)


def html_page(name: str, data: object, code: str = "", **values: object) -> str:
    """Render a page that a script of the same name fills in from ``data``, values for JSON.

    ``code`` is a digest of the code that made the data; the page holds it, followed by one of its
    own sources.
    """
    page = {"data": embed(data), "digest": code + sources_digest(name), **_script(f"{name}.js")}
    return _render(f"{name}.html.j2", **page, **values)


def sources_digest(name: str) -> str:
    """Return a digest of the files that make up the pages of a name, without their data."""
    files = (f"{name}.html.j2", f"{name}.js", "page.html.j2", "base.html.j2", CHARTS, STYLE)
    return digest_of(_TEMPLATES / file for file in files)


def digest_of(files: Iterable[Path]) -> str:
    """Return a digest of the contents of files, taken together."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def embed(value: object) -> Markup:
    """Format JSON for a script element, which no text in it can close: there is no ``<``."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _script(name: str) -> dict[str, str]:
    """Read a script after that of charts; add the hash with which pages may contain them."""
    script = template_text(CHARTS) + template_text(name)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return {"script": Markup(script), "script_hash": f"sha256-{digest}"}


def template_text(name: str) -> str:
    """Read a template, script or style."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _render(template: str, **values: object) -> str:
    return _ENVIRONMENT.get_template(template).render(**values) + "\n"


def _number(text: str, tail: int = 0) -> Markup:
    """Wrap spread and marks of a cell in elements, the spread in one of ``tail`` characters."""
    found = _CELL.fullmatch(text)
    if found is None:
        return escape(text)
    value, sign, spread, marks = found.groups(default="")
    parts = [escape(value)]
    if tail:
        wrapped = Markup('<span class="spread" style="min-width:{}ch">{}</span>')
        parts.append(wrapped.format(round(0.9 * tail), spread))
    if sign or marks:
        parts.append(Markup('<span class="mark">{}</span>').format(sign + marks))
    return Markup("").join(parts)


def _tails(grid: Grid) -> list[int]:
    """Return the length of the longest spread in each column."""
    columns = zip(*(row.texts for row in grid.rows), strict=True)
    found = [[_CELL.fullmatch(text) for text in column] for column in columns]
    return [max((len(one[3]) for one in column if one), default=0) for column in found]


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip
_ENVIRONMENT.globals |= {
    "style": Markup(template_text(STYLE)),
    "missing": MISSING,
    "failed": FAILED,
    "ticks": TICKS,
    "scales": SCALES,
    "legend": LEGEND,
    "counts": counts,
    "runs_page": runs_page,
    "verdict_word": verdict_word,
    "claims_note": METHOD,
    "claims_warning": GENERATED,
}
# Headers must not break at their hyphens, other texts not between a letter and its hyphen, and
# labels not beside the sign before a value.
_ENVIRONMENT.filters["unbroken"] = lambda text: text.replace("-", "\N{NON-BREAKING HYPHEN}")
_ENVIRONMENT.filters["whole"] = lambda text: _BROKEN.sub("\N{NON-BREAKING HYPHEN}", text)
_ENVIRONMENT.filters["joined"] = lambda text: _SPACES.sub("\N{NO-BREAK SPACE}", text)
_ENVIRONMENT.filters["number"], _ENVIRONMENT.filters["tails"] = _number, _tails
