"""Tables and figures from tidy records: data first, then Markdown, LaTeX, CSV and HTML."""

from repro.report.build import build_report, build_sweep_report
from repro.report.cell import Cell
from repro.report.figures import Origin, export_figure_data, figure_kinds
from repro.report.table import Table, build_table

__all__ = [
    "Cell",
    "Origin",
    "Table",
    "build_report",
    "build_sweep_report",
    "build_table",
    "export_figure_data",
]

figure_kinds()  # imports every kind now: a long sweep must not pick up code edited meanwhile
