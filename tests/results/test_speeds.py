"""Speeds of updates timed in turn: their file, and the claims that rest on it."""

import json
from pathlib import Path

import pytest

from repro.report.claims import Verdict, judge_claims
from repro.results import Archive, ResultsError
from repro.results.layout import speeds_path
from repro.results.speeds import read_speeds, write_speeds


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
    path.parent.mkdir(parents=True)
    write_speeds(path, "now", "pairs/s", rows)
    assert verdict(*place) is Verdict.HOLDS
    write_speeds(path, "now", "pairs/s", {**rows, "sparsemax": [80.0, 81.0, 80.5]})
    assert verdict(*place) is Verdict.FAILS


def test_claims_on_gains_of_speed_need_epochs_timed_in_turn(tmp_path):
    place = (tmp_path, "structured-alignment-speeds-up")
    path = speeds_path(tmp_path, "small", "niculae2018/section5_2")
    path.parent.mkdir(parents=True)
    rows = {"sequential": [1.2, 1.3, 1.25], "matching": [1.1, 1.12, 1.08]}
    write_speeds(path, "now", "SNLI pairs/s", rows)
    assert verdict(*place) is Verdict.NOT_MEASURED
    for corpus in ("SNLI", "MultiNLI"):
        write_speeds(path, "now", f"{corpus} last ÷ second epoch", rows)
    assert verdict(*place) is Verdict.HOLDS
    write_speeds(path, "now", "SNLI last ÷ second epoch", {**rows, "matching": [0.6, 0.61, 0.62]})
    assert verdict(*place) is Verdict.FAILS
