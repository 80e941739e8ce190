"""Tables and figures from tidy records: data first, then Markdown, LaTeX, CSV and HTML."""

from repro.config.paths import extended
from repro.report.build import build_report, build_sweep_report
from repro.report.cell import Cell
from repro.report.computed import Origin, compute_figure_data
from repro.report.drawings import registered_drawings
from repro.report.select import draw_figure_data
from repro.report.table import Table, build_table

__all__ = [
    "DRAWINGS",
    "Cell",
    "Origin",
    "Table",
    "build_report",
    "build_sweep_report",
    "build_table",
    "compute_figure_data",
    "draw_figure_data",
]

__path__ += extended(__name__)

DRAWINGS = registered_drawings()
"""Every drawing by name, found at once, so that long sweeps end with the code they began with."""
