"""The statistics that a run keeps of each example give the metrics that it records."""

import pytest

from repro.evaluation.metrics import formula_of
from repro.evaluation.sufficient_statistics import GROUPS, metric_value
from repro.results import Record, RunFolder


def assert_sums_give_the_records(folder: RunFolder) -> None:
    """Every recorded metric that is a function of sums has its statistics, and is that function."""
    kept = folder.read_statistics()
    recorded = folder.read_record().metrics
    summed = {metric for metric in recorded if formula_of(metric) is not None}
    assert {name for name in kept if not name.endswith(GROUPS)} == summed != set()
    for metric in summed:
        form = formula_of(metric)
        groups = kept.get(metric + GROUPS)
        value = metric_value(kept[metric], form, None if groups is None else groups.tolist())
        assert value == pytest.approx(recorded[metric], abs=1e-9), metric


def untimed(record: Record) -> dict[str, float]:
    """Return the metrics that no clock measured, which are the same in each repetition of a run."""
    signatures = record.signatures
    return {name: v for name, v in record.metrics.items() if "clock:" not in signatures[name]}
