"""Speeds of updates timed in turn: their file, and the claims that rest on it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from repro.config.experiment import load_experiment
from repro.report.claims import Verdict, judge_claims
from repro.report.document import build_section
from repro.report.table import Table, build_table
from repro.results import Archive, Measurement, ResultsError
from repro.results.layout import speeds_path
from repro.results.timed import TimedUpdates, read_speeds, write_speeds


def test_columns_are_replaced_one_by_one(tmp_path):
    path = tmp_path / "table1.json"
    assert read_speeds(path).columns == {}
    write_speeds(path, "then", "x", {"a": [1.0], "b": [2.0]})
    write_speeds(path, "then", "y", {"a": [3.0], "b": [4.0]})
    write_speeds(path, "now", "x", {"a": [5.0, 6.0], "b": [7.0, 8.0]})
    found = read_speeds(path)
    assert found.columns == {"x": {"a": [5, 6], "b": [7, 8]}, "y": {"a": [3], "b": [4]}}
    assert found.machine == {"x": "now", "y": "then"}


def test_rows_have_the_same_repetitions(tmp_path):
    path = tmp_path / "table1.json"
    path.write_text(json.dumps({"columns": {"x": {"a": [1.0], "b": [1.0, 2.0]}}}), "utf-8")
    with pytest.raises(ResultsError, match=r"table1\.json"):
        read_speeds(path)


def verdict(root: Path, claim: str) -> Verdict:
    (found,) = (one for one in judge_claims(Archive(root, "small")) if one.claim.name == claim)
    return found.verdict


def test_claims_on_speeds_need_updates_timed_in_turn(tmp_path):
    place = (tmp_path, "entailment-same-speed")
    assert verdict(*place) is Verdict.NOT_MEASURED
    rows = {
        "softmax": [100.0, 101.0, 100.5],
        "sparsemax": [99.9, 100.8, 100.2],
        "fusedmax": [99.5, 100.3, 99.9],
        "oscarmax (as published)": [99.0, 100.1, 99.6],
    }
    path = speeds_path(tmp_path, "small", "niculae2017/table3")
    write_speeds(path, "now", "pairs/s", rows)
    assert verdict(*place) is Verdict.HOLDS
    write_speeds(path, "now", "pairs/s", {**rows, "sparsemax": [80.0, 81.0, 80.5]})
    assert verdict(*place) is Verdict.FAILS


def test_claims_on_gains_of_speed_need_epochs_timed_in_turn(tmp_path):
    place = (tmp_path, "structured-alignment-speeds-up")
    path = speeds_path(tmp_path, "small", "niculae2018/section5_2")
    rows = {"sequential": [1.2, 1.3, 1.25], "matching": [1.1, 1.12, 1.08]}
    write_speeds(path, "now", "SNLI pairs/s", rows)
    assert verdict(*place) is Verdict.NOT_MEASURED
    for corpus in ("SNLI", "MultiNLI"):
        write_speeds(path, "now", f"{corpus} last ÷ second epoch", rows)
    assert verdict(*place) is Verdict.HOLDS
    write_speeds(path, "now", "SNLI last ÷ second epoch", {**rows, "matching": [0.6, 0.61, 0.62]})
    assert verdict(*place) is Verdict.FAILS


class OneRun(Archive):
    """An archive in which sparsemax has one run, of 6,000 symbols an epoch, in every column."""

    def measurements(self, experiment):
        metrics = {"train/epoch_minutes": 2.0, "train/tokens_per_second": 50.0, "test/bleu": 30.0}
        return [
            replace(
                Measurement.alone(("sparsemax", column.name, metric), value, "small", 1), run_id="r"
            )
            for column in experiment.columns
            for metric, value in metrics.items()
        ]


def table(root: Path, artefact: str) -> Table:
    experiment = load_experiment(f"niculae2017/{artefact}")
    return build_table(experiment, TimedUpdates(OneRun(root, "small")).shown(experiment), "small")


def test_tables_show_the_speeds_by_which_claims_are_judged(tmp_path):
    def cells(table):
        rows = {row.label: row.cells for row in table.rows}
        return {
            (label, column.name): cell.values
            for label in ("softmax", "sparsemax", "oscarmax")
            for column, cell in zip(table.experiment.columns, rows[label], strict=True)
        }

    whole = table(tmp_path, "table5")
    assert cells(whole)["sparsemax", "target words/s"] == (50.0,)
    assert whole.whole_runs
    assert not whole.timed_on
    path = speeds_path(tmp_path, "small", "niculae2017/table5")
    rows = {"softmax": [200.0, 100.0], "sparsemax": [100.0, 75.0]}
    write_speeds(path, "a machine", "target words/s", rows)
    timed = table(tmp_path, "table5")
    assert cells(timed) == {
        ("softmax", "target words/s"): (200, 100),
        ("softmax", "÷ softmax"): (1, 1),
        ("softmax", "minutes per epoch"): (0.5, 1),
        ("sparsemax", "target words/s"): (100, 75),
        ("sparsemax", "÷ softmax"): (0.5, 0.75),
        ("sparsemax", "minutes per epoch"): (1, pytest.approx(4 / 3)),
        ("oscarmax", "target words/s"): (),
        ("oscarmax", "÷ softmax"): (),
        ("oscarmax", "minutes per epoch"): (),
    }
    assert timed.timed_on == ("a machine",)
    assert not timed.whole_runs
    assert {cell.wanted for row in timed.rows for cell in row.cells} == {2}
    facts = dict(build_section(timed, []).facts)
    assert facts["timed"] == "a machine"
    assert "seed" not in facts["cells"]
    assert "repetitions" in facts["cells"]
    # Another artefact plans the same runs; what is no speed comes from them.
    both = table(tmp_path, "section4_2")
    assert all(word in dict(build_section(both, []).facts)["cells"] for word in ("seed", "repeti"))
    shared = cells(both)
    assert shared["sparsemax", "target words/s ÷ softmax"] == (0.5, 0.75)
    assert shared["sparsemax", "time of an epoch ÷ softmax"] == (2, pytest.approx(4 / 3))
    assert shared["sparsemax", "BLEU"] == (30.0,)
