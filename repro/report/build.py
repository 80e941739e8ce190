"""Write the report of one scale to the results folder."""

import json
import logging
from collections.abc import Collection, Sequence
from pathlib import Path

from repro.checksums import DamagedFileError
from repro.data.files import write_if_changed
from repro.report.document import Document, Section, build_document, sweep_document
from repro.report.figures import render_figure
from repro.report.figures.attention import draw_example
from repro.report.figures.data import DIGEST, drawing_digest
from repro.report.grid import linked_runs
from repro.report.many_runs import Row, compared_run, comparison_page, label_of, list_page
from repro.report.render_csv import csv_table
from repro.report.render_html import (
    CHARTS,
    MAPPINGS_PAGE,
    PAGES,
    PAGES_LIST,
    STYLE,
    html_index,
    html_report,
    html_run,
    runs_page,
    template_text,
)
from repro.report.render_latex import latex_table
from repro.report.render_markdown import markdown_report, markdown_table
from repro.report.sweeps import SweepView
from repro.results import (
    Archive,
    Record,
    ResultsError,
    RunFolder,
    require_writable,
    run_folder,
    runs_dir,
    scale_dir,
    table_path,
)
from repro.results.sweeps import sweep_path

_log = logging.getLogger(__name__)


def build_report(archive: Archive, names: Collection[str] | None = None) -> Path:
    """Write tables, figures, ``report.md`` and ``report.html`` of one scale.

    The input is records, comparisons, figure data, published values and those run folders that
    exist; equal input gives identical bytes.

    Args:
        archive: the records.
        names: artefacts to update; None for all. Figures and paired tests of the others are kept.

    Returns:
        ``<results_dir>/<scale>/report.html``.

    Raises:
        ResultsError: a file of results is damaged, or the folder cannot be written.
        ConfigError: an experiment file is malformed.
    """
    results_dir, scale = archive.results_dir, archive.scale
    require_writable(results_dir)
    document = build_document(archive, names)
    archive.plans.save()
    for section in document.sections:
        name, figure = section.experiment.name, section.figure
        if figure is not None and (names is None or name in names or not figure.svg.exists()):
            render_figure(results_dir, figure.home, figure.data)
        if section.experiment.kind == "table":
            markdown, latex = markdown_table(section), latex_table(section)
            texts = {"md": markdown, "tex": latex, "csv": csv_table(section.table)}
            for suffix, text in texts.items():
                write_if_changed(table_path(results_dir, scale, name, suffix), text.encode())
    for absent in document.absent if names is None else ():
        if not absent.exceptional:  # its tables, if any, are those of settings that it had before
            for suffix in ("md", "tex", "csv"):
                table_path(results_dir, scale, absent.name, suffix).unlink(missing_ok=True)
    folder = scale_dir(results_dir, scale)
    for path in (folder / "sweeps").glob("*.*"):
        if path.suffix in (".svg", ".html") and not path.with_suffix(".json").exists():
            path.unlink()  # drawing or page of a sweep that was removed
    write_pages(archive, document, _kept(archive), folder / PAGES)
    if archive.records:
        write_if_changed(folder / runs_page(scale), list_page(archive).encode())
    write_if_changed(folder / "report.md", markdown_report(document, folder).encode())
    report = folder / "report.html"
    addresses = {one.run_id: f"{runs_page(scale)}#{one.run_id}" for one in archive.records}
    page = html_report(document, addresses, _other_pages(folder))
    write_if_changed(report, page.encode())
    if document.matrix:
        reports = {path.parent.name for path in results_dir.glob("*/report.html")}
        write_if_changed(results_dir / "index.html", html_index(document.matrix, reports).encode())
    return report


def _kept(archive: Archive) -> list[Record]:
    """Return the records whose run folders are here: only these add something to their pages."""
    folder = runs_dir(archive.results_dir, archive.scale)
    return [one for one in archive.records if (folder / one.run_id).exists()]


def _other_pages(folder: Path, above: str = "") -> list[tuple[str, str]]:
    """Return titles and addresses of the pages that exist beside a report."""
    pages = (("All runs", runs_page(folder.name)), ("The mappings", f"../{MAPPINGS_PAGE}"))
    return [(title, f"{above}{page}") for title, page in pages if (folder / page).exists()]


