"""CSV: one line per cell with every number, for other programs."""

import csv
import io

from repro.report.cell import Cell
from repro.report.grid import NOT_COMPARABLE, PAPER
from repro.report.table import Table
from repro.results.csv_text import escape_formula

MEASURED = (
    "mean", "std", "seeds_found", "seeds_wanted", "values", "p_bootstrap", "p_randomisation",
)  # fmt: skip


def csv_table(table: Table) -> str:
    """Format all cells of a table, unrounded; texts that look like formulas get an apostrophe.

    Returns:
        The columns are the row's axes, ``column``, ``metric``, ``scale``, mean, sample standard
        deviation, numbers of seeds, values joined by blanks, p-values of the paired tests against
        the baseline (blank without a test), the paper's value and standard deviation; at full scale
        also the difference, at any other the paper's column says that it is not comparable.
    """
    experiment, full = table.experiment, table.comparable
    paper = [PAPER if full else NOT_COMPARABLE, "paper std", *["difference"] * full]
    axes = [escape_formula(axis.name) for axis in experiment.rows]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*axes, "column", "metric", "scale", *MEASURED, *paper])
    padding = ("",) * (len(axes) - 1)
    rows = [
        *((row.labels, row.cells, True) for row in table.rows),
        *(((other.label, *padding), other.cells, False) for other in table.other_rows),
    ]
    for labels, cells, measured in rows:
        for column, cell in zip(experiment.columns, cells, strict=True):
            texts = [escape_formula(text) for text in (*labels, column.name, column.metric)]
            ours = [table.scale, *_measured(cell)] if measured else [""] * (1 + len(MEASURED))
            printed = (cell.published, cell.published_std, *[cell.difference] * full)
            writer.writerow([*texts, *ours, *map(_number, printed)])
    return buffer.getvalue()


def _measured(cell: Cell) -> list[str]:
    one = cell.comparison
    p_values = (None, None) if one is None else (one.p_bootstrap, one.p_randomisation)
    values = " ".join(repr(value) for value in cell.values)
    counts = [str(cell.found), str(cell.wanted)]
    return [_number(cell.mean), _number(cell.std), *counts, values, *map(_number, p_values)]


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)
