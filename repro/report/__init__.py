"""Tables and figures from tidy records: data first, then Markdown, LaTeX, CSV and HTML."""

from repro.report.build import build_report, build_sweep_report
from repro.report.figures import Origin, export_figure_data, figure_kinds

__all__ = [
    "Origin",
    "build_report",
    "build_sweep_report",
    "export_figure_data",
]

figure_kinds()  # imports every kind now: a long sweep must not pick up code edited meanwhile
