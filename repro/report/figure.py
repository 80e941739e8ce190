"""The data of a run's figure: one example with the record of its run, enough to draw it again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from matplotlib.figure import Figure

from repro.checksums import verify
from repro.report.canvas import plain_style, png_bytes, svg_bytes
from repro.report.drawings import drawing
from repro.results import (
    Measurement,
    ResultsError,
    atomic_write_bytes,
    atomic_write_json,
    figure_path,
    from_dict,
)

KEYS = ("experiment", "drawing", "record", "example")


@dataclass(frozen=True)
class FigureData:
    """What ``figures/<paper>/<artefact>.json`` holds.

    Attributes:
        experiment: ``<paper>/<artefact>``.
        drawing: key of :data:`repro.report.drawings.DRAWINGS`.
        record: the measurement by which the run was chosen, with its provenance.
        example: the row to draw, as the run kept it.
    """

    experiment: str
    drawing: str
    record: Measurement
    example: Mapping[str, Any]

    def draw(self) -> Figure:
        """The figure of the example."""
        return drawing(self.drawing).draw(self.example)


class Drawable(Protocol):
    """Data that a figure is drawn from."""

    @property
    def experiment(self) -> str:
        """``<paper>/<artefact>``."""

    def draw(self) -> Figure:
        """The figure."""


def write_figure_data(results_dir: Path, scale: str, data: FigureData) -> Path:
    """Keep the data of a figure; returns its file."""
    path = figure_path(results_dir, scale, data.experiment, "json")
    content = {
        "experiment": data.experiment,
        "drawing": data.drawing,
        "record": asdict(data.record),
        "example": dict(data.example),
    }
    atomic_write_json(path, content, checksum=True)
    return path


def read_figure_data(results_dir: Path, scale: str, experiment_name: str) -> FigureData | None:
    """Read the data of a figure; None if it was not drawn at this scale.

    Raises:
        DamagedFileError: the file differs from its checksum.
        ResultsError: the file is malformed or belongs elsewhere.
    """
    path = figure_path(results_dir, scale, experiment_name, "json")
    if not path.exists():
        return None
    verify(path)
    content = read_object(path, KEYS)
    if not isinstance(content["record"], dict) or not isinstance(content["example"], dict):
        raise ResultsError(f"{path}: 'record' and 'example' must be objects")
    record = from_dict(Measurement, content["record"], f"{path}: record")
    if (content["experiment"], record.scale) != (experiment_name, scale):
        raise ResultsError(f"{path}: belongs to {content['experiment']!r} at {record.scale} scale")
    return FigureData(experiment_name, str(content["drawing"]), record, content["example"])


def read_object(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """Read a JSON object that has just these keys.

    Raises:
        ResultsError: the file holds anything else.
    """
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:  # the latter where brackets nest too deeply
        raise ResultsError(f"{path}: not JSON ({error})") from error
    if not isinstance(content, dict) or set(content) != set(keys):
        raise ResultsError(f"{path}: expected an object with the keys {', '.join(keys)}")
    return content


def render_figure(results_dir: Path, scale: str, data: Drawable) -> dict[str, Path]:
    """Draw a figure from its data alone.

    Returns:
        The files written, by ``"svg"`` and ``"png"``; the same data give the same bytes.
    """
    paths = {s: figure_path(results_dir, scale, data.experiment, s) for s in ("svg", "png")}
    with plain_style():
        drawn = data.draw()
        svg, png = svg_bytes(drawn), png_bytes(drawn)
    atomic_write_bytes(paths["svg"], svg)
    atomic_write_bytes(paths["png"], png)
    return paths
