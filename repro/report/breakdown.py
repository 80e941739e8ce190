"""Further tables of an artefact: sparsity, each language, every run, every tuned value."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean

from repro.config.experiment import Column, Experiment
from repro.config.planning import plan_runs, setting_name
from repro.evaluation.metrics import best_value, metric_of
from repro.report.cell import MISSING, CellRunLink, number_text
from repro.report.grid import Grid, GridCell, GridColumn, GridRow, block_rows, headed, plain_grid
from repro.report.table import MeasuredCells, Table, tuning_values
from repro.results import Measurement
from repro.results.cells import run_beyond

SUMMARY_METRICS = {
    "dev/certified": "certified, dev",
    "dev/optimal": "proven best, dev",
    "dev/single": "single sequence, dev",
    "dev/attention_nonzeros": "attention nonzeros, dev",
    "dev/output_nonzeros": "output nonzeros, dev",
    "test/levenshtein": "edit distance, test",
    "dev/trees": "trees, dev",
    "dev/parents": "heads per word, dev",
    "dev/single_tree": "single tree, dev",
    "test/exact_trees": "exact trees, test",
    "test/premise_nonzeros": "nonzero words, test",
    "test/alignment_nonzeros": "nonzero pairs of words, test",
    "train/inference_share": "share of inference, training",
}
BASELINE = "rule_baseline"


def summary_grid(table: Table, records: Sequence[Measurement]) -> Grid | None:
    """Lay out sparsity and exactness per row, merging columns of equal values.

    Returns None if no record has such a metric.
    """
    cells = MeasuredCells(table.experiment, table.scale, records)
    metrics = [name for name in SUMMARY_METRICS if any(key[2] == name for key in cells.by_cell)]
    if not metrics:
        return None
    rows: list[tuple[tuple[str, ...], str, tuple[str, ...]]] = []
    every = table.experiment.columns
    for row in table.rows:
        alike: dict[tuple[str, ...], list[Column]] = defaultdict(list)
        for column in every:
            texts = tuple(cells.cell(row.label, column, metric).text for metric in metrics)
            if {*texts} != {MISSING}:
                alike[texts].append(column)
        for texts, alike_columns in alike.items():
            # The first labels suffice as a name if all columns that carry them are merged.
            firsts = dict.fromkeys((one.labels or [one.name])[0] for one in alike_columns)
            below = [one for one in every if (one.labels or [one.name])[0] in firsts]
            names = firsts if len(below) == len(alike_columns) else [c.name for c in alike_columns]
            rows.append((row.labels, ", ".join(names), texts))
    several = len(rows) > len({labels for labels, _, _ in rows})
    axes = [*(axis.name for axis in table.experiment.rows), *["column"] * several]
    units = [f" ({unit})" if (unit := metric_of(name).unit) else "" for name in metrics]
    titles = [SUMMARY_METRICS[name] + unit for name, unit in zip(metrics, units, strict=True)]
    lines = [(*labels, *[name] * several, *texts) for labels, name, texts in rows]
    return plain_grid(f"sparsity and exactness, {table.scale} scale", axes, titles, lines)


def language_grids(table: Table, records: Sequence[Measurement]) -> list[Grid]:
    """Build one grid per column of the table: its metric for each language, or part, and row."""
    cells, grids = MeasuredCells(table.experiment, table.scale, records), []
    group = " / ".join(axis.name for axis in table.experiment.rows)
    for column in table.experiment.columns:
        mine = {key: found for key, found in cells.by_cell.items() if key[1] == column.name}
        prefix, digits = f"{column.metric}/", metric_of(column.metric).digits
        languages = {key[2].removeprefix(prefix) for key in mine if key[2].startswith(prefix)}
        if not languages:
            continue
        # The rule baseline depends on the corpus alone: every run records the same value.
        rules: dict[str, list[float]] = defaultdict(list)
        for (_, _, metric), found in mine.items():
            split, _, rest = metric.partition(f"/{BASELINE}/")
            if split == column.metric.split("/")[0] and rest in languages:
                rules[rest] += [record.value for record in found]
        part = metric_of(column.metric).part
        columns = [GridColumn(part, "label")]
        columns += [GridColumn("rule baseline", "measured")] if rules else []
        columns += [GridColumn(row.label, "measured", group) for row in table.rows]
        rows = []
        for language in sorted(languages):
            texts = [language]
            if rules:
                known = rules[language]
                texts.append(number_text(fmean(known), digits) if known else MISSING)
            for row in table.rows:
                cell = cells.cell(row.label, column, f"{prefix}{language}")
                count = "" if cell.found in (0, cell.wanted) else f" ({cell.found}/{cell.wanted})"
                texts.append(f"{number_text(cell.mean, cell.digits) or MISSING}{count}")
            rows.append(GridRow(tuple(map(GridCell, texts))))
        if any({*row.texts[1 + bool(rules) :]} - {MISSING} for row in rows):
            grids.append(Grid(f"{column.name}, per {part}", tuple(columns), tuple(rows)))
    return grids


def runs_grid(table: Table, records: Sequence[Measurement]) -> Grid | None:
    """List every run behind the table, with its values by column; None without runs."""
    columns = [column for column in table.experiment.columns if column.relative_to is None]
    metrics = {(column.name, column.aggregate): column.metric for column in columns}
    runs: dict[tuple[str, str, str, str], dict[str, str]] = defaultdict(dict)
    for one in records:
        aggregate = "ensemble" if one.kind == "ensemble" else "mean"
        if metrics.get((one.column, aggregate)) == one.metric:
            seed = one.kind if one.seed is None else str(one.seed)
            text = number_text(one.value, metric_of(one.metric).digits)
            runs[one.row, seed, one.run_id, f"{one.wall_time:.0f}"][one.column] = text
    if not runs:
        return None
    shown = [one for one in columns if any(one.name in values for values in runs.values())]
    lines = []
    for (row, seed, run, seconds), values in runs.items():
        linked = GridCell(run, runs=(CellRunLink("", "", run),))
        texts = (seconds, *(values.get(one.name, "") for one in shown))
        lines.append([GridCell(row), GridCell(seed), linked, *map(GridCell, texts)])
    titles = [GridColumn(title, "label") for title in ("row", "seed", "run")]
    titles += [GridColumn("seconds", "measured"), *(headed(one, "measured") for one in shown)]
    return Grid("every run", tuple(titles), block_rows(lines))


def tuning_grid(experiment: Experiment, records: Sequence[Measurement], scale: str) -> Grid | None:
    """Lay out the tuning metric of every value tried; None with less than two values."""
    tune = experiment.tune
    if tune is None:
        return None
    measured = tuning_values(experiment, records, scale)
    values = sorted({value for found in measured.values() for value in found})
    if len(values) < 2:
        return None
    rows, digits = [], metric_of(tune.metric).digits
    for label, column in product(experiment.row_labels(), experiment.columns_at(scale)):
        found = measured.get((label, column.name))
        if found is not None:
            texts = [number_text(found.get(value), digits) or MISSING for value in values]
            rows.append((label, column.name, *texts, f"{best_value(found, tune.metric):g}"))
    titles = [*(f"{value:g}" for value in values), "chosen"]
    title = f"choice of the {setting_name(tune.key)} by {tune.metric}, first seed"
    return plain_grid(title, ("row", "column"), titles, rows)


def tuning_remarks(experiment: Experiment, records: Sequence[Measurement], scale: str) -> list[str]:
    """Explain how tuned values were chosen, and name the cells whose grid is incomplete."""
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
    lacking = []
    planned = {(run.row, run.column): run for run in plan_runs(experiment, scale)}
    for (row, name), found in tuning_values(experiment, records, scale).items():
        best = replace(planned[row, name], value=best_value(found, tune.metric))
        beyond = run_beyond(experiment, scale, best, found)
        if beyond is not None or {*experiment.grid_at(scale, name)} - found.keys():
            lacking.append(f"{row} / {name}")
    if lacking:
        remarks.append(f"Not every value of the grid has been run for: {'; '.join(lacking)}.")
    return remarks
