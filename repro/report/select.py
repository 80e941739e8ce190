"""Which run and example a figure shows, written down as the figure's data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro.config.experiment import Drawing, Experiment
from repro.data.sentence_search import preference
from repro.report.choice import OWN, RULE, VALIDATION, split_of
from repro.report.curves import ShownRun
from repro.report.drawings import ComparisonSpec, DrawingSpec, SeriesSpec, drawing
from repro.report.figure import FigureData, write_figure_data
from repro.results import Measurement, ResultsError, run_folder


def draw_figure_data(
    results_dir: Path, scale: str, experiment: Experiment, records: Sequence[Measurement]
) -> Path:
    """Choose the run and the example that a figure shows, and write its data.

    Needs the folders of the runs; drawing the figure again later needs the data only.

    Args:
        results_dir: holds the folders of the runs.
        scale: scale of the runs.
        experiment: has a ``drawing``.
        records: of the experiment.

    Returns:
        ``figures/<paper>/<artefact>.json``.

    Raises:
        ResultsError: the experiment is no figure, or has no run with examples at this scale.
    """
    plan = _plan(experiment)
    spec = drawing(plan.name)
    best = best_record(records, plan.best, experiment.name)
    if isinstance(spec, ComparisonSpec):
        example = _compared(results_dir, scale, experiment, spec, records)
    elif isinstance(spec, SeriesSpec):
        example = spec.gather(_series(results_dir, scale, experiment, records), plan.best)
    else:
        rows = spec.read(run_folder(results_dir, scale, best.run_id))
        try:
            example = _chosen(spec, rows, plan.prefer)
        except ResultsError as error:
            raise ResultsError(f"run {best.run_id}: {error}") from error
    data = FigureData(experiment.name, plan.name, best, example)
    return write_figure_data(results_dir, scale, data)


def _chosen(
    spec: DrawingSpec, rows: Sequence[dict[str, Any]], prefer: Sequence[str]
) -> dict[str, Any]:
    """The row or rows to show; only rows that are preferred may be of other than validation data.

    Each says whether it is preferred and which rule chose it.
    """
    marked = [{**row, OWN: preference(spec.names(row), prefer) < len(prefer)} for row in rows]
    rest = [row for row in marked if row[OWN] or split_of(row) == VALIDATION]
    shown = [rest.pop(spec.choose(rest, prefer))]
    while rest and len(shown) < spec.count:
        shown.append(rest.pop(spec.choose(rest, prefer)))
    if spec.count == 1:
        return {**shown[0], RULE: spec.rule}
    return {"index": shown[0]["index"], "sentences": shown, RULE: spec.rule}


def _compared(
    results_dir: Path,
    scale: str,
    experiment: Experiment,
    spec: ComparisonSpec,
    records: Sequence[Measurement],
) -> dict[str, Any]:
    """The example of a figure of several runs, with their names under ``runs``."""
    plan, runs = _plan(experiment), {}
    for label in experiment.row_labels():
        mine = [record for record in records if record.row == label]
        if mine:
            runs[label] = best_record(mine, plan.best, experiment.name).run_id
    kept = {label: spec.read(run_folder(results_dir, scale, run)) for label, run in runs.items()}
    return {**spec.gather(kept, plan.prefer), "runs": runs, RULE: spec.rule}


def _series(
    results_dir: Path, scale: str, experiment: Experiment, records: Sequence[Measurement]
) -> list[ShownRun]:
    """Runs with a record of the drawn metric, by row, then by seed."""
    metric, labels = _plan(experiment).best, experiment.row_labels()
    found = [r for r in records if (r.kind, r.metric) == ("run", metric) and r.row in labels]
    return [
        ShownRun(r.row, r.seed or 0, r.value, run_folder(results_dir, scale, r.run_id))
        for r in sorted(found, key=lambda r: (labels.index(r.row), r.seed or 0))
    ]


def best_record(records: Sequence[Measurement], metric: str, experiment_name: str) -> Measurement:
    """The run's record with the largest value of a metric; ties go to the smallest ``run_id``.

    Raises:
        ResultsError: no run has a record of this metric.
    """
    candidates = [r for r in records if r.kind == "run" and r.metric == metric]
    if not candidates:
        raise ResultsError(f"{experiment_name}: no run has a record of {metric}")
    return min(candidates, key=lambda record: (-record.value, record.run_id))


def _plan(experiment: Experiment) -> Drawing:
    if experiment.drawing is None:
        raise ResultsError(f"{experiment.name} is a table, it has no drawing")
    return experiment.drawing
