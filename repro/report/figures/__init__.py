"""Figures: each kind selects runs and their data, draws them and describes the drawing."""

from repro.config.paths import extended
from repro.report.figures.data import (
    FigureData,
    Origin,
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
    "export_figure_data",
    "figure_kind",
    "figure_kinds",
    "read_figure_data",
    "render_figure",
]

__path__ += extended(__name__)
