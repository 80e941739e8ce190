"""Grids of text, the form of tables that every renderer draws."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, groupby, pairwise
from typing import Literal

from repro.config.experiment import Column
from repro.evaluation.metrics import metric_of
from repro.report.cell import BLANK, Cell, CellRunLink
from repro.report.table import Table

Role = Literal["label", "measured", "published", "difference"]
NOT_COMPARABLE = "paper (full protocol; not comparable)"
PAPER = "paper"
WIDE = 7
_TITLES = {"measured": "ours", "published": PAPER, "difference": "diff."}


@dataclass(frozen=True)
class GridColumn:
    """Title of a column, the group above it (blank for none), and the role of its texts."""

    title: str
    role: Role
    group: str = BLANK


@dataclass(frozen=True)
class GridRow:
    """Row of a grid.

    Attributes:
        texts: one per column.
        starts_block: whether space separates the row from the one above.
        best: positions of the values that are the best of their column.
        runs: runs behind a value, by its position.
    """

    texts: tuple[str, ...]
    starts_block: bool = False
    best: frozenset[int] = frozenset()
    runs: Mapping[int, tuple[CellRunLink, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """Table ready to be drawn, label columns first.

    A ``muted`` grid holds published values that are not comparable, and is drawn in grey.
    """

    title: str
    columns: tuple[GridColumn, ...]
    rows: tuple[GridRow, ...]
    muted: bool = False

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Titles of the groups of adjacent columns, with their numbers of columns."""
        runs = groupby(self.columns, key=lambda column: column.group)
        return [(title, len(list(members))) for title, members in runs]

    @property
    def grouped(self) -> bool:
        """Return whether any column belongs to a group."""
        return any(column.group for column in self.columns)

    def without(self, mark: str) -> "Grid":
        """Return the grid without a mark in its texts."""
        return replace(
            self,
            rows=tuple(
                replace(row, texts=tuple(text.replace(mark, "") for text in row.texts))
                for row in self.rows
            ),
        )

    def of_columns(self, places: Sequence[int]) -> "Grid":
        """Return the grid of the columns at these positions."""
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

    def parts(self, room: int, gap: int) -> list[list[int]]:
        """Split the columns into parts that fit on a line, without splitting groups that fit.

        Args:
            room: width of a line, in characters.
            gap: width of the space between two columns, in characters.

        Returns:
            The positions of the columns of each part, those of the label columns first.
        """
        labels = [n for n, column in enumerate(self.columns) if column.role == "label"]
        widths = [
            gap + max(map(len, (*column.title.split(), *(row.texts[n] for row in self.rows))))
            for n, column in enumerate(self.columns)
        ]
        room -= sum(widths[n] for n in labels)
        values = [n for n in range(len(self.columns)) if n not in labels]
        parts: list[list[int]] = [[]]
        for name, group in groupby(values, lambda n: self.columns[n].group):
            members = list(group)
            whole = name and sum(widths[n] for n in members) <= room
            for piece in [members] if whole else [[n] for n in members]:
                if parts[-1] and sum(widths[n] for n in (*parts[-1], *piece)) > room:
                    parts.append([])
                parts[-1] += piece
        return [[*labels, *part] for part in parts]

    @property
    def letters(self) -> int:
        """Sum of the widths of the columns, in characters."""
        texts = ([column.title for column in self.columns], *(row.texts for row in self.rows))
        return sum(max(map(len, column)) for column in zip(*texts, strict=True))

    @property
    def wide(self) -> bool:
        """Return whether there are so many columns that the grid is drawn smaller."""
        return len(self.columns) > WIDE


def linked_runs(grids: Iterable[Grid]) -> Iterator[tuple[str, CellRunLink]]:
    """Yield the runs behind the values, each with the labels of its row."""
    for grid in grids:
        labels = sum(column.role == "label" for column in grid.columns)
        for row in grid.rows:
            for run in (run for runs in row.runs.values() for run in runs):
                yield " / ".join(row.texts[:labels]), run


