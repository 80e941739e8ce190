"""Content of the pages of runs: settings, curves and metrics, but no text of a corpus."""

from collections.abc import Sequence
from dataclasses import dataclass

from repro.evaluation.metrics import metric_of
from repro.report.cell import number_text
from repro.report.charts import Chart, chart_of
from repro.results import Record, RunFolder


@dataclass(frozen=True)
class RunPage:
    """Content of the page of a run.

    Attributes:
        record: the run's record.
        metrics: name, value and signature of each metric.
        artefacts: addresses and names of the artefacts whose tables the run fills.
        chart: curves of training; none if the run's folder is absent.
    """

    record: Record
    metrics: tuple[tuple[str, str, str], ...]
    artefacts: tuple[tuple[str, str], ...]
    chart: Chart


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
    return RunPage(record, tuple(metrics), tuple(artefacts), chart_of(folder, record.run_id))