def write_pages(
    archive: Archive, document: Document, records: Sequence[Record], folder: Path
) -> None:
    """Write a page for each of some runs, one that compares them, and the list of these pages.

    The report says where runs are shown. Other pages in the folder are deleted.
    """
    rows = _write_run_pages(archive, document, "report.html", records, folder)
    written = {f"{row['id']}.html" for row in rows}
    written |= {"compare.html", PAGES_LIST} if rows else set()
    for path in (*folder.glob("*.html"), *folder.glob(PAGES_LIST)):
        if path.name not in written:
            path.unlink()
    if rows:
        listed = json.dumps([row["id"] for row in rows])
        write_if_changed(folder / PAGES_LIST, f"addPages({listed});\n".encode())
        rows.sort(key=lambda row: str(row["group"]))
        first = [row["id"] for row in rows[:2]]
        compared = comparison_page(rows, first, {}, archive.scale)
        write_if_changed(folder / "compare.html", compared.encode())


def _write_run_pages(
    archive: Archive, document: Document, report: str, records: Sequence[Record], folder: Path
) -> list[Row]:
    """Write pages of runs that link to a report of them; return the runs for a comparison."""
    shown: dict[str, dict[str, str]] = {}
    labels: dict[str, str] = {}
    parts: list[tuple[str, str, Section | SweepView]]
    parts = [(one.anchor, one.experiment.name, one) for one in document.sections]
    parts += [(one.sweep.anchor, f"sweep {one.sweep.name}", one) for one in document.sweeps]
    for anchor, name, part in parts:
        for label, run in linked_runs((*part.grids, *part.details)):
            shown.setdefault(run.run_id, {})[f"../{report}#{anchor}"] = name
            labels.setdefault(run.run_id, f"{label}, {run.label}" if run.label else label)
    rows, paged = [], {record.run_id for record in records}
    for record in records:
        name, places = f"{record.run_id}.html", shown.get(record.run_id, {})
        home = run_folder(archive.results_dir, archive.scale, record.run_id)
        row = compared_run(record, home, labels.get(record.run_id) or label_of(record), name)
        example = _example(record, home, folder / name)
        page = html_run(record, row, places, paged, report == "report.html", example)
        write_if_changed(folder / name, page.encode())
        rows.append({**row, "group": next(iter(places.values()), "in no table")})
    for name in (STYLE, CHARTS) if rows else ():
        write_if_changed(folder / name, template_text(name).encode())
    return rows


def _example(record: Record, folder: RunFolder, page: Path) -> str:
    """Draw the attention of the first kept example that is no corpus's; blank without any.

    A drawing on the present page of the run is kept if neither the example nor the code changed.
    """
    own = folder.own_examples
    kept = own if own.attention.exists() or not record.settings.get("data.generated") else folder
    if not kept.attention.exists():
        return ""
    try:
        row = next(iter(kept.read_attention()), {})
        if not {"source", "premise"} & row.keys():  # of a task of one's own, or none at all
            return ""
        mapping = str(record.settings.get("mapping.name") or "")
        mark = f"<!-- {DIGEST}: {drawing_digest([row, mapping])} -->"
        present = page.read_text(encoding="utf-8") if page.exists() else ""
        drawing, end, _ = present.partition(mark)[2].partition("</svg>")
        if end:
            return f"{mark}{drawing}{end}"
        canvas, description = draw_example(row, mapping)
    except KeyError as error:
        _log.warning("%s: the first row has no %s", kept.attention, error)
        return ""
    except (DamagedFileError, ResultsError) as error:  # both name the file
        _log.warning("%s", error)
        return ""
    return mark + canvas.svg(f"example-{record.run_id}", description).strip()


def build_sweep_report(archive: Archive, name: str) -> Path:
    """Write the page of one sweep and return its path, ``sweeps/<name>.html``.

    Runs of the sweep whose folders are here get pages if they have none.

    Raises:
        ResultsError: there is no sweep of this name.
    """
    file = sweep_path(archive.results_dir, archive.scale, name, "html")
    folder = scale_dir(archive.results_dir, archive.scale) / PAGES
    document = sweep_document(archive, name)
    runs = {run for view in document.sweeps for run in view.sweep.runs}
    runs -= {path.stem for path in folder.glob("*.html")}
    records = [record for record in _kept(archive) if record.run_id in runs]
    _write_run_pages(archive, document, f"{file.parent.name}/{file.name}", records, folder)
    addresses = {page.stem: f"../{PAGES}/{page.name}" for page in folder.glob("*.html")}
    report = html_report(document, addresses, _other_pages(folder.parent, "../"))
    write_if_changed(file, report.encode())
    return file
