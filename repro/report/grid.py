"""A grid of text with roles: the one form that every renderer draws."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal

from repro.config.experiment import Column
from repro.evaluation.metrics import metric_of
from repro.report.cell import BLANK, Cell, CellRunLink
from repro.report.table import Table

Role = Literal["label", "measured", "published", "difference"]
NOT_COMPARABLE = "paper (full protocol; not comparable)"
PAPER = "paper"
DIFFERENCE = "diff."
WIDE = 7
_COMPARED: tuple[tuple[str, Role], ...] = (
    ("ours", "measured"),
    (PAPER, "published"),
    (DIFFERENCE, "difference"),
)


@dataclass(frozen=True)
class GridColumn:
    """Title of a column, the group it stands under (blank for none), and what it holds."""

    title: str
    role: Role
    group: str = BLANK


@dataclass(frozen=True)
class GridRow:
    """One row.

    Attributes:
        texts: one per column.
        starts_block: whether it is set off from the row above.
        best: positions of the values that no other row of their column beats.
        runs: by position, the runs behind a value.
    """

    texts: tuple[str, ...]
    starts_block: bool = False
    best: frozenset[int] = frozenset()
    runs: Mapping[int, tuple[CellRunLink, ...]] = field(default_factory=dict)


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
        """Return whether any column stands under a group."""
        return any(column.group for column in self.columns)

    def of_columns(self, places: Sequence[int]) -> "Grid":
        """The grid of some of its columns."""
        rows = [
            replace(
                row,
                texts=tuple(row.texts[n] for n in places),
                best=frozenset(new for new, n in enumerate(places) if n in row.best),
                runs={new: row.runs[n] for new, n in enumerate(places) if n in row.runs},
            )
            for row in self.rows
        ]
        return replace(self, columns=tuple(self.columns[n] for n in places), rows=tuple(rows))

    @property
    def letters(self) -> int:
        """Letters of the widest text of each column together."""
        texts = ([column.title for column in self.columns], *(row.texts for row in self.rows))
        return sum(max(map(len, column)) for column in zip(*texts, strict=True))

    @property
    def wide(self) -> bool:
        """Return whether there are so many columns that they are drawn smaller."""
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


def columns_without_value(table: Table) -> list[str]:
    """Names of the columns that no run fills at this scale; grids leave them out."""
    return [one.name for one in table.experiment.columns if one.name not in table.columns_found]


def _positions(table: Table) -> list[int]:
    """Positions of the columns with a value; of all columns where none has one."""
    columns = table.experiment.columns
    found = [n for n, one in enumerate(columns) if one.name in table.columns_found]
    return found or list(range(len(columns)))


def _measured_grid(table: Table) -> Grid:
    places = _positions(table)
    columns = [headed(table.experiment.columns[n], "measured") for n in places]
    rows = [(*row.labels, *(row.cells[n].text for n in places)) for row in table.rows]
    values = [[row.cells[n].mean for row in table.rows] for n in places]
    title = f"measured, {table.scale} scale"
    blocks = _with_runs(table, _with_best(table, block_rows(rows), values))
    return Grid(title, (*label_columns(table), *columns), blocks)


def _published_grid(table: Table) -> Grid:
    places, ours = _positions(table), len(table.rows)
    columns = [headed(table.experiment.columns[n], "published") for n in places]
    printed = [
        (labels, cells, number < ours)
        for number, (labels, cells) in enumerate(_all_rows(table))
        if any(cells[n].published is not None for n in places)
    ]
    rows = [(*labels, *(cells[n].published_text for n in places)) for labels, cells, _ in printed]
    values = [[cells[n].published for _, cells, own in printed if own] for n in places]
    blocks = _with_best(table, block_rows(rows), values)
    return Grid(NOT_COMPARABLE, (*label_columns(table), *columns), blocks, muted=True)


def headed(column: Column, role: Role) -> GridColumn:
    """The header of a column, its further labels below that of the first axis."""
    group, *rest = column.labels or [column.name]
    return GridColumn(" ".join(rest), role, group) if rest else GridColumn(group, role)


def _comparison_grid(table: Table) -> Grid:
    places, every = _positions(table), list(_all_rows(table))
    columns = [
        GridColumn(title, role, table.experiment.columns[n].name)
        for n in places
        for title, role in _COMPARED
    ]
    rows, ours = [], len(table.rows)
    for number, (labels, cells) in enumerate(every):
        texts = list(labels)
        for n in places:
            cell = cells[n]
            measured = cell.text if number < ours else BLANK
            texts += [measured, cell.published_text, cell.difference_text]
        rows.append(tuple(texts))
    nothing: list[float | None] = [None] * ours
    values = [
        column
        for n in places
        for column in (
            [row.cells[n].mean for row in table.rows],
            [row.cells[n].published for row in table.rows],
            nothing,
        )
    ]
    repeats = len(_COMPARED)
    blocks = _with_best(table, block_rows(rows), values, repeats)
    blocks = _with_runs(table, blocks, repeats)
    return Grid("ours and the paper's", (*label_columns(table), *columns), blocks)


def _with_best(
    table: Table,
    rows: Sequence[GridRow],
    values: Sequence[Sequence[float | None]],
    repeats: int = 1,
) -> tuple[GridRow, ...]:
    """Mark the best of each column's values, as they are printed.

    Args:
        table: gives the metrics.
        rows: the first are those of ``values``.
        values: of each column after the labels, one per row.
        repeats: how many columns each column of the table takes.
    """
    best: dict[int, set[int]] = {}
    labels, places = len(table.experiment.rows), _positions(table)
    for position, column in enumerate(values):
        metric = metric_of(table.experiment.columns[places[position // repeats]].metric)
        printed = [None if value is None else round(value, metric.digits) for value in column]
        found = [value for value in printed if value is not None]
        if metric.higher_is_better is None or len(set(found)) < 2:
            continue
        winner = max(found) if metric.higher_is_better else min(found)
        for number, value in enumerate(printed):
            if value == winner:
                best.setdefault(number, set()).add(labels + position)
    return tuple(
        replace(row, best=frozenset(best.get(number, ()))) for number, row in enumerate(rows)
    )


def _with_runs(table: Table, rows: Sequence[GridRow], repeats: int = 1) -> tuple[GridRow, ...]:
    """Attach the runs behind the measured values; each takes the first of ``repeats`` columns."""
    labels, places = len(table.experiment.rows), _positions(table)
    found = [
        {labels + n * repeats: row.cells[place].runs for n, place in enumerate(places)}
        for row in table.rows
    ]
    linked = [replace(row, runs=runs) for row, runs in zip(rows, found, strict=False)]
    return (*linked, *rows[len(linked) :])


def _all_rows(table: Table) -> Iterator[tuple[tuple[str, ...], tuple[Cell, ...]]]:
    for row in table.rows:
        yield row.labels, row.cells
    padding = (BLANK,) * (len(table.experiment.rows) - 1)
    for other in table.other_rows:
        yield (other.label, *padding), other.cells
