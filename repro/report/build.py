"""Writing of the report of one scale to the results folder."""

from collections.abc import Collection
from pathlib import Path

from repro.data.files import write_if_changed
from repro.report.document import build_document, sweep_document
from repro.report.figures import read_figure_data, render_figure
from repro.report.render_csv import csv_table
from repro.report.render_html import PAGES, html_comparison, html_report, html_run
from repro.report.render_latex import latex_table
from repro.report.render_markdown import markdown_report, markdown_table
from repro.report.run_pages import run_page
from repro.results import Archive, figure_path, require_writable, run_folder, scale_dir, table_path
from repro.results.sweeps import sweep_path


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
    shown: dict[str, dict[str, str]] = {}
    labels: dict[str, str] = {}
    for section in document.sections:
        name, figure = section.experiment.name, section.figure
        for grid in (*section.grids, *section.details):
            for row in grid.rows:
                for run in (run for runs in row.runs.values() for run in runs):
                    shown.setdefault(run.run_id, {})[section.anchor] = name
                    label = " / ".join(row.texts[: len(section.experiment.rows)])
                    labels.setdefault(run.run_id, f"{label}, {run.label}" if run.label else label)
        svg = None if figure is None else figure.svg
        if names is not None and name not in names and svg is not None and svg.exists():
            continue
        if figure is not None and svg is None:
            for suffix in ("svg", "png"):  # drawn from an earlier run that had an example
                figure_path(results_dir, scale, name, suffix).unlink(missing_ok=True)
        elif figure is not None:
            data = read_figure_data(results_dir, scale, name)
            assert data is not None
            render_figure(results_dir, scale, data)
        if section.experiment.kind == "table":
            markdown, latex = markdown_table(section), latex_table(section)
            texts = {"md": markdown, "tex": latex, "csv": csv_table(section.table)}
            for suffix, text in texts.items():
                write_if_changed(table_path(results_dir, scale, name, suffix), text.encode())
    # One page per run that a table links to, and one that compares any two; others are deleted.
    folder, pages = scale_dir(results_dir, scale), []
    for record in archive.records:
        if record.run_id in shown:
            runs = run_folder(results_dir, scale, record.run_id)
            pages.append(run_page(record, runs, list(shown[record.run_id].items())))
            page = folder / PAGES / f"{record.run_id}.html"
            write_if_changed(page, html_run(pages[-1]).encode())
    wanted = {*shown}
    if pages:
        comparison = html_comparison(pages, labels)
        write_if_changed(folder / PAGES / "compare.html", comparison.encode())
        wanted.add("compare")
    for page in (folder / PAGES).glob("*.html"):
        if page.stem not in wanted:
            page.unlink()
    write_if_changed(folder / "report.md", markdown_report(document, folder).encode())
    report = folder / "report.html"
    write_if_changed(report, html_report(document).encode())
    return report


def build_sweep_report(archive: Archive, name: str) -> Path:
    """Write the page of one sweep and return its path, ``sweeps/<name>.html``.

    Raises:
        ResultsError: there is no sweep of this name, or none of its runs is done.
    """
    page = sweep_path(archive.results_dir, archive.scale, name, "html")
    write_if_changed(page, html_report(sweep_document(archive, name)).encode())
    return page
