"""How the values of a tuned setting compared, and what to know about the choice."""

from collections.abc import Mapping, Sequence

from repro.config.experiment import Experiment, Tuning
from repro.evaluation.metrics import metric_of
from repro.evaluation.tuning import best_value
from repro.report.cell import MISSING, number_text
from repro.report.chosen import tuning_values
from repro.report.grid import Grid, GridColumn, block_rows
from repro.results import Record


def tuning_grid(experiment: Experiment, records: Sequence[Record], scale: str) -> Grid | None:
    """The tuning metric of every value that was tried; None where nothing is tuned."""
    tune = experiment.tune
    if tune is None:
        return None
    measured = tuning_values(experiment, records, scale)
    values = sorted({value for found in measured.values() for value in found})
    if not values:
        return None
    rows = [
        (label, column.name, *_texts(tune, measured[label, column.name], values))
        for label in experiment.row_labels()
        for column in experiment.columns_at(scale)
        if (label, column.name) in measured
    ]
    titles = [*(f"{value:g}" for value in values), "chosen"]
    columns = [GridColumn("row", "label"), GridColumn("column", "label")]
    columns += [GridColumn(title, "measured") for title in titles]
    return Grid(f"{tune.metric} for each {tune.key}, first seed", tuple(columns), block_rows(rows))


def tuning_remarks(experiment: Experiment, records: Sequence[Record], scale: str) -> list[str]:
    """What a reader must know: how the value was chosen, and cells whose grid is incomplete."""
    tune = experiment.tune
    if tune is None:
        return []
    measured = tuning_values(experiment, records, scale)
    wanted = set(experiment.grid_at(scale))
    open_ends = [" / ".join(cell) for cell, found in measured.items() if wanted - found.keys()]
    grid = ", ".join(f"{value:g}" for value in sorted(wanted))
    text = f"{tune.key} is chosen for each cell by {tune.metric} of the first seed among {grid}"
    wider = "" if tune.extend is None else f", extended by a factor of {tune.extend:g} at the ends"
    remarks = [f"{text}{wider}; other seeds run with the chosen value."]
    if open_ends:
        remarks.append(f"Not every value of the grid has been run for: {'; '.join(open_ends)}.")
    return remarks


def _texts(tune: Tuning, measured: Mapping[float, float], values: Sequence[float]) -> list[str]:
    digits = metric_of(tune.metric).digits
    texts = [number_text(measured.get(value), digits) or MISSING for value in values]
    return [*texts, f"{best_value(measured, tune.metric):g}"]
