"""Further tables of an artefact: sparsity and exactness, each language, every run."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from repro.config.experiment import Column, Experiment
from repro.evaluation.metrics import metric_of
from repro.report.cell import MISSING, CellRunLink, number_text
from repro.report.grid import Grid, GridColumn, GridRow, block_rows, headed, label_columns
from repro.report.table import CellKey, Table, cell_of, index_records
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
    """Sparsity, exactness and speed per row and columns of equal values; None without any."""
    by_cell = index_records(records)
    metrics = [name for name in SUMMARY_METRICS if any(key[2] == name for key in by_cell)]
    if not metrics:
        return None
    rows = []
    for row in table.rows:
        alike: dict[tuple[str, ...], list[Column]] = defaultdict(list)
        for column in table.experiment.columns:
            texts = tuple(
                cell_of(
                    table.experiment,
                    table.scale,
                    column,
                    by_cell.get((row.label, column.name, metric), []),
                    metric=metric,
                ).text
                for metric in metrics
            )
            if {*texts} != {MISSING}:
                alike[texts].append(column)
        rows += [
            (row.labels, _joint_name(columns, table.experiment.columns), texts)
            for texts, columns in alike.items()
        ]
    several = len(rows) > len({labels for labels, _, _ in rows})
    titles = [f"{SUMMARY_METRICS[name]}{_unit(name)}" for name in metrics]
    columns = [GridColumn("column", "label")] * several
    columns += [GridColumn(title, "measured") for title in titles]
    return Grid(
        f"sparsity and exactness, {table.scale} scale",
        (*label_columns(table), *columns),
        block_rows([(*labels, *[name] * several, *texts) for labels, name, texts in rows]),
    )


def _joint_name(columns: Sequence[Column], every: Sequence[Column]) -> str:
    """The first labels of some columns, where these are all columns below them; else each name."""
    firsts = dict.fromkeys(_first_label(column) for column in columns)
    below = [column for column in every if _first_label(column) in firsts]
    return ", ".join(firsts if len(below) == len(columns) else (one.name for one in columns))


def _first_label(column: Column) -> str:
    return column.labels[0] if column.labels else column.name


def language_grids(table: Table, records: Sequence[Measurement]) -> list[Grid]:
    """One grid per column of the table: its metric for each language and row of the table."""
    by_cell = index_records(records)
    grids = [_language_grid(table, column, by_cell) for column in table.experiment.columns]
    return [grid for grid in grids if grid is not None]


def runs_grid(table: Table, records: Sequence[Measurement]) -> Grid | None:
    """Every run that the table is made of, with its values by column; None without runs."""
    columns = [column for column in table.experiment.columns if column.relative_to is None]
    runs: dict[tuple[str, str, str, str], dict[str, str]] = defaultdict(dict)
    for record in records:
        for column in columns:
            if (record.column, record.metric) == (column.name, column.metric):
                seed = record.kind if record.seed is None else str(record.seed)
                key = (record.row, seed, record.run_id, f"{record.wall_time:.0f}")
                digits = metric_of(record.metric).digits
                runs[key][column.name] = number_text(record.value, digits)
    if not runs:
        return None
    shown = [one for one in columns if any(one.name in values for values in runs.values())]
    rows = block_rows(
        [
            (row, seed, run[:SHORT_RUN_ID], seconds, *(values.get(one.name, "") for one in shown))
            for (row, seed, run, seconds), values in runs.items()
        ]
    )
    links = [{2: (CellRunLink("", "", run),)} for _, _, run, _ in runs]
    return Grid(
        "every run",
        (
            *(GridColumn(title, "label") for title in ("row", "seed", "run")),
            GridColumn("seconds", "measured"),
            *(headed(one, "measured") for one in shown),
        ),
        tuple(replace(row, runs=link) for row, link in zip(rows, links, strict=True)),
    )


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
