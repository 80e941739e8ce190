"""A table as data: one cell per row and column of an experiment, made of its records."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log10

from repro.config.experiment import ROW_SEPARATOR, Column, Departure, Experiment
from repro.evaluation.metrics import metric_of
from repro.report.cell import Cell, CellRunLink, measured, number_text, wanted_values
from repro.report.chosen import chosen_records
from repro.report.provenance import FULL_SCALE, Provenance, provenance_of
from repro.results import Comparison, Measurement, ResultsError

CellKey = tuple[str, str, str]
RATIO_DIGITS = 2
MOST_DIGITS = 4
MARKS = "ᵃᵇᶜᵈᵉᶠᵍʰ"
"""Signs of the departures of an experiment, in its order; as many as an experiment may have."""
EARLIER = "†"
"""Sign of values that an earlier version of the code computed."""


@dataclass(frozen=True)
class TableRow:
    """Labels, one per axis, and cells, one per column."""

    label: str
    labels: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class PublishedRow:
    """A row of another system, of which there is only what the paper printed."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Table of an artefact, independent of the output format.

    Attributes:
        experiment: its title, place, axes, columns and notes.
        scale: scale of the runs; only ``"full"`` is comparable with the paper.
        seeds: those that the scale runs.
        rows: in the order of the experiment.
        other_rows: other systems that the paper lists.
        signatures: how each metric was computed, ``metric: signature``.
        provenance: where the values come from.
    """

    experiment: Experiment
    scale: str
    seeds: tuple[int, ...]
    rows: tuple[TableRow, ...]
    other_rows: tuple[PublishedRow, ...]
    signatures: tuple[str, ...]
    provenance: Provenance

    @property
    def comparable(self) -> bool:
        """Return whether the runs follow the paper's protocol."""
        return self.scale == FULL_SCALE

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """All comparisons with the baseline, row by row."""
        found = (cell.comparison for row in self.rows for cell in row.cells)
        return tuple(one for one in found if one is not None)

    @property
    def columns_found(self) -> tuple[str, ...]:
        """Names of the columns that have a measured value."""
        found = {n for row in self.rows for n, cell in enumerate(row.cells) if cell.found}
        return tuple(one.name for n, one in enumerate(self.experiment.columns) if n in found)

    @property
    def cells_found(self) -> int:
        """Number of cells that have all their runs; those that the scale leaves out have none."""
        return sum(0 < cell.wanted == cell.found for row in self.rows for cell in row.cells)

    @property
    def cells_wanted(self) -> int:
        """Number of cells of the columns that the scale runs."""
        return sum(cell.wanted > 0 for row in self.rows for cell in row.cells)


def build_table(
    experiment: Experiment,
    records: Sequence[Measurement],
    scale: str,
    comparisons: Mapping[CellKey, Comparison] | None = None,
) -> Table:
    """Lay out the records of an experiment.

    Args:
        experiment: says the rows, the columns, the seeds and the published values.
        records: of this experiment at this scale, in any order.
        scale: one of the experiment's scales.
        comparisons: of its cells with those of the baseline.

    Returns:
        A cell for every row and column, empty where no run is recorded.

    Raises:
        ResultsError: the experiment lacks this scale, or a cell has two runs with one seed.
    """
    if scale not in experiment.scales:
        known = ", ".join(experiment.scales)
        raise ResultsError(f"{experiment.name} has no scale {scale!r}; it has {known}")
    by_cell = index_records(chosen_records(experiment, records, scale))
    columns = [column.name for column in experiment.columns_at(scale)]
    rows = [
        _row(experiment, label, by_cell, scale, comparisons or {})
        for label in experiment.rows_at(scale)
    ]
    return Table(
        experiment=experiment,
        scale=scale,
        seeds=tuple(sorted({seed for one in columns for seed in experiment.seeds_at(scale, one)})),
        rows=_with_visible_values(rows),
        other_rows=_other_rows(experiment, scale),
        signatures=_signatures(experiment, records),
        provenance=provenance_of(records),
    )


