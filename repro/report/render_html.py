"""Self-contained HTML pages: style, images and script are embedded."""

import base64
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from repro.evaluation.metrics import metric_of
from repro.report.cell import MISSING
from repro.report.claims import GENERATED, METHOD, Verdict
from repro.report.document import Document
from repro.report.grid import Grid
from repro.report.margins import TICKS, margin_of, verdict_word
from repro.report.provenance import GENERATED_SCALE
from repro.report.run_pages import HEIGHT, WIDTH, ComparedRun, RunPage
from repro.report.sweeps import SweepView

_CELL = re.compile(r"([\d.]+)(\*?)((?: ± [\d.]+)?(?: \(\d+/\d+\))?)([^\d\s]*)")
"""Pattern of a cell: value, sign of significance, spread with count of runs, marks."""
_BROKEN = re.compile(r"(?<=\b\w)-(?=\w)|(?<=\w)-(?=\w\b)")
"""Hyphens beside a single letter, as in R-1 or m-SparseMAP, at which no line should break."""
PAGES, STYLE = "pages", "style.css"
"""Name of the folder of the pages of runs, next to the report, and of their style."""
RUNS_PAGE, MAPPINGS_PAGE = "runs.html", "mappings.html"
"""Names of the page of all runs, next to the report, and of the mappings, one folder above."""
MAPPINGS_SOURCES = ("mappings.html.j2", "page.js", "mappings.js", STYLE)
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
    paged = {page.stem for page in pages.glob("*.html")} if pages else set()
    others = (("All runs", RUNS_PAGE), ("The mappings", f"../{MAPPINGS_PAGE}")) if pages else ()
    home = pages.parent if pages else Path()

    def chart(view: SweepView) -> list[dict[str, Any]]:
        return [
            {
                "id": run,
                "label": label,
                "page": f"{above}{PAGES}/{run}.html" if run in paged else None,
                **history._asdict(),
            }
            for run, (label, history) in view.curves.items()
        ]

    judged = (one for paper in document.claims for one in (*paper.measured, *paper.unmeasured))
    counts = Counter(one.verdict for one in judged)
    return _render(
        "report.html.j2",
        document=document,
        style=Markup(style()),
        **_script("page.js", "charts.js", "report.js"),
        charts={view.sweep.anchor: _json(chart(view)) for view in document.sweeps if view.curves},
        others=[(title, f"{above}{file}") for title, file in others if (home / file).exists()],
        linked={section.anchor for section in document.sections},
        drawings={
            anchor: Markup(svg.read_text(encoding="utf-8"))
            for anchor, svg in drawn.items()
            if svg is not None
        },
        missing=MISSING,
        pages=f"{above}{PAGES}",
        paged=paged,
        margin_of=partial(margin_of, generated=generated),
        ticks=TICKS,
        generated=generated,
        verdict_word=verdict_word,
        verdicts=[(one, counts[one]) for one in Verdict if counts[one]],
        total=counts.total(),
        claims_note=METHOD,
        claims_warning=GENERATED if generated else "",
    )


def html_run(page: RunPage, paged: Collection[str] = (), compared: bool = True) -> str:
    """Render the page of one run.

    Args:
        page: its content.
        paged: other runs that have pages, for links.
        compared: whether there is a report, whose pages compare and list it.
    """
    size = {"width": WIDTH, "height": HEIGHT}
    return _render("run.html.j2", page=page, paged=paged, compared=compared, **size)


def html_comparison(
    runs: Sequence[ComparedRun],
    first: Sequence[str] = (),
    tests: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None,
) -> str:
    """Render the page that compares runs, of which its reader may choose others.

    Args:
        runs: the runs, at least one.
        first: runs that are chosen at first; without any, the first two.
        tests: p-values by baseline, metric and run. With them the page needs no other file.
    """
    settings = [one.settings for one in runs]
    varying = {
        key
        for key in {key for one in settings for key in one}
        if len({one.get(key) for one in settings}) > 1
    }
    groups, content = defaultdict[str, list[tuple[str, str]]](list), {}
    for one in runs:
        groups[one.group].append((one.record.run_id, one.label))
        metrics = {n: round(v, 6) for n, v in one.record.metrics.items() if n.count("/") == 1}
        content[one.record.run_id] = {
            "id": one.record.run_id,
            "label": one.label,
            "page": one.page,
            "settings": {key: v for key, v in sorted(one.settings.items()) if key in varying},
            "metrics": metrics,
            **one.history._asdict(),
        }
    names = {name for one in content.values() for name in one["metrics"]}
    data = {
        "runs": content,
        "metrics": {
            name: {"digits": metric_of(name).digits, "higher": metric_of(name).higher_is_better}
            for name in sorted(names, key=lambda name: (not name.startswith("test/"), name))
        },
        "tests": tests or {},
        "first": [*first] or [*content][:2],
    }
    return _render(
        "compare.html.j2",
        scale=runs[0].record.scale,
        groups=sorted(groups.items()),
        runs=_json(data),
        embedded="" if tests is None else Markup(style()),
        **_script("page.js", "charts.js", "compare.js"),
    )


def html_runs(data: Mapping[str, Any]) -> str:
    """Render the page of all runs from :func:`repro.report.all_runs.runs_data`."""
    return _render(
        "runs.html.j2",
        scale=data["scale"],
        data=_json(data),
        style=Markup(style()),
        **_script("page.js", "runs.js"),
    )


def html_mappings(data: Mapping[str, Any], digest: str) -> str:
    """Render the page of the mappings; ``digest`` says of which code."""
    return _render(
        MAPPINGS_SOURCES[0],
        reach=data["reach"],
        data=_json(data),
        digest=digest,
        style=Markup(style()),
        **_script(*MAPPINGS_SOURCES[1:3]),
    )


def _json(value: object) -> Markup:
    """Format JSON for a script element, which no text in it can close: there is no ``<``."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def sources(*names: str) -> bytes:
    """Join the files of some templates and scripts."""
    return b"".join((_TEMPLATES / name).read_bytes() for name in names)


def _script(*names: str) -> dict[str, str]:
    """Join scripts and compute the hash by which the Content-Security-Policy allows them."""
    script = sources(*names)
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode("ascii")
    return {"script": Markup(script.decode()), "script_hash": f"sha256-{digest}"}


def style() -> str:
    """Return the style of all pages: embedded in a report, a file beside the pages of runs."""
    return sources(STYLE).decode()


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
