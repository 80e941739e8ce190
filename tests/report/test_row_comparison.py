"""Rows of a table against its baseline, from made-up runs with known statistics."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import measured
import numpy as np
import pytest
from measured import MEASUREMENT, made_up_table

from repro.config.experiment import Axis, Column, Experiment
from repro.evaluation.significance import approximate_randomisation, signature
from repro.evaluation.sufficient_statistics import GROUPS, percentage_of_sums, ratios
from repro.report.significance import Comparer, compare_rows
from repro.results import Comparison, Measurement, ResultsError, publish, run_folder
from repro.results.layout import statistics_path

EXPERIMENT = made_up_table(
    rows=[Axis("mapping", {"softmax": [], "sparsemax": [], "unseen": []})],
    columns=[Column("accuracy", "test/label_accuracy"), Column("speed", "train/pairs_per_second")],
    seeds=[1, 2],
    baseline="softmax",
)
OUTCOMES = {
    ("softmax", 1): [1, 0, 0, 1, 0, 0, 0, 1, 0, 0],
    ("softmax", 2): [1, 0, 1, 1, 0, 0, 0, 0, 0, 0],
    ("sparsemax", 1): [1, 1, 0, 1, 1, 1, 1, 1, 0, 1],
    ("sparsemax", 2): [1, 1, 1, 1, 0, 1, 1, 1, 0, 1],
}
RECORD = replace(MEASUREMENT, column="accuracy", scale="demo", metric="test/label_accuracy")


def compared(
    experiment: Experiment, records: Sequence[Measurement], root: Path
) -> list[Comparison]:
    return list(compare_rows(experiment, records, "demo", Comparer(root, "demo")).values())


@pytest.fixture
def runs(tmp_path: Path) -> list[Measurement]:
    """Records of two rows with two seeds each; their folders hold the statistics."""
    records = []
    for (row, seed), outcomes in OUTCOMES.items():
        name, value = f"{row}-{seed}", 100 * float(np.mean(outcomes))
        one = replace(RECORD, run_id=name, row=row, seed=seed, value=value)
        store(tmp_path, name, outcomes)
        speed = replace(one, column="speed", metric="train/pairs_per_second", value=9.0)
        records += [one, speed]
    return records


def store(results: Path, name: str, outcomes: Sequence[float], **more: np.ndarray) -> None:
    rows = {"test/label_accuracy": ratios(outcomes)}
    folder = run_folder(results, "demo", name)
    folder.write_statistics(rows | {f"test/label_accuracy{k}": v for k, v in more.items()})
    publish(results, replace(measured.RECORD, run_id=name, scale="demo"))


def expected(row: str) -> list[np.ndarray]:
    return [ratios(OUTCOMES[row, seed]) for seed in (1, 2)]


def test_cells_with_statistics_are_compared_over_their_seeds(runs, tmp_path):
    (found,) = compared(EXPERIMENT, list(reversed(runs)), tmp_path)
    systems = expected("sparsemax"), expected("softmax"), percentage_of_sums
    assert (found.runs, found.baseline_runs) == ("sparsemax-1 sparsemax-2", "softmax-1 softmax-2")
    assert (found.examples, found.signature) == (10, signature())
    assert found.difference == pytest.approx(80 - 30)
    assert found.p_value == approximate_randomisation(*systems).p_value < 0.05


def test_statistics_of_other_values_are_not_tested(runs, tmp_path, caplog):
    store(tmp_path, "sparsemax-2", OUTCOMES["softmax", 2])  # of the same run, made elsewhere
    assert compared(EXPERIMENT, runs, tmp_path) == []
    (message,) = caplog.messages
    assert "sparsemax-2" in message


def test_only_seeds_that_both_rows_have_are_compared(runs, tmp_path):
    some = [one for one in runs if (one.row, one.seed) != ("softmax", 1)]
    (found,) = compared(EXPERIMENT, some, tmp_path)
    assert (found.runs, found.baseline_runs) == ("sparsemax-2", "softmax-2")
    none = [one for one in some if (one.row, one.seed) != ("sparsemax", 2)]
    assert compared(EXPERIMENT, none, tmp_path) == []


def test_without_baseline_statistics_or_common_examples_there_is_none(runs, tmp_path):
    assert compared(replace(EXPERIMENT, baseline=None), runs, tmp_path) == []
    others = [replace(one, fingerprint="g") if one.row == "sparsemax" else one for one in runs]
    assert compared(EXPERIMENT, others, tmp_path) == []
    store(tmp_path, "softmax-2", OUTCOMES["softmax", 2][:-1])  # a setting cuts the test set
    assert compared(EXPERIMENT, runs, tmp_path) == []
    statistics_path(tmp_path, "demo", "softmax-2").unlink()
    assert compared(EXPERIMENT, runs, tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "tests"),
    [
        ({"epoch": 1}, 0),
        ({"signature": "acc|made:otherwise"}, 0),
        ({"signature": "acc|made:up|v:9.9"}, 1),
    ],
)
def test_values_of_two_definitions_are_not_tested(changes, tests, runs, tmp_path):
    assert len(compared(EXPERIMENT, runs, tmp_path)) == 1
    others = [replace(one, **changes) if one.row == "softmax" else one for one in runs]
    assert len(compared(EXPERIMENT, others, tmp_path)) == tests
    seeds = [replace(one, **changes) if one.seed == 1 else one for one in runs]
    (found,) = compared(EXPERIMENT, seeds, tmp_path)
    assert len(found.runs.split()) == 1 + tests  # the cells have one definition


def test_statistics_kept_with_records_serve_once_the_folders_are_gone(runs, tmp_path):
    expected = compared(EXPERIMENT, runs, tmp_path)
    names = {one.run_id for one in runs}
    for run_id in names:
        shutil.rmtree(run_folder(tmp_path, "demo", run_id).path)
    assert compared(EXPERIMENT, runs, tmp_path) == expected
    for run_id in names:  # a flipped bit makes no other test
        path = statistics_path(tmp_path, "demo", run_id)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    assert compared(EXPERIMENT, runs, tmp_path) == []


def test_what_was_compared_is_not_compared_again(runs, tmp_path):
    comparer = Comparer(tmp_path, "demo")
    cells = compare_rows(EXPERIMENT, runs, "demo", comparer)
    assert list(cells) == [("sparsemax", "accuracy", "test/label_accuracy")]
    comparer.save()
    for run_id in {one.run_id for one in runs}:
        statistics_path(tmp_path, "demo", run_id).unlink()
    renamed = [replace(one, row=one.row.replace("sparse", "")) for one in runs]
    axis = Axis("mapping", {"softmax": [], "max": []})
    again = compared(replace(EXPERIMENT, rows=[axis]), renamed, tmp_path)
    assert again == list(cells.values())
    assert compared(EXPERIMENT, runs[:-4], tmp_path) == []  # other runs


def test_runs_of_the_same_names_with_other_values_are_compared_anew(runs, tmp_path):
    comparer = Comparer(tmp_path, "demo")
    compare_rows(EXPERIMENT, runs, "demo", comparer)
    comparer.save()
    better = [1.0] * 10
    store(tmp_path, "sparsemax-1", better)
    changed = [
        replace(one, value=100.0)
        if (one.row, one.seed, one.column) == ("sparsemax", 1, "accuracy")
        else one
        for one in runs
    ]
    (found,) = compared(EXPERIMENT, changed, tmp_path)
    assert found.difference == pytest.approx((100 + 80) / 2 - 30)
    assert (
        compare_rows(EXPERIMENT, changed, "demo", Comparer(tmp_path, "demo"), compute=False) == {}
    )


def test_groups_weigh_the_same(tmp_path):
    groups = np.array([0] * 8 + [1] * 2)
    records = []
    for row in ("softmax", "sparsemax"):
        outcomes = OUTCOMES[row, 1]
        value = 50 * (np.mean(outcomes[:8]) + np.mean(outcomes[8:]))
        records.append(replace(RECORD, run_id=row, row=row, value=float(value)))
        store(tmp_path, row, outcomes, **{GROUPS: groups})
    (found,) = compared(EXPERIMENT, records, tmp_path)
    assert found.difference == pytest.approx(records[1].value - records[0].value)
    store(tmp_path, "softmax", OUTCOMES["softmax", 1], **{GROUPS: groups[::-1]})
    with pytest.raises(ResultsError, match="run softmax: the groups"):
        compared(EXPERIMENT, records, tmp_path)
