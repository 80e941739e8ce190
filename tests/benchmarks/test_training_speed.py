"""Speeds of training as a record of an artefact."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import training
from benchmarks.training import main
from repro.errors import UserError
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


def test_a_process_waits_for_the_others_and_reports_its_speed(tmp_path: Path) -> None:
    waited, rates = list[int](), list[float]()
    barrier = SimpleNamespace(wait=lambda: waited.append(len(rates)))
    settings = ["task=morphology", "hardware=cpu", f"results_dir={tmp_path}"]
    training.train(settings, 1, 2, barrier, rates.append)
    assert waited == [0]
    assert rates[0] > 0


def test_a_card_compares_graphs_with_single_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    built = list[list[str]]()

    def refuse(overrides: list[str]) -> None:
        built.append(overrides)
        raise UserError("no card here")

    monkeypatch.setattr(training, "compose_run", refuse)
    assert training.main(["task=morphology", "--device", "cuda"]) == 2
    assert built == [["task=morphology", "hardware=cuda", training.EAGER_AND_GRAPH[0]]]
