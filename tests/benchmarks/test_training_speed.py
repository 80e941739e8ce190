"""Speeds of training as a record of an artefact."""

from pathlib import Path

import pytest

from benchmarks.training import main
from repro.results.layout import speeds_path
from repro.results.speeds import read_speeds


def test_repetitions_of_updates_in_turn_are_recorded(tmp_path: Path) -> None:
    settings = ["task=snli", "scale=demo", f"results_dir={tmp_path}", f"data_dir={tmp_path}"]
    rows = ["--row", "softmax: mapping=softmax", "--row", "sparsemax: mapping=sparsemax"]
    options = ["--before", "1", "--updates", "2", "--repetitions", "2", "--column", "pairs/s"]
    assert main([*settings, *rows, *options, "--record", "niculae2017/table3"]) == 0
    found = read_speeds(speeds_path(tmp_path, "demo", "niculae2017/table3"))
    assert {row: len(values) for row, values in found.columns["pairs/s"].items()} == {
        "softmax": 2,
        "sparsemax": 2,
    }


@pytest.mark.parametrize(("column", "row"), [("pairs", "softmax"), ("pairs/s", "hardmax")])
def test_unknown_cells_are_refused_before_any_work(
    column: str, row: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["--row", f"{row}: mapping=softmax", "--column", column]
    assert main(["task=snli", *rows, "--record", "niculae2017/table3"]) == 2
    assert "niculae2017/table3" in capsys.readouterr().err