def _with_visible_values(rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """Add decimals to the columns in which a value other than zero would be printed as zero."""
    wanted = []
    for cells in zip(*(row.cells for row in rows), strict=True):
        sizes = [abs(cell.mean) for cell in cells if cell.mean]
        least = min(sizes, default=1.0)
        hidden = least < 0.5 * 10.0 ** -cells[0].digits
        wanted.append(min(ceil(-log10(least)), MOST_DIGITS) if hidden else cells[0].digits)

    def shown(row: TableRow) -> tuple[Cell, ...]:
        pairs = zip(row.cells, wanted, strict=True)
        return tuple(replace(cell, digits=digits) for cell, digits in pairs)

    return tuple(replace(row, cells=shown(row)) for row in rows)


def index_records(records: Sequence[Measurement]) -> dict[CellKey, list[Measurement]]:
    """Group records by row, column and metric."""
    groups: dict[CellKey, list[Measurement]] = defaultdict(list)
    for record in records:
        groups[record.row, record.column, record.metric].append(record)
    return dict(groups)


def cell_of(
    experiment: Experiment,
    scale: str,
    column: Column,
    records: Sequence[Measurement],
    *,
    metric: str,
    published: float | None = None,
    published_std: float | None = None,
    departures: Sequence[tuple[str, Departure]] = (),
) -> Cell:
    """Make one cell from the records of its row, column and metric.

    Args:
        experiment: says which runs the cell is made of.
        scale: scale of the runs.
        column: column of the cell.
        records: the records of the cell's row, column and metric.
        metric: its number of digits is that of the cell.
        published: the paper's value.
        published_std: the paper's standard deviation.
        departures: marks and departures that concern the cell.
    """
    seeds = experiment.seeds_at(scale, column.name)
    runs_here = any(column.name == one.name for one in experiment.columns_at(scale))
    found, digits = measured(records, column, seeds), metric_of(metric).digits
    return Cell(
        values=tuple(one.value for one in found),
        wanted=wanted_values(column, seeds) if runs_here else 0,
        digits=digits,
        published=published,
        comparable=scale == FULL_SCALE and not any(one.incomparable for _, one in departures),
        published_std=published_std,
        marks="".join(mark for mark, _ in departures) + EARLIER * any(r.earlier for r in records),
        runs=tuple(
            CellRunLink(
                one.kind if one.seed is None else f"seed {one.seed}",
                number_text(one.value, digits),
                one.run_id,
            )
            for one in found
        ),
    )


def _row(
    experiment: Experiment,
    label: str,
    by_cell: Mapping[CellKey, list[Measurement]],
    scale: str,
    comparisons: Mapping[CellKey, Comparison],
) -> TableRow:
    printed = experiment.published.rows.get(label, {})
    deviations = experiment.published.deviations.get(label, {})
    departures = marked_departures(experiment, scale)
    cells = []
    for column in experiment.columns:
        found = by_cell.get((label, column.name, column.metric), [])
        if column.relative_to is not None:
            found = _ratios(
                found, by_cell.get((column.relative_to, column.name, column.metric), [])
            )
        cell = cell_of(
            experiment,
            scale,
            column,
            found,
            metric=column.metric,
            published=printed.get(column.name),
            published_std=deviations.get(column.name),
            departures=[(mark, one) for mark, one in departures if one.concerns(label, column)],
        )
        digits = cell.digits if column.relative_to is None else RATIO_DIGITS
        comparison = comparisons.get((label, column.name, column.metric))
        cells.append(replace(cell, digits=digits, comparison=comparison))
    return TableRow(label, tuple(label.split(ROW_SEPARATOR)), tuple(cells))


def marked_departures(experiment: Experiment, scale: str) -> list[tuple[str, Departure]]:
    """Departures from the paper's protocol with their marks; none below full scale.

    Below full scale no value follows the paper's protocol, which the banner says of all of them.
    """
    departures = experiment.departures if scale == FULL_SCALE else []
    return list(zip(MARKS, departures, strict=False))


def _ratios(records: Sequence[Measurement], references: Sequence[Measurement]) -> list[Measurement]:
    """Values divided by the reference of the same kind and seed, where there is one."""
    by_seed = {(record.kind, record.seed): record.value for record in references}
    return [
        replace(record, value=record.value / by_seed[record.kind, record.seed])
        for record in records
        if by_seed.get((record.kind, record.seed))
    ]


def _other_rows(experiment: Experiment, scale: str) -> tuple[PublishedRow, ...]:
    def row(label: str, values: Mapping[str, float]) -> PublishedRow:
        cells = (
            cell_of(experiment, scale, one, [], metric=one.metric, published=values.get(one.name))
            for one in experiment.columns
        )
        return PublishedRow(label, tuple(cells))

    return tuple(row(label, values) for label, values in experiment.published.other_rows.items())


def _signatures(experiment: Experiment, records: Sequence[Measurement]) -> tuple[str, ...]:
    metrics = {column.metric for column in experiment.columns}
    found = {f"{r.metric}: {r.signature}" for r in records if r.metric in metrics}
    declared = {f"{metric}: {metric_of(metric).signature}" for metric in metrics}
    return tuple(sorted(found or declared))
