"""Paired tests of a table's cells against its baseline, and the texts that report them."""

import logging
from collections.abc import Sequence
from functools import cache, partial
from math import isclose
from pathlib import Path
from statistics import fmean

from repro.checksums import DamagedFileError
from repro.config.experiment import Experiment
from repro.evaluation.metrics import formula_of, metric_of
from repro.evaluation.significance import approximate_randomisation, signature
from repro.evaluation.sufficient_statistics import GROUPS
from repro.report.cell import LEVEL, SIGN, UNTESTED, number_text, signed_text
from repro.report.grid import Grid, plain_grid
from repro.report.table import CellKey, MeasuredCells, Table
from repro.results import (
    Comparison,
    Measurement,
    ResultsError,
    read_comparisons,
    read_statistics,
    write_comparisons,
)
from repro.results.cells import may_stand_together

_log = logging.getLogger(__name__)
TEST_TITLES = ("examples", "runs", "difference", "p")
_P_DIGITS = 4

Pairs = list[tuple[Measurement, Measurement]]
"""Measurements of a row and of the baseline, paired by seed."""


class Comparer:
    """Paired tests between runs of one scale, with a cache on disk."""

    def __init__(self, results_dir: Path, scale: str) -> None:
        self._place = results_dir, scale
        self._known = read_comparisons(results_dir, scale)
        self._changed = False
        self._read = cache(partial(read_statistics, results_dir, scale))

    def compare(self, pairs: Pairs, compute: bool = True) -> Comparison | None:
        """Look up or compute the test of one metric of runs against the baseline.

        A known test counts only if its difference is that of the values: runs that were repeated
        elsewhere keep their names, but not all of their digits.

        Returns None if the values may not stand together, if the metric has no test, if the
        statistics of a run are missing, damaged or not those of its value, if the runs have
        different numbers of examples, or if the test is not known and ``compute`` is false.

        Raises:
            ResultsError: the groups of stored statistics differ between runs.
        """
        if not may_stand_together(one for pair in pairs for one in pair):
            return None
        metric, sides = pairs[0][0].metric, [*zip(*pairs, strict=True)]
        runs, others = (" ".join(one.run_id for one in side) for side in sides)
        identity = (metric, runs, others, signature())
        difference = fmean(one.value - other.value for one, other in pairs)
        # Both are computed from the same sums, by the same formula: only rounding differs.
        same = partial(isclose, difference, rel_tol=1e-6, abs_tol=1e-6)
        known = self._known.get(identity)
        if known is not None and same(known.difference):
            return known
        if not compute or (form := formula_of(metric)) is None:
            return None
        try:
            kept = [[self._read(record.run_id) for record in side] for side in sides]
        except (DamagedFileError, ResultsError) as error:
            _log.warning("%s", error)
            return None
        if any(metric not in arrays for side in kept for arrays in side):
            return None
        first, second = ([arrays[metric] for arrays in side] for side in kept)
        if len({rows.shape for rows in (*first, *second)}) > 1:  # a setting cuts the test set
            return None
        found = [arrays.get(metric + GROUPS) for side in kept for arrays in side]
        grouped = [None if one is None else [int(group) for group in one] for one in found]
        groups = grouped[0]
        for run, other in zip(f"{runs} {others}".split(), grouped, strict=True):
            if other != groups:
                raise ResultsError(
                    f"run {run}: the groups in its statistics of {metric} differ from those of the "
                    "first run"
                )
        test = approximate_randomisation(first, second, form, groups=groups)
        if not same(test.difference):
            _log.warning(
                "%s of %s against %s: the statistics give a difference of %g, the records of %g; "
                "not tested",
                metric, runs, others, test.difference, difference,
            )  # fmt: skip
            return None
        self._changed = True
        self._known[identity] = Comparison(
            metric=metric,
            runs=runs,
            baseline_runs=others,
            signature=test.signature,
            examples=len(first[0]),
            difference=test.difference,
            p_value=test.p_value,
        )
        return self._known[identity]

    def save(self) -> None:
        """Write the file of comparisons if a test was computed."""
        if self._changed:
            write_comparisons(*self._place, self._known.values())


def compare_rows(
    experiment: Experiment,
    records: Sequence[Measurement],
    scale: str,
    comparer: Comparer,
    compute: bool = True,
) -> dict[CellKey, Comparison]:
    """Compare every cell with the baseline's cell in the same column.

    Only runs of equal seeds are paired, and only if all are of one corpus, numeric epoch and
    signature of the metric. Cells without statistics are left out, and without ``compute`` those
    whose tests are not known.

    Returns:
        Comparisons by row, column and metric; empty if the experiment names no baseline.

    Raises:
        ResultsError: the groups of stored statistics differ between runs.
    """
    baseline, found = experiment.baseline, dict[CellKey, Comparison]()
    if baseline is None:
        return {}
    cells = MeasuredCells(experiment, scale, records)
    for column in experiment.columns:
        if column.relative_to is not None:
            continue
        for row in experiment.row_labels():
            sides = (cells.shown(label, column) for label in (row, baseline))
            left, right = ({one.seed: one for one in side} for side in sides)
            pairs = [(one, right[seed]) for seed, one in left.items() if seed in right]
            if row != baseline and pairs:
                comparison = comparer.compare(pairs, compute)
                if comparison is not None:
                    found[row, column.name, column.metric] = comparison
    return found


def significance_grid(table: Table) -> Grid | None:
    """Lay out difference and p-value of every cell that was compared; None without any."""
    if not table.comparisons:
        return None
    rows = [
        (row.label, column.name, *comparison_texts(cell.comparison))
        for row in table.rows
        for column, cell in zip(table.experiment.columns, row.cells, strict=True)
        if cell.comparison is not None
    ]
    title = f"differences from {table.experiment.baseline}, paired tests"
    return plain_grid(title, ("row", "column"), TEST_TITLES, rows)


def significance_note(table: Table) -> str:
    """Explain the sign of significance and its tests, or why there is none.

    Blank for a table without a baseline, or without values that can be compared with the baseline.
    """
    baseline, untested = table.experiment.baseline, list[str]()
    for row in table.rows:
        cells = [*zip(table.experiment.columns, row.cells, strict=True)]
        if lacking := [column.name for column, cell in cells if cell.untested]:
            tested = any(cell.comparison for _, cell in cells)
            untested.append(f"{row.label} ({', '.join(lacking)})" if tested else row.label)
    if not table.comparisons:
        return (
            f"No marks of significance: paired tests against {baseline} need statistics of runs of "
            "equal seeds on one corpus, which are missing here."
            if untested
            else ""
        )
    different = any(cell.significant for row in table.rows for cell in row.cells)
    names = "; ".join(untested)
    rest = (
        f" {UNTESTED} not tested, without statistics of runs on one corpus: {names}."
        if untested
        else ""
    )
    return (
        f"{f'{SIGN} differs' if different else 'No tested value differs'} from "
        f"{baseline}: p < {LEVEL} in approximate randomisation over the test examples. The test "
        "takes the trained runs as given; p-values are not corrected for multiple comparisons."
        f"{rest}"
    )


def comparison_texts(one: Comparison) -> tuple[str, ...]:
    """Format numbers of examples and runs, the difference and the p-value."""
    digits = metric_of(one.metric).digits
    difference = signed_text(one.difference, digits)
    p_value = number_text(one.p_value, _P_DIGITS)
    return str(one.examples), str(len(one.runs.split())), difference, p_value
