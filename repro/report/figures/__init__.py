"""Figures: each kind selects runs and their data, draws them and describes the drawing."""

from repro.config.paths import extended
from repro.report.figures.data import (
    FigureData,
    Origin,
    draw_figure,
    export_figure_data,
    read_figure_data,
    refuse_malformed,
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
    "refuse_malformed",
    "render_figure",
]

__path__ += extended(__name__)
