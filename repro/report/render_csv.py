"""CSV: one line per cell with every number, for other programs."""

import csv
import io
from collections.abc import Iterator

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
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    axes = [axis.name for axis in table.experiment.rows]
    paper = [PAPER, "difference"] if table.comparable else [NOT_COMPARABLE]
    paper.insert(1, "paper std")
    writer.writerow([*_texts(*axes), "column", "metric", "scale", *MEASURED, *paper])
    writer.writerows(_lines(table))
    return buffer.getvalue()


def _lines(table: Table) -> Iterator[list[str]]:
    columns = table.experiment.columns
    for row in table.rows:
        for column, cell in zip(columns, row.cells, strict=True):
            measured = [table.scale, *_measured(cell)]
            labels = _texts(*row.labels, column.name, column.metric)
            yield [*labels, *measured, *_paper(table, cell)]
    padding = [""] * (len(table.experiment.rows) - 1)
    for other in table.other_rows:
        for column, cell in zip(columns, other.cells, strict=True):
            measured = [""] * (1 + len(MEASURED))
            labels = _texts(other.label, *padding, column.name, column.metric)
            yield [*labels, *measured, *_paper(table, cell)]


def _texts(*labels: str) -> list[str]:
    return [escape_formula(label) for label in labels]


def _measured(cell: Cell) -> list[str]:
    values = " ".join(repr(value) for value in cell.values)
    counts = [str(cell.found), str(cell.wanted)]
    return [_number(cell.mean), _number(cell.std), *counts, values, *_p_values(cell)]


def _p_values(cell: Cell) -> list[str]:
    one = cell.comparison
    return ["", ""] if one is None else [_number(one.p_bootstrap), _number(one.p_randomisation)]


def _paper(table: Table, cell: Cell) -> list[str]:
    published = [_number(cell.published), _number(cell.published_std)]
    return [*published, _number(cell.difference)] if table.comparable else published


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)
