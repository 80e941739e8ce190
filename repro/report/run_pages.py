"""Content of the pages of runs: settings, curves and metrics, but no text of a corpus."""

from collections.abc import Sequence
from dataclasses import dataclass

from repro.checksums import DamagedFileError
from repro.evaluation.metrics import metric_of
from repro.report.cell import number_text
from repro.results import Record, RunFolder

WIDTH, HEIGHT, MARGIN = 260.0, 90.0, 6.0


@dataclass(frozen=True)
class Curve:
    """Values of a quantity during training, points of a polyline, first and last update."""

    name: str
    points: str
    values: tuple[float, ...]
    steps: tuple[float, float]


@dataclass(frozen=True)
class RunPage:
    """Content of the page of a run.

    Attributes:
        record: the run's record.
        metrics: name, value and signature of each metric.
        artefacts: anchors and names of the artefacts whose tables the run fills.
        curves: training curves; empty if the run's folder is absent.
    """

    record: Record
    metrics: tuple[tuple[str, str, str], ...]
    artefacts: tuple[tuple[str, str], ...]
    curves: tuple[Curve, ...]


def run_page(record: Record, folder: RunFolder, artefacts: Sequence[tuple[str, str]]) -> RunPage:
    """Collect the content of the page of a run.

    Args:
        record: the run's record.
        folder: the run's folder, which may be absent or damaged.
        artefacts: anchors and names of the artefacts that show the run.
    """
    metrics = [
        (name, number_text(value, metric_of(name).digits), record.signatures[name])
        for name, value in sorted(record.metrics.items())
    ]
    try:
        history = folder.read_history() if folder.history.exists() else []
    except DamagedFileError:
        history = []
    # Every number of the history is a curve, except the counters.
    curves = []
    for name in dict.fromkeys(name for row in history for name in row):
        series = [
            (float(row["step"]), float(row[name]))
            for row in history
            if "step" in row and isinstance(row.get(name), int | float)
        ]
        if name in ("epoch", "step", "seconds") or len(series) < 2:
            continue
        first, last, values = series[0][0], series[-1][0], tuple(y for _, y in series)
        low, height = min(values), (max(values) - min(values)) or 1.0
        across = (WIDTH - 2 * MARGIN) / ((last - first) or 1.0)
        up = (HEIGHT - 2 * MARGIN) / height
        points = " ".join(
            f"{MARGIN + (x - first) * across:.1f},{HEIGHT - MARGIN - (y - low) * up:.1f}"
            for x, y in series
        )
        curves.append(Curve(name, points, values, (first, last)))
    return RunPage(record, tuple(metrics), tuple(artefacts), tuple(curves))
