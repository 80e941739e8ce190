"""Tables as data: one cell per row and column of an experiment, filled from its records."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from repro.config.experiment import ROW_SEPARATOR, Column, Departure, Experiment
from repro.evaluation.metrics import best_value, formula_of, metric_of
from repro.report.cell import BLANK, Cell, collapsed, run_link, visible_digits
from repro.report.provenance import FULL_SCALE
from repro.results import Comparison, Measurement, ResultsError
from repro.results.cells import averaged, may_stand_together
from repro.results.timed import SPEEDS

CellKey = tuple[str, str, str]
RATIO_DIGITS = 2
MARKS = "ᵃᵇᶜᵈᵉᶠᵍʰ"
"""Marks of the departures of an experiment, in order; as many as an experiment may have."""
EARLIER = "†"
"""Mark of values that an earlier version of the code computed."""
DIVERGED = "‡"
"""Mark of values of runs whose training diverged."""
COLLAPSED = "¶"
"""Mark of means over seeds of which one collapsed."""


@dataclass(frozen=True)
class MeasuredCells:
    """Measurements that the cells of an artefact show at one scale; see :func:`chosen_records`."""

    experiment: Experiment
    scale: str
    records: Sequence[Measurement]

    @cached_property
    def by_cell(self) -> dict[CellKey, list[Measurement]]:
        """Chosen measurements by row, column and metric."""
        found = defaultdict[CellKey, list[Measurement]](list)
        timed = [one for one in self.records if not one.run_id]  # repetitions, of no run
        runs = [one for one in self.records if one.run_id]
        for one in (*timed, *chosen_records(self.experiment, runs, self.scale)):
            found[one.row, one.column, one.metric].append(one)
        return dict(found)

    @cached_property
    def repetitions(self) -> Counter[tuple[str, str]]:
        """Numbers of repetitions of updates timed in turn, by column and metric; 0 for runs."""
        found = Counter[tuple[str, str]]()
        for one in self.records:
            if not one.run_id:  # its seed is the number of the repetition
                found[one.column, one.metric] = max(found[one.column, one.metric], one.seed or 0)
        return found

    def shown(self, row: str, column: Column, metric: str | None = None) -> list[Measurement]:
        """Return the ensemble, or one measurement per seed found, in the order of the seeds."""
        found = self.by_cell.get((row, column.name, metric or column.metric), [])
        if column.aggregate == "ensemble":
            return [one for one in found if one.kind == "ensemble"]
        runs = {one.seed: one for one in found if one.kind == "run"}
        if not any(one.run_id for one in found):
            return [*runs.values()]
        seeds = self.experiment.seeds_at(self.scale, column.name)
        return [runs[seed] for seed in seeds if seed in runs]

    def cell(self, row: str, column: Column, metric: str | None = None) -> Cell:
        """Build the cell of a row and column, or one of a further metric, with measured values."""
        found, ratio = self.shown(row, column, metric), None if metric else column.relative_to
        if ratio is not None:
            # Divide by the value of the same seed; drop values without one.
            others = {one.seed: one for one in self.shown(ratio, column) if one.value}
            pairs = [(one, others[one.seed]) for one in found if one.seed in others]
            found = [
                replace(
                    one,
                    value=one.value / other.value,
                    epoch=min(one.epoch, other.epoch),
                    diverged=one.diverged or other.diverged,
                )
                for one, other in pairs
                if may_stand_together((one, other), any_epoch=True)
            ]
        metric = metric or column.metric
        declared, values = metric_of(metric), tuple(one.value for one in found)
        seeds = self.experiment.seeds_at(self.scale, column.name)
        wanted = 1 if column.aggregate == "ensemble" else len(seeds)
        runs_here = any(column.name == one.name for one in self.experiment.columns_at(self.scale))
        # Speeds vary with the load of the machine.
        points = declared.higher_is_better and not metric.startswith("train/")
        return Cell(
            values=values,
            wanted=runs_here * (self.repetitions[column.name, metric] or wanted),
            digits=declared.digits if ratio is None else RATIO_DIGITS,
            comparable=self.scale == FULL_SCALE,
            marks=EARLIER * any(one.earlier for one in found)
            + DIVERGED * any(one.diverged for one in found)
            + COLLAPSED * bool(points and collapsed(values)),
            runs=tuple(run_link(one, one.value, metric) for one in found if one.run_id),
        )


@dataclass(frozen=True)
class TableRow:
    """Row of a table: labels, one per axis, and cells, one per column.

    The row of another system, which has published values only, has one label and blanks.
    """

    label: str
    labels: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Table of an artefact, independent of the output format."""

    experiment: Experiment  # declares title, place, axes, columns and notes
    scale: str  # scale of the runs; only "full" is comparable with the paper
    seeds: tuple[int, ...]  # seeds of the scale
    rows: tuple[TableRow, ...]  # rows in the order of the experiment
    other_rows: tuple[TableRow, ...]  # rows of other systems that the paper lists
    signatures: tuple[str, ...]  # metric: signature for each way in which a metric was computed
    corpora: Mapping[str, str]  # names of the corpora that were measured, by column
    # Machines and dates of speeds from updates timed in turn, and whether others, of whole runs,
    # are shown.
    timed_on: tuple[str, ...] = ()
    whole_runs: bool = False

    @property
    def comparable(self) -> bool:
        """Return whether the runs follow the paper's protocol."""
        return self.scale == FULL_SCALE

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Comparisons with the baseline, row by row."""
        found = (cell.comparison for row in self.rows for cell in row.cells)
        return tuple(one for one in found if one is not None)

    @property
    def columns_found(self) -> tuple[str, ...]:
        """Names of the columns that have a measured value."""
        found = {n for row in self.rows for n, cell in enumerate(row.cells) if cell.found}
        return tuple(one.name for n, one in enumerate(self.experiment.columns) if n in found)

    @property
    def incomplete(self) -> int:
        """Number of incomplete cells, of the columns that the scale runs."""
        return sum(cell.found < cell.wanted for row in self.rows for cell in row.cells)


def build_table(
    experiment: Experiment,
    records: Sequence[Measurement],
    scale: str,
    comparisons: Mapping[CellKey, Comparison] | None = None,
    failed: Collection[tuple[str, str]] = (),
) -> Table:
    """Lay out the records of an experiment at one of its scales, in any order.

    There is a cell for every row and column, empty where no run is recorded. ``comparisons`` are
    paired tests against the baseline, ``failed`` the rows and columns of cells that lack a run.

    Raises:
        ResultsError: the experiment lacks this scale.
    """
    if scale not in experiment.scales:
        known = ", ".join(experiment.scales)
        raise ResultsError(f"{experiment.name} has no scale {scale!r}; it has {known}")
    measured = MeasuredCells(experiment, scale, records)
    columns = [_column(measured, one, comparisons or {}, failed) for one in experiment.columns]
    by_row = zip(*columns, strict=True)  # none of a figure without columns
    rows = [
        TableRow(label, tuple(label.split(ROW_SEPARATOR)), cells)
        for label, cells in zip(experiment.rows_at(scale), by_row, strict=False)
    ]
    padding = (BLANK,) * (len(experiment.rows) - 1)
    other_rows = [
        TableRow(
            label,
            (label, *padding),
            tuple(
                Cell((), 0, cells[0].digits, values.get(column.name))
                for column, cells in zip(experiment.columns, columns, strict=True)
            ),
        )
        for label, values in experiment.published.other_rows.items()
    ]
    run = [column.name for column in experiment.columns_at(scale)]
    metrics = {column.metric for column in experiment.columns}
    speeds = {
        column.name: column.metric for column in experiment.columns if column.metric in SPEEDS
    }
    corpora = defaultdict[str, set[str]](set)
    for one in records:
        corpora[one.column].add(one.corpus)
    shown = [one for found in measured.by_cell.values() for one in found]
    recorded = {f"{r.metric}: {r.signature}" for r in shown if r.metric in metrics}
    declared = {f"{metric}: {metric_of(metric).signature}" for metric in metrics}
    return Table(
        experiment=experiment,
        scale=scale,
        seeds=tuple(sorted({seed for one in run for seed in experiment.seeds_at(scale, one)})),
        rows=tuple(rows),
        other_rows=tuple(other_rows),
        signatures=tuple(sorted(recorded or declared)),
        corpora={name: ", ".join(sorted(filter(None, found))) for name, found in corpora.items()},
        timed_on=tuple(sorted({one.device for one in records if not one.run_id})),
        whole_runs=any(o.run_id and o.metric == speeds.get(o.column) for o in shown),
    )


def _column(
    measured: MeasuredCells,
    column: Column,
    comparisons: Mapping[CellKey, Comparison],
    failed: Collection[tuple[str, str]],
) -> list[Cell]:
    """Build the cells of a column: measured and published values, tests, marks, decimals."""
    experiment, cells = measured.experiment, []
    published, labels = experiment.published, experiment.rows_at(measured.scale)
    departures = marked_departures(experiment, measured.scale)
    for label in labels:
        concerned = [(mark, one) for mark, one in departures if one.concerns(label, column)]
        departs = any(one.incomparable for _, one in concerned)
        cell = measured.cell(label, column)
        cells.append(
            replace(
                cell,
                published=published.rows.get(label, {}).get(column.name),
                published_std=published.deviations.get(label, {}).get(column.name),
                comparable=cell.comparable and not departs,
                comparison=comparisons.get((label, column.name, column.metric)),
                marks="".join(mark for mark, _ in concerned) + cell.marks,
                failed=(label, column.name) in failed,
            )
        )
    # Mark the cells that could be compared with the baseline and are not.
    base = cells[labels.index(experiment.baseline)] if experiment.baseline in labels else None
    testable = formula_of(column.metric) is not None and column.relative_to is None
    testable = testable and base is not None and base.found > 0
    # Add decimals to columns in which a nonzero mean would be printed as zero.
    more = visible_digits([one.mean for one in cells], cells[0].digits) - cells[0].digits
    return [
        replace(
            one,
            more_digits=more,
            untested=testable and one is not base and one.found > 0 and not one.comparison,
        )
        for one in cells
    ]


def marked_departures(experiment: Experiment, scale: str) -> list[tuple[str, Departure]]:
    """Pair the departures from the paper's protocol with their marks; none below full scale.

    Below full scale no value follows the paper's protocol, as the banner says.
    """
    departures = experiment.departures if scale == FULL_SCALE else []
    return list(zip(MARKS, departures, strict=False))


def chosen_records(
    experiment: Experiment, records: Sequence[Measurement], scale: str
) -> list[Measurement]:
    """Select the records that each row and column shows.

    A tuned row keeps the records of the value that is best for the first seed. Of several numeric
    epochs, or signatures of a metric, one remains (:func:`repro.results.cells.averaged`): a spread
    over seeds compares runs of one version.
    """
    chosen = list(records)
    if (tune := experiment.tune) is not None:
        measured = tuning_values(experiment, records, scale)
        best = {cell: best_value(found, tune.metric) for cell, found in measured.items()}
        chosen = [
            one
            for one in records
            if experiment.tuning_of(one.row) is None
            or (one.tuned is not None and one.tuned == best.get((one.row, one.column)))
        ]
    return averaged(chosen)


def tuning_values(
    experiment: Experiment, records: Sequence[Measurement], scale: str
) -> dict[tuple[str, str], dict[float, float]]:
    """Return the tuning metric of the first seed, by row and column, then by tuned value."""
    assert experiment.tune is not None
    found: dict[tuple[str, str], dict[float, float]] = defaultdict(dict)
    for record in records:
        first = record.seed == experiment.seeds_at(scale, record.column)[0]
        if first and record.metric == experiment.tune.metric and record.tuned is not None:
            found[record.row, record.column][record.tuned] = record.value
    return dict(found)
