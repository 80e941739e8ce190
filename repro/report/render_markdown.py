"""Markdown (GitHub flavour): tables of one artefact, and the whole report."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from markupsafe import escape

from repro.report.claims import GENERATED, METHOD, counts
from repro.report.document import Document, Section
from repro.report.grid import Grid
from repro.report.margins import verdict_word
from repro.report.matrix import LEGEND, SCALES
from repro.report.provenance import GENERATED_SCALE
from repro.report.sweeps import SweepView

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~!$])")
_MATRIX = ("claim", "published", *SCALES, "answer")
_CLAIM_COLUMNS = ("verdict", "claim", "place", "measured", "certainty", "artefact")


def escape_markdown(text: str) -> str:
    """Escape the special characters of Markdown and join the text to one line."""
    flat = " ".join(text.split()).replace("&", "&amp;")
    return _SPECIAL.sub(r"\\\1", flat)


def markdown_grid(grid: Grid) -> str:
    """Format a grid without its title: groups before titles, measured corpora as a first row."""
    titles = [f"{c.group} {c.title}".strip() for c in grid.columns]
    rules = (":---" if column.role == "label" else "---:" for column in grid.columns)
    lines = [_line(titles), _join(rules)]
    if grid.corpora:
        corpora = (escape_markdown(column.corpus) for column in grid.columns)
        lines.append(_join(f"*{text}*" if text else "" for text in corpora))
    for row in grid.rows:
        cells = [(escape_markdown(cell.text), cell.best) for cell in row.cells]
        lines.append(_join(f"**{text}**" if best else text for text, best in cells))
    return "\n".join(lines) + "\n"


def markdown_table(section: Section) -> str:
    """Format the tables of one artefact with its warning, notes and facts."""
    place = escape_markdown(f"{section.experiment.name}, {section.experiment.place}")
    parts = [f"**{escape_markdown(section.experiment.title)}** ({place})", *_body(section)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def markdown_report(document: Document, folder: Path) -> str:
    """Format the report; links to figures are relative to ``folder``, where it will be saved."""

    def drawn(svg: Path, description: str) -> str:
        return f"![{escape_markdown(description)}]({Path(os.path.relpath(svg, folder)).as_posix()})"

    parts = [f"# Results, {escape_markdown(document.scale)} scale"]
    for title, items in document.alarms:
        lines = [f"> - {escape_markdown(item)}" for item in items]
        parts.append("\n".join([f"> **{title}:**", *lines]))
    parts += [f"> {escape_markdown(document.banner)}"] if document.banner else []
    new = document.new_sweeps
    parts += _sweeps("Sweeps", new, drawn)
    parts += _claims(document) if document.claims else []
    headings = {
        one.anchor: escape_markdown(f"{one.title} ({one.paper}, {one.place})")
        for one in (section.experiment for section in document.sections)
    }
    contents = [
        f"- [{headings[section.anchor]}](#{section.anchor}): {escape_markdown(section.state)}"
        for section in document.sections
    ]
    parts.append("\n".join(contents) or "No artefact has results at this scale.")
    for section in document.sections:
        parts += [f'<a id="{section.anchor}"></a>', f"## {headings[section.anchor]}"]
        if (figure := section.figure) is not None:
            texts = [drawn(figure.svg, figure.description)]
            texts.append(" ".join(escape_markdown(line) for line in figure.lines))
            title = f"figure, folded: {figure.folded}"
            parts += [_folded(title, "\n\n".join(texts))] if figure.folded else texts
        parts += _body(section)
    old = [view for view in document.sweeps if view not in new]
    parts += _sweeps("Earlier sweeps" if new else "Sweeps", old, drawn)
    lines = []
    for absent in document.absent:
        text = escape_markdown(f"{absent.name}: {absent.title}: {absent.reason}")
        lines.append(f"- {text}" + (f": `{absent.command}`" if absent.command else ""))
    parts += ["## Not run at this scale", "\n".join(lines)] if lines else []
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _sweeps(title: str, views: Sequence[SweepView], drawn: Callable[[Path, str], str]) -> list[str]:
    parts = [f"## {title}"] if views else []
    for view in views:
        parts.append(f"### {escape_markdown(view.sweep.name)}")
        parts.append(f"`{view.sweep.command}` ({view.state})")
        parts += [drawn(view.svg, view.description)] if view.svg is not None else []
        parts += [markdown_grid(grid) for grid in view.grids]
        best = [f"Best run: {' '.join(view.best)}."] if view.best else []
        parts.append("\n".join(f"- {escape_markdown(note)}" for note in (*best, *view.notes)))
        parts += [_folded(grid.title, markdown_grid(grid)) for grid in view.details]
    return parts


def _claims(document: Document) -> list[str]:
    """Format the verdicts on the claims of each paper; unmeasured ones share a line."""
    linked = {section.anchor for section in document.sections}
    parts, generated = ["## Claims of the papers"], document.scale == GENERATED_SCALE
    lines = [_line(_MATRIX), _join([":---", *[":---:"] * (1 + len(SCALES)), ":---"])]
    for one in document.matrix:
        judged, scales = one.strongest, zip(SCALES, one.signs, strict=True)
        signs = [f"**{sign}**" if scale == one.scale else sign for scale, sign in scales]
        text = escape_markdown(f"{judged.claim.text} ({one.authors}, {judged.claim.place})")
        lines.append(_join([text, one.published_sign, *signs, escape_markdown(judged.word)]))
    if document.matrix:
        summary = counts([one.strongest for one in document.matrix])
        parts += [f"{summary}.", "\n".join(lines), escape_markdown(LEGEND)]
    parts += [f"> {GENERATED}"] if generated else []
    for paper in document.claims:
        parts += [f"### {escape_markdown(paper.paper)}: {escape_markdown(paper.summary)}"]
        lines = [_line(_CLAIM_COLUMNS), _join([":---"] * len(_CLAIM_COLUMNS))]
        for row in paper.measured:
            claim, artefact = row.claim, row.experiment
            reading = f" Our reading: {claim.reading}" if claim.reading else ""
            texts = (
                verdict_word(row.verdict, generated, row.word),
                f"{claim.text}{reading}",
                f"{claim.place} ({claim.source})",
                row.evidence,
                row.certainty,
                artefact.short_place,
            )
            word, *words, name = map(escape_markdown, texts)
            link = f"[{name}](#{artefact.anchor})" if artefact.anchor in linked else name
            lines.append(_join([f"**{word}**", *words, link]))
        parts += ["\n".join(lines)] if paper.measured else []
        for verdict in dict.fromkeys(one.verdict for one in paper.unmeasured):
            absent = [
                f"{one.claim.text} ({one.claim.place}) {one.without}".rstrip()
                for one in paper.unmeasured
                if one.verdict is verdict
            ]
            parts += [escape_markdown(f"{verdict.capitalize()}: {' · '.join(absent)}")]
    return [*parts, escape_markdown(METHOD), "## Contents"]


def _body(section: Section) -> list[str]:
    facts = [f"- {escape_markdown(name)}: {escape_markdown(v)}" for name, v in section.facts]
    parts = [f"> {escape_markdown(section.banner)}"] if section.banner else []
    for grid in section.grids:
        parts += [f"**{escape_markdown(grid.title)}**", markdown_grid(grid)]
    notes, folded = (
        "\n".join(f"- {escape_markdown(note)}" for note in part) for part in section.remarks
    )
    parts += [notes, _folded("about this table", f"{folded}\n") if folded else ""]
    parts.append("\n".join(facts))
    parts += [_folded(grid.title, markdown_grid(grid)) for grid in section.details]
    return [part for part in parts if part]


def _folded(title: str, text: str) -> str:
    # Markdown's backslash escapes have no effect inside an HTML element.
    return f"<details><summary>{escape(' '.join(title.split()))}</summary>\n\n{text}\n</details>"


def _line(texts: Sequence[str]) -> str:
    return _join(escape_markdown(text) for text in texts)


def _join(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"
