"""One HTML page that needs nothing else: style and images are inside, scripts there are none."""

import base64
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from repro.report.cell import MISSING
from repro.report.claims import GENERATED, METHOD
from repro.report.document import Document
from repro.report.provenance import GENERATED_SCALE

_TEMPLATES = Path(__file__).parent / "templates"


def html_report(document: Document) -> str:
    """The whole report; every text of an experiment or a record is escaped.

    Args:
        document: what to show; the files of its figures must exist.
    """
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = Markup((_TEMPLATES / "style.css").read_text(encoding="utf-8"))
    template = environment.get_template("report.html.j2")
    images = _images(document)
    page = template.render(
        document=document,
        style=style,
        images=images,
        missing=MISSING,
        claims_note=METHOD,
        claims_warning=GENERATED if document.scale == GENERATED_SCALE else "",
    )
    return page + "\n"


def _images(document: Document) -> dict[str, str]:
    # An SVG in an img element can neither run scripts nor clash with the identifiers of another.
    return {
        section.anchor: _data_uri(section.figure.svg)
        for section in document.sections
        if section.figure is not None and section.figure.svg is not None
    }


def _data_uri(svg: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.read_bytes()).decode('ascii')}"
