"""Figures: each kind says which runs it shows, which of their data, how it is drawn and told."""

from repro.config.paths import extended
from repro.report.figures.data import (
    FigureData,
    Origin,
    draw_figure,
    export_figure_data,
    read_figure_data,
    render_figure,
)
from repro.report.figures.kinds import Figure, FigureRun, FigureRuns, figure_kind, figure_kinds

__all__ = [
    "Figure",
    "FigureData",
    "FigureRun",
    "FigureRuns",
    "Origin",
    "draw_figure",
    "export_figure_data",
    "figure_kind",
    "figure_kinds",
    "read_figure_data",
    "render_figure",
]

__path__ += extended(__name__)
