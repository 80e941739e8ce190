"""Comparison of a table's rows with its baseline, from the statistics that their runs stored."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.checksums import DamagedFileError
from repro.config.experiment import Column, Experiment
from repro.evaluation.metrics import form_of
from repro.evaluation.significance import (
    approximate_randomisation,
    bootstrap_signature,
    paired_bootstrap,
    randomisation_signature,
)
from repro.evaluation.sufficient_statistics import GROUPS
from repro.report.chosen import chosen_records
from repro.report.table import index_records
from repro.results import Comparison, Record, ResultsError, read_comparisons, run_folder

_log = logging.getLogger(__name__)
SIGNATURE = f"{bootstrap_signature()} {randomisation_signature()}"

Arrays = dict[str, NDArray[np.number]]
ReadStatistics = Callable[[str], Arrays]
"""From the identity of a run to its statistics; nothing if it kept none."""
Pairs = list[tuple[Record, Record]]
"""Records of a row and of the baseline, seed by seed."""


def compare_rows(
    experiment: Experiment, records: Sequence[Record], results_dir: Path, scale: str
) -> list[Comparison]:
    """Compare every cell with that of the baseline in the same column.

    Runs of the same seeds and the same corpus are compared. Cells whose runs kept no statistics,
    or whose metric has none, are left out. What was computed before is not computed again.

    Args:
        experiment: names the baseline; without one there is nothing to compare.
        records: of the experiment at this scale, in any order.
        results_dir: where the folders of the runs lie.
        scale: of the records.

    Raises:
        ResultsError: stored statistics are damaged, or their groups differ between runs.
    """
    known = _known_comparisons(results_dir, scale, experiment.name)

    @cache
    def read(run_id: str) -> Arrays:
        return run_folder(results_dir, scale, run_id).read_statistics()

    found = []
    for row, column, pairs in _cells(experiment, records, scale):
        before = known.get((column.metric, *_run_ids(pairs), SIGNATURE))
        comparison = before or _compared(pairs, read)
        if comparison is not None:
            baseline = pairs[0][1].row
            found.append(replace(comparison, row=row, column=column.name, baseline=baseline))
    return found


def _known_comparisons(
    results_dir: Path, scale: str, experiment_name: str
) -> dict[tuple[str, ...], Comparison]:
    """Comparisons computed before, by identity; none, with a warning, if their file is damaged."""
    try:
        known = read_comparisons(results_dir, scale, experiment_name)
    except DamagedFileError as error:
        _log.warning("%s; the comparisons are computed anew", error)
        return {}
    return {one.identity: one for one in known}


def _cells(
    experiment: Experiment, records: Sequence[Record], scale: str
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
    ours: Sequence[Record], gold: Sequence[Record], column: Column, seeds: Sequence[int]
) -> Pairs:
    """Records of the same seed; none if they do not read the same corpus."""
    ensemble = column.over == "ensemble"
    kind, wanted = ("ensemble", [None]) if ensemble else ("run", seeds)
    left, right = ({r.seed: r for r in part if r.kind == kind} for part in (ours, gold))
    pairs = [(left[seed], right[seed]) for seed in wanted if seed in left and seed in right]
    corpora = {record.fingerprint for pair in pairs for record in pair}
    ratio = column.relative_to is not None
    return [] if ratio or len(corpora) != 1 else pairs


def _run_ids(pairs: Pairs) -> tuple[str, str]:
    return " ".join(one.run_id for one, _ in pairs), " ".join(other.run_id for _, other in pairs)


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
    one, other = pairs[0]
    runs, baseline_runs = _run_ids(pairs)
    return Comparison(
        row=one.row,
        column=one.column,
        metric=metric,
        baseline=other.row,
        runs=runs,
        baseline_runs=baseline_runs,
        examples=len(first[0]),
        difference=bootstrap.difference,
        p_bootstrap=bootstrap.p_value,
        p_randomisation=randomisation.p_value,
        signature=f"{bootstrap.signature} {randomisation.signature}",
    )


def _groups(record: Record, read: ReadStatistics) -> list[int] | None:
    groups = read(record.run_id).get(record.metric + GROUPS)
    return None if groups is None else [int(group) for group in groups]


def _rows(record: Record, groups: list[int] | None, read: ReadStatistics) -> NDArray[np.number]:
    rows = read(record.run_id)[record.metric]
    if _groups(record, read) != groups:
        raise ResultsError(
            f"run {record.run_id}: other groups in the statistics of {record.metric}"
        )
    return rows
