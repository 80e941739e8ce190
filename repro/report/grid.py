"""Grids of text, the form of tables that every renderer draws."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, groupby, pairwise, product
from typing import Literal, NamedTuple

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
    """Title of a column, the group above it, the role of its texts, and the measured corpus.

    Group and corpus are blank if there is none.
    """

    title: str
    role: Role
    group: str = BLANK
    corpus: str = BLANK


class GridCell(NamedTuple):
    """Text of a cell, whether it is the best of its column, and the runs behind it."""

    text: str
    best: bool = False
    runs: tuple[CellRunLink, ...] = ()


@dataclass(frozen=True)
class GridRow:
    """Row of a grid; space separates it from the one above if it ``starts_block``."""

    cells: tuple[GridCell, ...]
    starts_block: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts of the cells."""
        return tuple(cell.text for cell in self.cells)


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
        return self._spans(lambda column: column.group)

    @property
    def corpora(self) -> list[tuple[str, int]]:
        """Corpora that were measured, with the numbers of adjacent columns; blank for others."""
        return self._spans(lambda column: column.corpus)

    def _spans(self, of: Callable[[GridColumn], str]) -> list[tuple[str, int]]:
        spans = [(text, len(list(members))) for text, members in groupby(self.columns, key=of)]
        return spans if any(text for text, _ in spans) else []

    def without(self, mark: str) -> "Grid":
        """Return the grid without a mark in its texts."""
        rows = []
        for row in self.rows:
            cells = (cell._replace(text=cell.text.replace(mark, "")) for cell in row.cells)
            rows.append(replace(row, cells=tuple(cells)))
        return replace(self, rows=tuple(rows))

    def of_columns(self, places: Sequence[int]) -> "Grid":
        """Return the grid of the columns at these positions."""
        rows = tuple(replace(row, cells=tuple(row.cells[n] for n in places)) for row in self.rows)
        return replace(self, columns=tuple(self.columns[n] for n in places), rows=rows)

    def parts(self, room: int, gap: int) -> list[list[int]]:
        """Split the columns into parts that fit on a line, without splitting groups that fit.

        Widths of the line, ``room``, and of the ``gap`` between columns are in characters. The
        result has the positions of the columns of each part, label columns first.
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
            for run in (run for cell in row.cells for run in cell.runs):
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
    # At full scale the corpora are those of the paper.
    corpora = {} if table.comparable or "measured" not in roles else table.corpora
    columns = [GridColumn(axis.name, "label") for axis in table.experiment.rows]
    columns[0] = replace(columns[0], corpus="corpus" if corpora else BLANK)
    lines = [[*map(GridCell, row.labels)] for row in rows]
    for n, role in product(places, roles):
        several = GridColumn(_TITLES[role], role, every[n].name)
        one = several if len(roles) > 1 else headed(every[n], role)
        columns.append(replace(one, corpus=corpora.get(every[n].name, BLANK)))
        shown = [_shown(row.cells[n], role) for row in rows]
        # Mark the best of our rows after rounding, unless all printed values are equal.
        ranked = [None if value is None else round(value, digits) for _, value, digits in shown]
        known = {value for value in ranked[:ours] if value is not None}
        higher = metric_of(every[n].metric).higher_is_better
        best = None if higher is None or len(known) < 2 else max(known) if higher else min(known)
        for k, (text, _, _) in enumerate(shown):
            mine, measured = k < ours, role == "measured"
            cell = GridCell(
                text if mine or not measured else BLANK,
                mine and best is not None and ranked[k] == best,
                rows[k].cells[n].runs if mine and measured else (),
            )
            lines[k].append(cell)
    return Grid(title, tuple(columns), block_rows(lines))


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
    return Grid(title, tuple(columns), block_rows([[*map(GridCell, row)] for row in rows]))


def block_rows(lines: Sequence[Sequence[GridCell]]) -> tuple[GridRow, ...]:
    """Turn cells into rows, starting a block wherever the first label changes."""
    starts = [False, *(line[0].text != before[0].text for before, line in pairwise(lines))]
    return tuple(map(GridRow, map(tuple, lines), starts))


def headed(column: Column, role: Role) -> GridColumn:
    """Return the header of a column: its first label as the group, the others as the title."""
    group, *rest = column.labels or [column.name]
    return GridColumn(" ".join(rest), role, group) if rest else GridColumn(group, role)
