"""Data of figures: written once from the runs, and sufficient to draw the figures again."""

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from repro.config.experiment import Experiment
from repro.report.figures.canvas import plain_style
from repro.report.figures.kinds import NO_RUNS, Figure, FigureRun, FigureRuns, figure_kind
from repro.results import (
    Archive,
    Measurement,
    ResultsError,
    atomic_write_bytes,
    atomic_write_json,
    figure_path,
    from_dict,
    run_folder,
)
from repro.results.files import read_object

DIGEST = "Digest"
_MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError)


@dataclass(frozen=True)
class Origin:
    """Origin of a figure that needs no runs: versions of the libraries, commit of the source."""

    versions: str
    commit: str


@dataclass(frozen=True)
class FigureData:
    """Content of ``figures/<paper>/<artefact>.json``."""

    experiment: str  # <paper>/<artefact>
    drawing: str  # name of a kind of figure
    example: dict[str, Any]  # data that the kind of figure draws
    # Record by which the run was chosen, with its provenance; None if the figure needs no runs.
    record: Measurement | None = None
    origin: Origin | None = None  # what computed a figure that needs no runs; None for one of runs

    @property
    def kind(self) -> Figure:
        """Kind of figure that draws the data."""
        return figure_kind(self.drawing)

    @property
    def digest(self) -> str:
        """SHA-256 of everything the drawing depends on: data, kind of figure and drawing code."""
        return drawing_digest([self.experiment, self.drawing, self.example])


def export_figure_data(
    archive: Archive,
    experiment: Experiment,
    records: Sequence[Measurement] = (),
    origin: Origin | None = None,
) -> Path:
    """Choose the runs and the examples that a figure shows, and write its data.

    This needs what the kind of figure ``reads`` of the runs; drawing the figure again needs only
    the data. A figure that needs no runs has an ``origin`` in place of ``records``.

    Returns:
        The written file, ``figures/<paper>/<artefact>.json``.

    Raises:
        ResultsError: the experiment is no figure, or has no run with examples at this scale.
    """
    plan = experiment.drawing
    if plan is None:
        raise ResultsError(f"{experiment.name} is a table, it has no drawing")
    kind, results_dir, scale = figure_kind(plan.name), archive.results_dir, archive.scale
    if experiment.computed:
        data = FigureData(experiment.name, plan.name, kind.gather(NO_RUNS), origin=origin)
    else:
        own, configs = kind.shows_own(scale), {one.run_id: one.config for one in archive.records}

        def run(record: Measurement) -> FigureRun:
            folder = run_folder(results_dir, scale, record.run_id)
            config = configs.get(record.run_id, {})
            return FigureRun(record.row, record.seed or 0, record.value, folder, own, config)

        def order(record: Measurement) -> tuple[float, str]:
            return -record.value, record.run_id

        # By row, then by seed: the runs with a record of the drawn metric.
        mine = [one for one in records if (one.kind, one.metric) == ("run", plan.best)]
        if not mine:
            raise ResultsError(f"{experiment.name}: no run has a record of {plan.best}")
        rows = [[one for one in mine if one.row == row] for row in experiment.row_labels()]
        firsts = [run(min(row, key=order)) for row in rows if row]
        every = [run(one) for row in rows for one in sorted(row, key=lambda one: one.seed or 0)]
        example = kind.gather(FigureRuns(plan.best, plan.prefer, firsts, every))
        data = FigureData(experiment.name, plan.name, example, record=min(mine, key=order))
    path = figure_path(results_dir, scale, experiment.name, "json")
    atomic_write_json(path, asdict(data))
    return path


def read_figure_data(results_dir: Path, scale: str, experiment_name: str) -> FigureData | None:
    """Read the data of a figure; None if it was not drawn at this scale.

    Raises:
        ResultsError: the file is malformed or belongs to another experiment.
    """
    path = figure_path(results_dir, scale, experiment_name, "json")
    if not path.exists():
        return None
    data = from_dict(FigureData, read_object(path), str(path))
    if data.experiment != experiment_name:
        raise ResultsError(f"{path}: belongs to {data.experiment!r}")
    return data


def render_figure(results_dir: Path, scale: str, data: FigureData) -> dict[str, Path]:
    """Draw a figure from its data, unless its files are up to date with the data and the code.

    Returns:
        The files, by ``"svg"``, ``"png"`` and ``"pdf"``; equal data give equal bytes.

    Raises:
        ResultsError: the data do not fit the kind of figure.
    """
    paths = {s: figure_path(results_dir, scale, data.experiment, s) for s in ("svg", "png", "pdf")}
    # SVG and PNG contain the digest in their first bytes.
    if all(path.exists() for path in paths.values()) and all(
        data.digest.encode() in paths[name].read_bytes()[:512] for name in ("svg", "png")
    ):
        return paths
    drawn = draw_figure(data)
    for name in ("pdf", "png", "svg"):
        atomic_write_bytes(paths[name], drawn[name])
    return paths


def draw_figure(data: FigureData) -> dict[str, bytes]:
    """Return the figure as inline SVG, PNG and PDF, the former two with the digest of the data.

    Raises:
        ResultsError: the data do not fit the kind of figure.
    """
    with refuse_malformed(data.experiment), plain_style():
        canvas = data.kind.draw(data.example)
        svg = canvas.svg(data.experiment, data.kind.describe(data.example))
        return {
            "svg": f"<!-- {DIGEST}: {data.digest} -->\n{svg}".encode(),
            "png": canvas.png(**{DIGEST: data.digest}),
            "pdf": canvas.pdf(),
        }


@contextmanager
def refuse_malformed(experiment_name: str) -> Iterator[None]:
    """Raise ResultsError where data do not fit their kind of figure."""
    try:
        yield
    except ResultsError:
        raise
    except _MALFORMED as error:
        raise ResultsError(f"{experiment_name}: malformed data ({error!r})") from error


def drawing_digest(content: Any) -> str:
    """Hash what can be written as JSON, together with the drawing code."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(f"{_code_digest()} {text}".encode()).hexdigest()


@cache
def _code_digest() -> str:
    """Hash the drawing code: figure modules and the version of Matplotlib."""
    folders = sys.modules[__name__.rpartition(".")[0]].__path__
    files = sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
    found = hashlib.sha256(version("matplotlib").encode())
    for path in files:
        found.update(path.read_bytes())
    return found.hexdigest()
