"""Further tables of an artefact: sparsity and exactness, each language, every run."""

from collections.abc import Sequence
from statistics import fmean

from repro.config.experiment import Column, Experiment
from repro.evaluation.metrics import metric_of
from repro.report.cell import MISSING, number_text
from repro.report.grid import Grid, GridColumn, GridRow, block_rows, label_columns
from repro.report.table import CellKey, Table, TableRow, cell_of, index_records
from repro.results import Measurement

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
    "train/tokens_per_second": "tokens per second, training",
    "train/sentences_per_second": "sentences per second, training",
    "train/pairs_per_second": "pairs per second, training",
    "train/inference_share": "share of inference, training",
}
BASELINE = "rule_baseline"
BASELINE_TITLE = "rule baseline"
SHORT_RUN_ID = 12


def summary_grid(table: Table, records: Sequence[Measurement]) -> Grid | None:
    """Sparsity, exactness and speed per row and column; None if nothing of it is recorded."""
    by_cell = index_records(records)
    metrics = [name for name in SUMMARY_METRICS if any(key[2] == name for key in by_cell)]
    if not metrics:
        return None
    rows = [
        (*row.labels, column.name, *_summary_texts(table, row, column, metrics, by_cell))
        for row in table.rows
        for column in table.experiment.columns
    ]
    recorded = [row for row in rows if any(text != MISSING for text in row[-len(metrics) :])]
    titles = [f"{SUMMARY_METRICS[name]}{_unit(name)}" for name in metrics]
    columns = [GridColumn("column", "label"), *(GridColumn(title, "measured") for title in titles)]
    return Grid(
        f"sparsity and exactness, {table.scale} scale",
        (*label_columns(table), *columns),
        block_rows(recorded),
    )


def language_grids(table: Table, records: Sequence[Measurement]) -> list[Grid]:
    """One grid per column of the table: its metric for each language and row of the table."""
    by_cell = index_records(records)
    grids = [_language_grid(table, column, by_cell) for column in table.experiment.columns]
    return [grid for grid in grids if grid is not None]


def runs_grid(table: Table, records: Sequence[Measurement]) -> Grid | None:
    """Every value that the table is made of, with its run; None without runs."""
    shown = {(column.name, column.metric) for column in table.experiment.columns}
    rows = [_run_texts(record) for record in records if (record.column, record.metric) in shown]
    if not rows:
        return None
    titles = ["row", "column", "seed", "run"]
    labels = [GridColumn(title, "label") for title in titles]
    numbers = [GridColumn("value", "measured"), GridColumn("seconds", "measured")]
    return Grid("every run", (*labels, *numbers), block_rows(rows))


def _summary_texts(
    table: Table,
    row: TableRow,
    column: Column,
    metrics: Sequence[str],
    by_cell: dict[CellKey, list[Measurement]],
) -> list[str]:
    return [
        cell_of(
            table.experiment,
            table.scale,
            column,
            by_cell.get((row.label, column.name, metric), []),
            metric=metric,
        ).text
        for metric in metrics
    ]


def _unit(metric: str) -> str:
    unit = metric_of(metric).unit
    return f" ({unit})" if unit else ""


def _language_grid(
    table: Table, column: Column, by_cell: dict[CellKey, list[Measurement]]
) -> Grid | None:
    prefix = f"{column.metric}/"
    languages = sorted(
        {
            metric.removeprefix(prefix)
            for _, name, metric in by_cell
            if name == column.name and metric.startswith(prefix)
        }
    )
    if not languages:
        return None
    baseline = _baseline(column, languages, by_cell)
    titles = [row.label for row in table.rows]
    columns = [GridColumn("language", "label")]
    columns += [GridColumn(BASELINE_TITLE, "measured")] if baseline else []
    columns += [GridColumn(title, "measured", _axes_title(table.experiment)) for title in titles]
    rows = []
    for language in languages:
        texts = _language_texts(table, column, f"{prefix}{language}", by_cell)
        rows.append((language, *([baseline[language]] if baseline else []), *texts))
    return Grid(f"{column.name}, per language", tuple(columns), tuple(GridRow(r) for r in rows))


def _axes_title(experiment: Experiment) -> str:
    return " / ".join(axis.name for axis in experiment.rows)


def _language_texts(
    table: Table, column: Column, metric: str, by_cell: dict[CellKey, list[Measurement]]
) -> list[str]:
    texts = []
    for row in table.rows:
        records = by_cell.get((row.label, column.name, metric), [])
        cell = cell_of(table.experiment, table.scale, column, records, metric=column.metric)
        count = "" if cell.found in (0, cell.wanted) else f" ({cell.found}/{cell.wanted})"
        texts.append(f"{number_text(cell.mean, cell.digits) or MISSING}{count}")
    return texts


def _baseline(
    column: Column, languages: Sequence[str], by_cell: dict[CellKey, list[Measurement]]
) -> dict[str, str]:
    """Text per language; the rule looks at the corpus only, so every run has the same value."""
    split = column.metric.split("/")[0]
    texts = {}
    for language in languages:
        metric = f"{split}/{BASELINE}/{language}"
        found = [
            record.value
            for (_, name, recorded), records in by_cell.items()
            if name == column.name and recorded == metric
            for record in records
        ]
        digits = metric_of(column.metric).digits
        texts[language] = number_text(fmean(found), digits) if found else MISSING
    return texts if any(text != MISSING for text in texts.values()) else {}


def _run_texts(record: Measurement) -> tuple[str, ...]:
    seed = record.kind if record.seed is None else str(record.seed)
    return (
        record.row,
        record.column,
        seed,
        record.run_id[:SHORT_RUN_ID],
        number_text(record.value, metric_of(record.metric).digits),
        f"{record.wall_time:.0f}",
    )
