"""Markdown (GitHub flavour): tables of one artefact, and the whole report."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from markupsafe import escape

from repro.report.claims import GENERATED, METHOD, ClaimRow
from repro.report.document import Absent, Document, Section
from repro.report.grid import Grid
from repro.report.provenance import GENERATED_SCALE
from repro.report.sweeps import SweepView

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~!$])")
_CLAIM_COLUMNS = ("verdict", "claim", "place", "measured", "certainty", "artefact")
_ALIGN = {"label": ":---", "measured": "---:", "published": "---:", "difference": "---:"}


def escape_markdown(text: str) -> str:
    """The text so that Markdown shows it as it is, on one line."""
    flat = " ".join(text.split()).replace("&", "&amp;")
    return _SPECIAL.sub(r"\\\1", flat)


def markdown_grid(grid: Grid) -> str:
    """One grid without its title; groups are written before the titles of their columns."""
    titles = [f"{c.group} {c.title}".strip() for c in grid.columns]
    lines = [_line(titles), _join(_ALIGN[column.role] for column in grid.columns)]
    for row in grid.rows:
        texts = [escape_markdown(text) for text in row.texts]
        lines.append(_join(f"**{t}**" if n in row.best else t for n, t in enumerate(texts)))
    return "\n".join(lines) + "\n"


def markdown_table(section: Section) -> str:
    """The tables of one artefact with its warning and its facts."""
    parts = [f"**{escape_markdown(section.experiment.title)}** ({_place(section)})"]
    parts += _body(section)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def markdown_report(document: Document, folder: Path) -> str:
    """The whole report.

    Args:
        document: what to show.
        folder: where the report will lie; figures are linked relative to it.
    """
    parts = [f"# Results, {escape_markdown(document.scale)} scale"]
    parts += [f"> {escape_markdown(document.banner)}"] if document.banner else []
    parts += _claims(document)
    parts += ["\n".join(_contents(document))]
    for section in document.sections:
        parts += [f'<a id="{section.anchor}"></a>', f"## {_heading(section)}"]
        parts += [*_figure(section, folder), *_body(section)]
    if document.sweeps:
        parts += ["## Sweeps", *(part for view in document.sweeps for part in _sweep(view, folder))]
    if document.absent:
        parts += ["## Not run at this scale", "\n".join(_absent(part) for part in document.absent)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _sweep(view: SweepView, folder: Path) -> list[str]:
    parts = [f"### {escape_markdown(view.sweep.name)}", f"`{view.sweep.command}` ({view.state})"]
    if view.svg is not None:
        link = view.svg.relative_to(folder).as_posix()
        parts.append(f"![{escape_markdown(view.description)}]({link})")
    parts += [markdown_grid(grid) for grid in view.grids]
    parts.append("\n".join(f"- {escape_markdown(note)}" for note in view.notes))
    return [*parts, *(_folded(grid) for grid in view.details)]


def _claims(document: Document) -> list[str]:
    """The claims of each paper with their verdicts, those without a value named in one line."""
    if not document.claims:
        return []
    linked = {section.anchor for section in document.sections}
    parts = ["## Claims of the papers"]
    parts += [f"> {GENERATED}"] if document.scale == GENERATED_SCALE else []
    for paper in document.claims:
        parts += [f"### {escape_markdown(paper.paper)}: {escape_markdown(paper.summary)}"]
        if paper.measured:
            head = [_line(_CLAIM_COLUMNS), _join([":---"] * len(_CLAIM_COLUMNS))]
            parts += ["\n".join([*head, *(_claim(row, linked) for row in paper.measured)])]
        if paper.unmeasured:
            texts = " · ".join(f"{row.text} ({row.place})" for row in paper.unmeasured)
            parts += [f"Not measured at this scale: {escape_markdown(texts)}"]
    return [*parts, escape_markdown(METHOD), "## Contents"]


def _claim(row: ClaimRow, linked: set[str]) -> str:
    texts = [escape_markdown(text) for text in (row.text, row.place, row.evidence, row.certainty)]
    verdict = f"**{escape_markdown(row.verdict)}**"
    name = escape_markdown(row.artefact)
    link = f"[{name}](#{row.anchor})" if row.anchor in linked else name
    return _join([verdict, *texts, link])


def _contents(document: Document) -> list[str]:
    return [
        f"- [{_heading(section)}](#{section.anchor}): {escape_markdown(section.state)}"
        for section in document.sections
    ] or ["No artefact has results at this scale."]


def _heading(section: Section) -> str:
    experiment = section.experiment
    return escape_markdown(f"{experiment.title} ({experiment.paper}, {experiment.place})")


def _place(section: Section) -> str:
    return escape_markdown(f"{section.experiment.name}, {section.experiment.place}")


def _figure(section: Section, folder: Path) -> list[str]:
    view = section.figure
    if view is None:
        return []
    words = " ".join(escape_markdown(line) for line in view.lines)
    run = f"Shown: {escape_markdown(view.run)}."
    if view.svg is None:
        return [words, run]
    link = view.svg.relative_to(folder).as_posix()
    return [f"![{escape_markdown(view.description)}]({link})", words, run]


def _body(section: Section) -> list[str]:
    parts = [f"> {escape_markdown(section.banner)}"] if section.banner else []
    for grid in section.grids:
        parts += [f"**{escape_markdown(grid.title)}**", markdown_grid(grid)]
    parts += ["\n".join(f"- {escape_markdown(note)}" for note in section.notes)]
    parts += ["\n".join(_fact(name, value) for name, value in section.facts)]
    parts += [_folded(grid) for grid in section.details]
    return [part for part in parts if part]


def _folded(grid: Grid) -> str:
    # Inside an HTML element Markdown's own escapes do not work.
    summary = escape(" ".join(grid.title.split()))
    return f"<details><summary>{summary}</summary>\n\n{markdown_grid(grid)}\n</details>"


def _fact(name: str, value: str) -> str:
    return f"- {escape_markdown(name)}: {escape_markdown(value)}"


def _absent(part: Absent) -> str:
    command = f": `{part.command}`" if part.command else ""
    return f"- {escape_markdown(f'{part.name}: {part.title}: {part.reason}')}{command}"


def _line(texts: Sequence[str]) -> str:
    return _join(escape_markdown(text) for text in texts)


def _join(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"
