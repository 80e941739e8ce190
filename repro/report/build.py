"""The report of one scale, written to the results folder."""

from collections.abc import Collection
from pathlib import Path

from repro.report.computed import stored_figure
from repro.report.document import Document, Section, build_document, sweep_document
from repro.report.figure import render_figure
from repro.report.render_csv import csv_table
from repro.report.render_html import html_report
from repro.report.render_latex import latex_table
from repro.report.render_markdown import markdown_report, markdown_table
from repro.results import (
    Archive,
    atomic_write_text,
    figure_path,
    require_writable,
    scale_dir,
    table_path,
)
from repro.results.sweeps import sweep_path


def build_report(archive: Archive, names: Collection[str] | None = None) -> Path:
    """Write tables, figures, ``report.md`` and ``report.html`` of one scale.

    Reads records, comparisons, figure data and published values, and the folders of the runs as
    far as they are there; the same input gives the same bytes.

    Args:
        archive: the records.
        names: artefacts that are brought up to date; None for all. Of the others the figures and
            paired tests stay as they are.

    Returns:
        ``<results_dir>/<scale>/report.html``.

    Raises:
        ResultsError: a file of results is damaged, or the folder cannot be written.
        ConfigError: an experiment file is.
    """
    results_dir, scale = archive.results_dir, archive.scale
    require_writable(results_dir)
    document = build_document(archive, names)
    for section in document.sections:
        if names is None or section.experiment.name in names or not _is_drawn(section):
            _write_artefact(results_dir, scale, section)
    return _write_pages(results_dir, scale, document)


def build_sweep_report(archive: Archive, name: str) -> Path:
    """Write the page of one sweep; returns its file, ``sweeps/<name>.html``.

    Raises:
        ResultsError: there is no sweep of this name, or none of its runs is done.
    """
    page = sweep_path(archive.results_dir, archive.scale, name, "html")
    atomic_write_text(page, html_report(sweep_document(archive, name)))
    return page


def _is_drawn(section: Section) -> bool:
    view = section.figure
    return view is not None and view.svg is not None and view.svg.exists()


def _write_artefact(results_dir: Path, scale: str, section: Section) -> None:
    name = section.experiment.name
    if section.figure is not None and section.figure.svg is None:
        for suffix in ("svg", "png"):  # of an earlier run that had an example
            figure_path(results_dir, scale, name, suffix).unlink(missing_ok=True)
    elif section.figure is not None:
        data = stored_figure(results_dir, scale, section.experiment)
        assert data is not None
        render_figure(results_dir, scale, data)
    if section.experiment.kind == "table":
        texts = {
            "md": markdown_table(section),
            "tex": latex_table(section),
            "csv": csv_table(section.table),
        }
        for suffix, text in texts.items():
            atomic_write_text(table_path(results_dir, scale, name, suffix), text)


def _write_pages(results_dir: Path, scale: str, document: Document) -> Path:
    folder = scale_dir(results_dir, scale)
    atomic_write_text(folder / "report.md", markdown_report(document, folder))
    page = folder / "report.html"
    atomic_write_text(page, html_report(document))
    return page
