"""CSV: one line per cell with every number, for other programs."""

import csv
import io

from repro.report.grid import NOT_COMPARABLE, PAPER
from repro.report.table import Table
from repro.results.frame import escape_formula

MEASURED = (
    "mean", "std", "seeds_found", "seeds_wanted", "values", "p_value",
)  # fmt: skip


def csv_table(table: Table) -> str:
    """Format all cells of a table as CSV, unrounded; texts that look like formulas are escaped.

    Returns:
        Text with the columns: the row's axes, ``column``, ``metric``, ``scale``, mean, sample
        standard deviation, numbers of seeds, values joined by spaces, p-value of the paired test
        against the baseline (blank without a test), the paper's value and standard deviation, and
        at full scale the difference. At any other scale the title of the paper's column says that
        its values are not comparable.
    """
    experiment, full = table.experiment, table.comparable
    paper = [PAPER if full else NOT_COMPARABLE, "paper std", *["difference"] * full]
    axes = [escape_formula(axis.name) for axis in experiment.rows]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*axes, "column", "metric", "scale", *MEASURED, *paper])
    for row in (*table.rows, *table.other_rows):
        for column, cell in zip(experiment.columns, row.cells, strict=True):
            texts = [escape_formula(text) for text in (*row.labels, column.name, column.metric)]
            ours = [""] * (1 + len(MEASURED))
            if row in table.rows:
                one = cell.comparison
                test = None if one is None else one.p_value
                counts = (str(cell.found), str(cell.wanted), " ".join(map(repr, cell.values)))
                means = map(_number, (cell.mean, cell.std))
                ours = [table.scale, *means, *counts, _number(test)]
            printed = (cell.published, cell.published_std, *[cell.difference] * full)
            writer.writerow([*texts, *ours, *map(_number, printed)])
    return buffer.getvalue()


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)
