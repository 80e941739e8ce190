"""Comparison of the values of a tuned setting, and remarks on the choice."""

from collections.abc import Mapping, Sequence

from repro.config.experiment import Experiment, Tuning
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


def tuning_remarks(experiment: Experiment, records: Sequence[Measurement], scale: str) -> list[str]:
    """Explain how the value was chosen, and name the cells whose grid is incomplete."""
    tune = experiment.tune
    if tune is None:
        return []
    measured = tuning_values(experiment, records, scale)
    columns = [column.name for column in experiment.columns_at(scale)]
    grids = {name: experiment.grid_at(scale, name) for name in columns}
    remarks = [_choice(tune, names, grid) for grid, names in _columns_by_grid(grids).items()]
    open_ends = [
        " / ".join(cell) for cell, found in measured.items() if {*grids[cell[1]]} - found.keys()
    ]
    if open_ends:
        remarks.append(f"Not every value of the grid has been run for: {'; '.join(open_ends)}.")
    return remarks


def _columns_by_grid(grids: Mapping[str, Sequence[float]]) -> dict[tuple[float, ...], list[str]]:
    found: dict[tuple[float, ...], list[str]] = {}
    for name, grid in grids.items():
        found.setdefault(tuple(grid), []).append(name)
    return found


def _choice(tune: Tuning, columns: Sequence[str], grid: Sequence[float]) -> str:
    """Explain how the value was chosen in columns that share a grid."""
    where = f" ({'; '.join([*tune.rows, *columns])})"
    if len(grid) == 1:
        return f"{tune.key} is {grid[0]:g}, not tuned{where}."
    values = ", ".join(f"{value:g}" for value in grid)
    text = f"{tune.key} is chosen for each cell by {tune.metric} of the first seed among {values}"
    wider = (
        ""
        if tune.grid_factor is None
        else f", extended by a factor of {tune.grid_factor:g} at the ends"
    )
    return f"{text}{wider}{where}; other seeds run with the chosen value."


def _texts(tune: Tuning, measured: Mapping[float, float], values: Sequence[float]) -> list[str]:
    digits = metric_of(tune.metric).digits
    texts = [number_text(measured.get(value), digits) or MISSING for value in values]
    return [*texts, f"{best_value(measured, tune.metric):g}"]
