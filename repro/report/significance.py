"""Paired tests of a table's cells against its baseline, and what the table says about them."""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.checksums import DamagedFileError
from repro.config.experiment import Column, Experiment
from repro.evaluation.metrics import form_of, metric_of
from repro.evaluation.significance import (
    approximate_randomisation,
    bootstrap_signature,
    paired_bootstrap,
    randomisation_signature,
)
from repro.evaluation.sufficient_statistics import GROUPS
from repro.report.cell import LEVEL, SIGN, number_text
from repro.report.chosen import chosen_records
from repro.report.grid import Grid, GridColumn, block_rows
from repro.report.table import CellKey, Table, index_records
from repro.results import (
    Comparison,
    Measurement,
    ResultsError,
    read_comparisons,
    run_folder,
    write_comparisons,
)

_log = logging.getLogger(__name__)
SIGNATURE = f"{bootstrap_signature()} {randomisation_signature()}"
_TITLES = ("examples", "runs", "difference", "p, bootstrap", "p, randomisation")
_P_DIGITS = 4

Arrays = dict[str, NDArray[np.number]]
ReadStatistics = Callable[[str], Arrays]
"""From the identity of a run to its statistics; nothing if it kept none."""
Pairs = list[tuple[Measurement, Measurement]]
"""Measurements of a row and of the baseline, seed by seed."""


class Comparer:
    """Compares runs of one scale; what was computed before is not computed again.

    Args:
        results_dir: where the folders of the runs lie, and the file of comparisons.
        scale: of the runs.
    """

    def __init__(self, results_dir: Path, scale: str) -> None:
        self._place = results_dir, scale
        try:
            self._known = read_comparisons(results_dir, scale)
        except DamagedFileError as error:
            _log.warning("%s; the comparisons are computed anew", error)
            self._known = {}
        self._changed = False

        @cache
        def read(run_id: str) -> Arrays:
            return run_folder(results_dir, scale, run_id).read_statistics()

        self._read: ReadStatistics = read

    def compare(self, pairs: Pairs, compute: bool = True) -> Comparison | None:
        """Both tests of one metric of some runs; None where their statistics are lacking.

        Args:
            pairs: measurements of the runs and of the baseline, seed by seed.
            compute: run the tests if they are not known.

        Raises:
            ResultsError: the groups of stored statistics differ between runs.
        """
        runs, others = (" ".join(one.run_id for one in side) for side in zip(*pairs, strict=True))
        identity = (pairs[0][0].metric, runs, others, SIGNATURE)
        if identity not in self._known and compute:
            try:
                found = _compared(pairs, self._read)
            except DamagedFileError as error:
                _log.warning("%s", error)
                return None
            if found is not None:
                self._known[identity], self._changed = found, True
        return self._known.get(identity)

    def save(self) -> None:
        """Keep what was computed."""
        if self._changed:
            write_comparisons(*self._place, self._known.values())


def compare_rows(
    experiment: Experiment,
    records: Sequence[Measurement],
    scale: str,
    comparer: Comparer,
    compute: bool = True,
) -> dict[CellKey, Comparison]:
    """Compare every cell with that of the baseline in the same column.

    Runs of the same seeds and the same corpus are compared. Cells whose runs kept no statistics,
    or whose metric has none, are left out.

    Args:
        experiment: names the baseline; without one there is nothing to compare.
        records: of the experiment at this scale, in any order.
        scale: of the records.
        comparer: of the same scale.
        compute: run tests that are not known.

    Returns:
        By row, column and metric.

    Raises:
        ResultsError: the groups of stored statistics differ between runs.
    """
    found = {}
    for row, column, pairs in _cells(experiment, records, scale):
        comparison = comparer.compare(pairs, compute)
        if comparison is not None:
            found[row, column.name, column.metric] = comparison
    return found


def _cells(
    experiment: Experiment, records: Sequence[Measurement], scale: str
) -> Iterator[tuple[str, Column, Pairs]]:
    """Row, column and records of every cell that has a counterpart in the baseline."""
    baseline = experiment.baseline
    if baseline is None:
        return
    by_cell = index_records(chosen_records(experiment, records, scale))
    for column in experiment.columns:
        seeds = experiment.seeds_at(scale, column.name)
        gold = by_cell.get((baseline, column.name, column.metric), [])
        for row in experiment.row_labels():
            ours = by_cell.get((row, column.name, column.metric), [])
            pairs = _paired(ours, gold, column, seeds)
            if row != baseline and pairs:
                yield row, column, pairs


