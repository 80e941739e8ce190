"""Content of the pages of runs: settings, curves and metrics, but no text of a corpus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from repro.evaluation.metrics import metric_of
from repro.report.cell import number_text
from repro.report.histories import History, history_of
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
        artefacts: addresses and names of the artefacts whose tables the run fills.
        curves: training curves; empty if the run's folder is absent.
        history: the columns that they are drawn from.
    """

    record: Record
    metrics: tuple[tuple[str, str, str], ...]
    artefacts: tuple[tuple[str, str], ...]
    curves: tuple[Curve, ...]
    history: History = field(default_factory=lambda: History({}, {}))


@dataclass(frozen=True)
class ComparedRun:
    """Run that a page of comparison offers.

    Attributes:
        record: the run's record.
        label: text that distinguishes it from the other runs.
        group: title of the runs among which it is listed.
        page: relative path of its page, None if it has none.
        settings: settings as texts.
        history: columns of its training history.
    """

    record: Record
    label: str
    group: str
    page: str | None
    settings: Mapping[str, str]
    history: History


def run_page(record: Record, folder: RunFolder, artefacts: Sequence[tuple[str, str]]) -> RunPage:
    """Collect the content of the page of a run.

    Args:
        record: the run's record.
        folder: the run's folder, which may be absent or damaged.
        artefacts: addresses and names of the artefacts that show the run.
    """
    metrics = [
        (name, number_text(value, metric_of(name).digits), record.signatures[name])
        for name, value in sorted(record.metrics.items())
    ]
    history = history_of(folder)
    curves = []
    for name, column in history.y.items():
        pairs = zip(history.x["update"], column, strict=True)
        series = [(x, y) for x, y in pairs if y is not None]
        if len(series) < 2:
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
    return RunPage(record, tuple(metrics), tuple(artefacts), tuple(curves), history)
