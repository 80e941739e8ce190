"""A grid of text with roles: the one form that every renderer draws."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from repro.config.experiment import Column
from repro.report.cell import BLANK, Cell
from repro.report.table import Table

Role = Literal["label", "measured", "published", "difference"]
NOT_COMPARABLE = "paper (full protocol; not comparable)"
PAPER = "paper"
DIFFERENCE = "diff."
WIDE = 7


@dataclass(frozen=True)
class GridColumn:
    """Title of a column, the group it stands under (blank for none), and what it holds."""

    title: str
    role: Role
    group: str = BLANK


@dataclass(frozen=True)
class GridRow:
    """Texts, one per column; ``starts_block`` sets it off from the row above."""

    texts: tuple[str, ...]
    starts_block: bool = False


@dataclass(frozen=True)
class Grid:
    """A table ready to draw.

    Attributes:
        title: what it shows, in a few words.
        columns: label columns first.
        rows: in the order of drawing.
        muted: drawn in grey, for values that are not ours and not comparable.
    """

    title: str
    columns: tuple[GridColumn, ...]
    rows: tuple[GridRow, ...]
    muted: bool = False

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Titles of neighbouring columns' groups with their widths."""
        runs = groupby(self.columns, key=lambda column: column.group)
        return [(title, len(list(members))) for title, members in runs]

    @property
    def grouped(self) -> bool:
        """Whether any column stands under a group."""
        return any(column.group for column in self.columns)

    @property
    def wide(self) -> bool:
        """Whether there are so many columns that they are drawn smaller."""
        return len(self.columns) > WIDE


def table_grids(table: Table) -> list[Grid]:
    """Lay out a table: beside the published values at full scale, apart from them at any other.

    Returns:
        One grid with our value, the paper's and the difference per column if the runs follow the
        paper's protocol; else the measured grid and, muted, the published one.
    """
    if not _has_published(table):
        return [_measured_grid(table)]
    if table.comparable:
        return [_comparison_grid(table)]
    return [_measured_grid(table), _published_grid(table)]


def label_columns(table: Table) -> tuple[GridColumn, ...]:
    """One column per axis of the rows."""
    return tuple(GridColumn(axis.name, "label") for axis in table.experiment.rows)


def block_rows(rows: Sequence[tuple[str, ...]]) -> tuple[GridRow, ...]:
    """Rows of texts, a block beginning wherever the first label changes."""
    firsts = [BLANK, *(row[0] for row in rows)]
    pairs = zip(firsts, rows, strict=False)
    return tuple(
        GridRow(row, starts_block=number > 0 and row[0] != before)
        for number, (before, row) in enumerate(pairs)
    )


def _has_published(table: Table) -> bool:
    return bool(table.experiment.published.rows or table.experiment.published.other_rows)


def _measured_grid(table: Table) -> Grid:
    columns = [_headed(column, "measured") for column in table.experiment.columns]
    rows = [(*row.labels, *(cell.text for cell in row.cells)) for row in table.rows]
    title = f"measured, {table.scale} scale"
    return Grid(title, (*label_columns(table), *columns), block_rows(rows))


def _published_grid(table: Table) -> Grid:
    columns = [_headed(column, "published") for column in table.experiment.columns]
    rows = [
        (*labels, *(cell.published_text for cell in cells)) for labels, cells in _all_rows(table)
    ]
    return Grid(NOT_COMPARABLE, (*label_columns(table), *columns), block_rows(rows), muted=True)


def _headed(column: Column, role: Role) -> GridColumn:
    """The header of a column, its further labels below that of the first axis."""
    group, *rest = column.labels or [column.name]
    return GridColumn(" ".join(rest), role, group) if rest else GridColumn(group, role)


def _comparison_grid(table: Table) -> Grid:
    columns = [
        column
        for shown in table.experiment.columns
        for column in (
            GridColumn("ours", "measured", shown.name),
            GridColumn(PAPER, "published", shown.name),
            GridColumn(DIFFERENCE, "difference", shown.name),
        )
    ]
    ours = len(table.rows)
    rows = [
        (*labels, *_comparison_texts(cells, measured=number < ours))
        for number, (labels, cells) in enumerate(_all_rows(table))
    ]
    return Grid("ours and the paper's", (*label_columns(table), *columns), block_rows(rows))


def _comparison_texts(cells: Sequence[Cell], *, measured: bool) -> Iterator[str]:
    for cell in cells:
        yield cell.text if measured else BLANK
        yield cell.published_text
        yield cell.difference_text


def _all_rows(table: Table) -> Iterator[tuple[tuple[str, ...], tuple[Cell, ...]]]:
    for row in table.rows:
        yield row.labels, row.cells
    padding = (BLANK,) * (len(table.experiment.rows) - 1)
    for other in table.other_rows:
        yield (other.label, *padding), other.cells