def _paired(
    ours: Sequence[Measurement], gold: Sequence[Measurement], column: Column, seeds: Sequence[int]
) -> Pairs:
    """Records of the same seed; none if they do not read the same corpus."""
    ensemble = column.aggregate == "ensemble"
    kind, wanted = ("ensemble", [None]) if ensemble else ("run", seeds)
    left, right = ({r.seed: r for r in part if r.kind == kind} for part in (ours, gold))
    pairs = [(left[seed], right[seed]) for seed in wanted if seed in left and seed in right]
    corpora = {record.fingerprint for pair in pairs for record in pair}
    ratio = column.relative_to is not None
    return [] if ratio or len(corpora) != 1 else pairs


def _compared(pairs: Pairs, read: ReadStatistics) -> Comparison | None:
    """Both tests of one cell; None where statistics are lacking."""
    metric = pairs[0][0].metric
    form = form_of(metric)
    kept = all(metric in read(record.run_id) for pair in pairs for record in pair)
    if form is None or not kept:
        return None
    groups = _groups(pairs[0][0], read)
    first, second = (
        [_rows(record, groups, read) for record in records] for records in zip(*pairs, strict=True)
    )
    bootstrap = paired_bootstrap(first, second, form, groups=groups)
    randomisation = approximate_randomisation(first, second, form, groups=groups)
    return Comparison(
        metric=metric,
        runs=" ".join(one.run_id for one, _ in pairs),
        baseline_runs=" ".join(other.run_id for _, other in pairs),
        signature=f"{bootstrap.signature} {randomisation.signature}",
        examples=len(first[0]),
        difference=bootstrap.difference,
        p_bootstrap=bootstrap.p_value,
        p_randomisation=randomisation.p_value,
    )


def _groups(record: Measurement, read: ReadStatistics) -> list[int] | None:
    groups = read(record.run_id).get(record.metric + GROUPS)
    return None if groups is None else [int(group) for group in groups]


def _rows(
    record: Measurement, groups: list[int] | None, read: ReadStatistics
) -> NDArray[np.number]:
    rows = read(record.run_id)[record.metric]
    if _groups(record, read) != groups:
        raise ResultsError(
            f"run {record.run_id}: other groups in the statistics of {record.metric}"
        )
    return rows


def significance_grid(table: Table) -> Grid | None:
    """Difference and p-values of every cell that was compared; None without any."""
    if not table.comparisons:
        return None
    rows = [
        (row.label, column.name, *comparison_texts(cell.comparison))
        for row in table.rows
        for column, cell in zip(table.experiment.columns, row.cells, strict=True)
        if cell.comparison is not None
    ]
    columns = [GridColumn("row", "label"), GridColumn("column", "label")]
    columns += [GridColumn(title, "measured") for title in _TITLES]
    title = f"differences from {table.experiment.baseline}, paired tests"
    return Grid(title, tuple(columns), block_rows(rows))


def significance_note(table: Table) -> str:
    """Explain the sign and the tests behind it; blank if nothing was compared."""
    if not table.comparisons:
        return ""
    different = any(cell.significant for row in table.rows for cell in row.cells)
    return (
        f"{f'{SIGN} differs' if different else 'No value differs'} from "
        f"{table.experiment.baseline}: p < {LEVEL} in a paired bootstrap and in approximate "
        "randomisation over the test examples. The tests take the trained runs as given; p-values "
        "are not corrected for multiple comparisons."
    )


def comparison_texts(one: Comparison) -> tuple[str, ...]:
    """Examples, runs, difference and both p-values."""
    digits = metric_of(one.metric).digits
    difference = f"{one.difference:+.{digits}f}".replace("-", "−")
    p_values = (number_text(p, _P_DIGITS) for p in (one.p_bootstrap, one.p_randomisation))
    return (str(one.examples), str(len(one.runs.split())), difference, *p_values)
