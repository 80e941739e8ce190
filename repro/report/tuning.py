"""Comparison of the values of a tuned setting, and remarks on the choice."""

from collections import defaultdict
from collections.abc import Sequence

from repro.config.experiment import Experiment
from repro.evaluation.metrics import metric_of
from repro.evaluation.tuning import best_value
from repro.report.cell import MISSING, number_text
from repro.report.chosen import tuning_values
from repro.report.grid import Grid, GridColumn, block_rows
from repro.results import Measurement


def tuning_grid(experiment: Experiment, records: Sequence[Measurement], scale: str) -> Grid | None:
    """The tuning metric of every value that was tried; None where nothing is tuned."""
    tune = experiment.tune
    if tune is None:
        return None
    measured = tuning_values(experiment, records, scale)
    values = sorted({value for found in measured.values() for value in found})
    if not values:
        return None
    rows = []
    digits = metric_of(tune.metric).digits
    for label in experiment.row_labels():
        for column in experiment.columns_at(scale):
            found = measured.get((label, column.name))
            if found is not None:
                texts = [number_text(found.get(value), digits) or MISSING for value in values]
                chosen = f"{best_value(found, tune.metric):g}"
                rows.append((label, column.name, *texts, chosen))
    titles = [*(f"{value:g}" for value in values), "chosen"]
    columns = [GridColumn("row", "label"), GridColumn("column", "label")]
    columns += [GridColumn(title, "measured") for title in titles]
    return Grid(f"{tune.metric} for each {tune.key}, first seed", tuple(columns), block_rows(rows))


def tuning_remarks(experiment: Experiment, records: Sequence[Measurement], scale: str) -> list[str]:
    """Explain how the value was chosen, and name the cells whose grid is incomplete."""
    tune = experiment.tune
    if tune is None:
        return []
    alike: dict[tuple[float, ...], list[str]] = defaultdict(list)
    for column in experiment.columns_at(scale):
        alike[tuple(experiment.grid_at(scale, column.name))].append(column.name)
    remarks = []
    for grid, names in alike.items():
        where = f" ({'; '.join([*tune.rows, *names])})"
        if len(grid) == 1:
            remarks.append(f"{tune.key} is {grid[0]:g}, not tuned{where}.")
            continue
        values = ", ".join(f"{value:g}" for value in grid)
        factor = tune.grid_factor
        wider = "" if factor is None else f", extended by a factor of {factor:g} at the ends"
        remarks.append(
            f"{tune.key} is chosen for each cell by {tune.metric} of the first seed among "
            f"{values}{wider}{where}; other seeds run with the chosen value."
        )
    lacking = [
        f"{row} / {column}"
        for (row, column), found in tuning_values(experiment, records, scale).items()
        if {*experiment.grid_at(scale, column)} - found.keys()
    ]
    if lacking:
        remarks.append(f"Not every value of the grid has been run for: {'; '.join(lacking)}.")
    return remarks
