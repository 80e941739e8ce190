"""Figures of the library itself: computed anew, the same at every scale, no run behind them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from repro.checksums import verify
from repro.config.experiment import Experiment
from repro.report.figure import FigureData, read_figure_data, read_object
from repro.report.library import LibraryDrawing, library_drawing
from repro.results import ResultsError, atomic_write_json, figure_path

KEYS = ("experiment", "drawing", "versions", "commit", "values")


@dataclass(frozen=True)
class Origin:
    """What computed the values: versions of Python and the libraries, commit of the source."""

    versions: str
    commit: str


@dataclass(frozen=True)
class ComputedFigure:
    """What ``figures/<paper>/<artefact>.json`` holds of such a figure.

    Attributes:
        experiment: ``<paper>/<artefact>``.
        drawing: key of :data:`repro.report.library.LIBRARY`.
        origin: what computed the values.
        values: what is drawn.
    """

    experiment: str
    drawing: str
    origin: Origin
    values: Mapping[str, Any]

    def draw(self) -> Figure:
        """The figure of the values.

        Raises:
            ResultsError: the values are not those of this drawing.
        """
        try:
            return self._spec.draw(self.values)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ResultsError(f"{self.experiment}: malformed values ({error!r})") from error

    def describe(self) -> str:
        """The figure in words."""
        return self._spec.description

    @property
    def _spec(self) -> LibraryDrawing:
        return library_drawing(self.drawing)


def compute_figure_data(
    results_dir: Path, scale: str, experiment: Experiment, origin: Origin
) -> Path:
    """Compute what a figure of the library shows, and write it.

    Args:
        results_dir: the results folder.
        scale: where the figure will be shown; the values do not depend on it.
        experiment: names the drawing.
        origin: kept with the values.

    Returns:
        ``figures/<paper>/<artefact>.json``.

    Raises:
        ResultsError: the experiment is no figure, or its drawing is not one of the library.
    """
    if experiment.drawing is None:
        raise ResultsError(f"{experiment.name} is a table, it has no drawing")
    name = experiment.drawing.name
    content = {
        "experiment": experiment.name,
        "drawing": name,
        "versions": origin.versions,
        "commit": origin.commit,
        "values": library_drawing(name).compute(),
    }
    path = figure_path(results_dir, scale, experiment.name, "json")
    atomic_write_json(path, content, checksum=True)
    return path


def read_computed_figure(
    results_dir: Path, scale: str, experiment_name: str
) -> ComputedFigure | None:
    """Read what was computed; None if nothing was, at this scale.

    Raises:
        DamagedFileError: the file differs from its checksum.
        ResultsError: the file is malformed or belongs elsewhere.
    """
    path = figure_path(results_dir, scale, experiment_name, "json")
    if not path.exists():
        return None
    verify(path)
    content = read_object(path, KEYS)
    if content["experiment"] != experiment_name:
        raise ResultsError(f"{path}: belongs to {content['experiment']!r}")
    if not isinstance(content["values"], dict):
        raise ResultsError(f"{path}: 'values' must be an object")
    origin = Origin(str(content["versions"]), str(content["commit"]))
    return ComputedFigure(experiment_name, str(content["drawing"]), origin, content["values"])


def stored_figure(
    results_dir: Path, scale: str, experiment: Experiment
) -> FigureData | ComputedFigure | None:
    """The data of an artefact's figure, of either kind; None if there are none at this scale.

    Raises:
        DamagedFileError: the file differs from its checksum.
        ResultsError: the file is malformed or belongs elsewhere.
    """
    if experiment.computed:
        return read_computed_figure(results_dir, scale, experiment.name)
    return read_figure_data(results_dir, scale, experiment.name)
