"""Self-contained HTML pages: style, images and script are embedded."""

import base64
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from repro.report.cell import MISSING
from repro.report.claims import GENERATED, METHOD, Verdict
from repro.report.document import Document
from repro.report.grid import Grid
from repro.report.margins import TICKS, margin_of, verdict_word
from repro.report.provenance import GENERATED_SCALE
from repro.report.run_pages import HEIGHT, WIDTH, RunPage

_CELL = re.compile(r"([\d.]+)(\*?)((?: ± [\d.]+)?(?: \(\d+/\d+\))?)([^\d\s]*)")
"""Pattern of a cell: value, sign of significance, spread with count of runs, marks."""
_BROKEN = re.compile(r"(?<=\b\w)-(?=\w)|(?<=\w)-(?=\w\b)")
"""Hyphens beside a single letter, as in R-1 or m-SparseMAP, at which no line should break."""
PAGES, STYLE = "pages", "style.css"
"""Name of the folder of the pages of runs, next to the report, and of their style."""
_TEMPLATES = Path(__file__).parent / "templates"


def html_report(document: Document, pages: Path | None = None, above: str = "") -> str:
    """Render the report with its drawings; every text of a record is escaped.

    Args:
        document: the report.
        pages: folder of the pages of runs; a run without a page is not linked.
        above: relative path from the report to the folder that contains ``pages``.
    """
    # Drawings are inserted unescaped: this package made them and escaped all of their text.
    drawn = {s.anchor: s.figure.svg for s in document.sections if s.figure is not None}
    drawn |= {view.sweep.anchor: view.svg for view in document.sweeps}
    generated = document.scale == GENERATED_SCALE
    judged = (one for paper in document.claims for one in (*paper.measured, *paper.unmeasured))
    counts = Counter(one.verdict for one in judged)
    return _render(
        "report.html.j2",
        document=document,
        style=Markup(style()),
        **_script("report.js"),
        linked={section.anchor for section in document.sections},
        drawings={
            anchor: Markup(svg.read_text(encoding="utf-8"))
            for anchor, svg in drawn.items()
            if svg is not None
        },
        missing=MISSING,
        pages=f"{above}{PAGES}",
        paged={page.stem for page in pages.glob("*.html")} if pages else set(),
        margin_of=partial(margin_of, generated=generated),
        ticks=TICKS,
        generated=generated,
        verdict_word=verdict_word,
        verdicts=[(one, counts[one]) for one in Verdict if counts[one]],
        total=counts.total(),
        claims_note=METHOD,
        claims_warning=GENERATED if generated else "",
    )


def html_run(page: RunPage, paged: Collection[str] = ()) -> str:
    """Render the page of one run, which links to those of other runs that are ``paged``."""
    return _render("run.html.j2", page=page, paged=paged, width=WIDTH, height=HEIGHT)


def html_comparison(pages: Sequence[RunPage], labels: Mapping[str, str]) -> str:
    """Render the page that compares any two runs.

    Args:
        pages: the runs, at least one.
        labels: by run, a text that distinguishes it from the other runs of its artefact.
    """
    settings = [page.record.settings for page in pages]
    every = {key for one in settings for key in one}
    varying = {key for key in every if len({str(one.get(key, "")) for one in settings}) > 1}
    groups, runs = defaultdict[str, list[tuple[str, str]]](list), {}
    for page in pages:
        run_id = page.record.run_id
        groups[page.artefacts[0][1]].append((run_id, labels[run_id]))
        runs[run_id] = {
            "settings": {k: str(v) for k, v in page.record.settings.items() if k in varying},
            "metrics": {name: value for name, value, _ in page.metrics},
            "curves": {curve.name: curve.values for curve in page.curves},
        }
    # Without `<`, no text of a run can close the script element that contains it.
    content = json.dumps(runs, sort_keys=True, separators=(",", ":")).replace("<", "\\u003c")
    return _render(
        "compare.html.j2",
        scale=pages[0].record.scale,
        groups=sorted(groups.items()),
        runs=Markup(content),
        **_script("compare.js"),
    )


def _script(name: str) -> dict[str, str]:
    """Read a script and compute the hash by which the Content-Security-Policy allows it."""
    script = (_TEMPLATES / name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return {"script": Markup(script), "script_hash": f"sha256-{digest}"}


def style() -> str:
    """Return the style of all pages: embedded in a report, a file beside the pages of runs."""
    return (_TEMPLATES / STYLE).read_text(encoding="utf-8")


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
# Headers must not break at their hyphens, other texts not between a letter and its hyphen.
_ENVIRONMENT.filters["unbroken"] = lambda text: text.replace("-", "\N{NON-BREAKING HYPHEN}")
_ENVIRONMENT.filters["whole"] = lambda text: _BROKEN.sub("\N{NON-BREAKING HYPHEN}", text)
_ENVIRONMENT.filters["number"], _ENVIRONMENT.filters["tails"] = _number, _tails
