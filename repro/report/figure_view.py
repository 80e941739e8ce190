"""Figures as a section of the report shows them: file, description and caption."""

from dataclasses import dataclass
from pathlib import Path

from repro.config.experiment import Experiment
from repro.evaluation.metrics import metric_of
from repro.report.figures.data import FigureData, refuse_malformed
from repro.report.figures.kinds import choice_in_words, place_in_words, shown_examples
from repro.results import figure_path


@dataclass(frozen=True)
class FigureView:
    """Figure with its texts."""

    data: FigureData  # what is drawn
    home: str  # scale whose folder holds the files
    svg: Path  # file of the drawing
    description: str  # alternative text of the drawing
    lines: tuple[str, ...]  # caption with remarks, and what the paper's figure shows
    run: str  # which run is shown and why, or that there is none
    folded: str  # why the figure is folded; blank if it is not


def figure_view(
    results_dir: Path, scale: str, experiment: Experiment, data: FigureData, home: str
) -> FigureView:
    """Collect what the report says about a figure, whose files may be at ``home``, another scale.

    Raises:
        ResultsError: the data do not fit the kind of figure.
    """
    kind, plan = data.kind, experiment.drawing
    said = (plan.published if plan else "").removeprefix(f"{experiment.place.split(',')[0]}: ")
    published = f"In the paper: {said}" if said else ""
    caption = plan.caption if plan else ""
    svg = figure_path(results_dir, home, experiment.name, "svg")
    with refuse_malformed(experiment.name):
        parts = (caption, kind.remark(data.example), choice_in_words(data.example))
        lines = tuple(filter(None, (" ".join(filter(None, parts)), published)))
        folded = experiment.scales[scale].folded
        described = kind.describe(data.example)
        return FigureView(data, home, svg, described, lines, _shown(data), folded)


def _shown(data: FigureData) -> str:
    """Describe which runs are shown and why, or say that the figure needs no run."""
    if data.record is None:
        return (
            "values computed by the library alone, without corpus and training; the same at every "
            "scale"
        )
    record = data.record
    best = (
        f"run {record.run_id} ({record.row}, corpus {record.corpus}, seed {record.seed}), with the "
        f"largest {record.metric}, {record.value:.{metric_of(record.metric).digits}f}"
    )
    if not data.kind.shows:
        places = ", ".join(place_in_words(one) for one in shown_examples(data.example))
        return f"{best}{f'; {places}' if places else ''}"
    runs = ", ".join(f"{label} {run}" for label, run in data.example.get("runs", {}).items())
    return f"{data.kind.shows}{f' ({runs})' if runs else ''}; {best}"