def table_grids(table: Table) -> list[Grid]:
    """Lay out the measured and the published values of a table.

    Returns:
        One grid with our value, the paper's and the difference per column if the runs follow the
        paper's protocol; else the measured grid and, if any published value belongs to a column
        that is shown, a muted one of published values.
    """
    published, measured = table.experiment.published, f"measured, {table.scale} scale"
    if not (published.rows or published.other_rows):
        return [_grid(table, measured, ("measured",))]
    if table.comparable:
        return [_grid(table, "ours and the paper's", ("measured", "published", "difference"))]
    ours = _grid(table, measured, ("measured",))
    paper = replace(_grid(table, NOT_COMPARABLE, ("published",)), muted=True)
    return [ours, paper] if paper.rows else [ours]


def _grid(table: Table, title: str, roles: Sequence[Role]) -> Grid:
    """Lay out the texts of some roles, for the columns with a value (for all if none has one)."""
    every = table.experiment.columns
    found = [n for n, one in enumerate(every) if one.name in table.columns_found]
    places = found or list(range(len(every)))
    ours, rows = len(table.rows), [*table.rows]
    if "published" in roles:
        rows += table.other_rows
    if "measured" not in roles:  # only rows with a published value
        kept = [any(row.cells[n].published is not None for n in places) for row in rows]
        ours, rows = sum(kept[:ours]), [*compress(rows, kept)]
    columns = [GridColumn(axis.name, "label") for axis in table.experiment.rows]
    texts = [[*row.labels] for row in rows]
    best: list[set[int]] = [set() for _ in rows]
    runs: list[dict[int, tuple[CellRunLink, ...]]] = [{} for _ in rows]
    for n in places:
        metric, cells = metric_of(every[n].metric), [row.cells[n] for row in rows]
        for role in roles:
            place = len(columns)
            several = GridColumn(_TITLES[role], role, every[n].name)
            columns.append(several if len(roles) > 1 else headed(every[n], role))
            printed = []
            for number, cell in enumerate(cells):
                text, value, digits = _shown(cell, role)
                is_ours = number < ours
                texts[number].append(text if is_ours or role != "measured" else BLANK)
                if is_ours:
                    printed.append(None if value is None else round(value, digits))
                    if role == "measured":
                        runs[number][place] = cell.runs
            # Mark the best of our rows after rounding, unless all printed values are equal.
            known = {value for value in printed if value is not None}
            if metric.higher_is_better is not None and len(known) > 1:
                winner = max(known) if metric.higher_is_better else min(known)
                for number, value in enumerate(printed):
                    if value == winner:
                        best[number].add(place)
    blocks = block_rows([tuple(line) for line in texts])
    laid_out = tuple(
        replace(row, best=frozenset(best[number]), runs=runs[number])
        for number, row in enumerate(blocks)
    )
    return Grid(title, tuple(columns), laid_out)


def _shown(cell: Cell, role: Role) -> tuple[str, float | None, int]:
    """Return the text of a cell, the number by which its column is ranked, and its digits."""
    match role:
        case "measured":
            return cell.text, cell.mean, cell.digits + cell.more_digits
        case "published":
            return cell.published_text, cell.published, cell.digits
        case _:
            return cell.difference_text, None, cell.digits


def plain_grid(
    title: str, labels: Sequence[str], measured: Sequence[str], rows: Sequence[tuple[str, ...]]
) -> Grid:
    """Build a grid without groups from the titles of its columns and its rows of texts."""
    columns = [GridColumn(one, "label") for one in labels]
    columns += [GridColumn(one, "measured") for one in measured]
    return Grid(title, tuple(columns), block_rows(rows))


def block_rows(rows: Sequence[tuple[str, ...]]) -> tuple[GridRow, ...]:
    """Turn texts into rows, starting a block wherever the first label changes."""
    starts = [False, *(row[0] != before[0] for before, row in pairwise(rows))]
    return tuple(map(GridRow, rows, starts))


def columns_without_value(table: Table) -> list[str]:
    """Return the names of the columns without a measured value, which grids leave out."""
    return [one.name for one in table.experiment.columns if one.name not in table.columns_found]


def headed(column: Column, role: Role) -> GridColumn:
    """Return the header of a column: its first label as the group, the others as the title."""
    group, *rest = column.labels or [column.name]
    return GridColumn(" ".join(rest), role, group) if rest else GridColumn(group, role)
