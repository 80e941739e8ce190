"""Tables and figures from tidy records: data first, then Markdown, LaTeX, CSV and HTML."""

from repro.report.build import build_report
from repro.report.cell import Cell
from repro.report.drawings import DRAWINGS
from repro.report.select import draw_figure_data
from repro.report.table import Table, build_table

__all__ = ["DRAWINGS", "Cell", "Table", "build_report", "build_table", "draw_figure_data"]
