"""Speeds of training as a record of an artefact."""

import sys
from collections.abc import Callable, Sized
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks import training
from benchmarks.training import main
from repro.config.compose import compose_run
from repro.config.schema import TrainingConfig
from repro.errors import UserError
from repro.results.layout import speeds_path
from repro.results.timed import read_speeds
from repro.training.loop import Fit


def test_repetitions_of_updates_in_turn_are_recorded(tmp_path):
    settings = ["task=snli", "scale=demo", f"results_dir={tmp_path}", f"data_dir={tmp_path}"]
    rows = ["--row", "softmax: mapping=softmax", "--row", "sparsemax: mapping=sparsemax"]
    options = ["--before", "1", "--updates", "2", "--repetitions", "2", "--column", "pairs/s"]
    assert main([*settings, *rows, *options, "--record", "niculae2017/table3"]) == 0
    found = read_speeds(speeds_path(tmp_path, "demo", "niculae2017/table3"))
    assert {row: len(values) for row, values in found.columns["pairs/s"].items()} == {
        "softmax": 2,
        "sparsemax": 2,
    }


def test_gain_is_the_speed_in_the_last_epoch_beside_that_in_the_second(tmp_path, monkeypatch):
    seconds, epochs = iter([3.0, 1.5] * 2), list[int]()

    def build_fit(task: Any, config: TrainingConfig, *others: Any) -> Fit[Any]:
        assert config.max_epochs is not None
        epochs.append(config.max_epochs)
        return Fit(task, replace(config, max_epochs=1, max_steps=1), *others)

    def clock(work: Callable[[], object]) -> float:
        work()
        return next(seconds)

    monkeypatch.setattr(training, "Fit", build_fit)
    monkeypatch.setattr(training, "processor_seconds", clock)
    settings = ["task=nli_alignment", f"results_dir={tmp_path}", f"data_dir={tmp_path}"]
    settings += ["training.max_epochs=5", "--speed-gain", "--processor-time", "--before", "0"]
    cells = ["--record", "niculae2018/section5_2", "--column", "SNLI last ÷ second epoch"]
    row = ["--row", "matching: model.alignment=matching", "--updates", "1", "--repetitions", "2"]
    assert main([*settings, *cells, *row]) == 0
    assert epochs == [1, 4]
    found = read_speeds(speeds_path(tmp_path, "demo", "niculae2018/section5_2"))
    assert found.columns["SNLI last ÷ second epoch"] == {"matching": pytest.approx([2.0, 2.0])}


def test_there_is_no_gain_before_the_third_epoch(tmp_path, capsys):
    settings = ["task=snli", f"results_dir={tmp_path}", "training.max_epochs=2"]
    assert main([*settings, "--row", "mapping=softmax", "--speed-gain"]) == 2
    assert "training.max_epochs" in capsys.readouterr().err


def test_the_peer_has_no_gain(capsys):
    with pytest.raises(SystemExit):
        main(["task=nmt", "--row", "a: joeynmt", "--speed-gain"])
    assert "joeynmt" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(("column", "row"), [("pairs", "softmax"), ("pairs/s", "hardmax")])
def test_unknown_cells_are_refused_before_any_work(column, row, capsys):
    rows = ["--row", f"{row}: mapping=softmax", "--column", column]
    assert main(["task=snli", *rows, "--record", "niculae2017/table3"]) == 2
    assert "niculae2017/table3" in capsys.readouterr().err


def test_a_process_waits_for_the_others_and_reports_its_speed(tmp_path):
    waited, rates = list[int](), list[float]()
    barrier = SimpleNamespace(wait=lambda: waited.append(len(rates)))
    settings = ["task=morphology", "hardware=cpu", f"results_dir={tmp_path}"]
    training.train(settings, 1, 2, barrier, rates.append)
    assert waited == [0]
    assert rates[0] > 0


def test_a_process_that_fails_does_not_let_the_others_wait(tmp_path):
    aborted, settings = list[int](), ["task=morphology", "data.corpus=none", "hardware=cpu"]
    barrier = SimpleNamespace(abort=lambda: aborted.append(1))
    with pytest.raises(UserError):
        training.train([*settings, f"results_dir={tmp_path}"], 1, 2, barrier, print)
    assert aborted == [1]


def test_updates_that_capture_a_graph_count_for_no_speed(tmp_path):
    config = compose_run(["task=snli", "hardware=cpu", f"results_dir={tmp_path}"])
    runner, captured = training.Runner("", config), iter([0, 0, 0, 1, 1, 1])  # the second captures
    seconds = iter([1.0, 100.0, 3.0])

    class Take:
        captured = property(lambda _: next(captured))

        def __call__(self, batch: Any) -> tuple[Tensor, Tensor]:
            return torch.tensor(0.0), torch.tensor(4)

    runner.take = Take()
    for _ in range(3):
        runner.update(None, lambda work: (work(), next(seconds))[1])
    assert runner.rates(1) == [2.0]
    assert runner.speed()["updates_per_second"] == 0.5


@pytest.mark.parametrize(("model", "rows"), [("seq2seq", 3), ("pairs", 2)])
def test_a_card_compares_graphs_with_single_operators_and_joeynmt(model, rows, monkeypatch):
    built = list[str]()

    def compose(overrides: list[str]) -> Any:
        built.append(overrides[-1])
        return SimpleNamespace(model=SimpleNamespace(name=model))

    def refuse(*_: Any, **__: Any) -> None:
        raise UserError("no card here")

    monkeypatch.setattr(training, "compose_run", compose)
    monkeypatch.setattr(training, "find_spec", lambda name: name)
    monkeypatch.setattr(training, "Runner", refuse)
    assert training.main(["task=morphology", "--device", "cuda"]) == 2
    eager, graphs = training.EAGER_AND_GRAPH
    assert built[-rows:] == [*[eager] * (rows - 1), graphs]  # the peer's graphs are off


def test_joeynmt_is_trained_at_the_sizes_of_its_row(tmp_path, monkeypatch, capsys):
    """By a stand-in for its program, which predicts the same for each symbol."""
    built = list[tuple[dict[str, Any], int, int]]()

    class Model(nn.Module):
        def __init__(self, words: int) -> None:
            super().__init__()
            self.scores = nn.Parameter(torch.zeros(words))

        def forward(self, *, trg: Tensor, src_length: Tensor, **_: Any) -> tuple[Tensor, ...]:
            assert (src_length.diff() <= 0).all()
            flat = trg.flatten()
            scores = self.scores.expand(len(flat), -1)
            return (cross_entropy(scores, flat, ignore_index=0, reduction="sum"),)

    def build_model(settings: dict[str, Any], source: Sized, target: Sized) -> Model:
        built.append((settings, len(source), len(target)))
        return Model(len(target))

    package, module = ModuleType("joeynmt"), ModuleType("joeynmt.model")
    module.build_model = build_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "joeynmt", package)
    monkeypatch.setitem(sys.modules, "joeynmt.model", module)
    settings = ["task=nmt", "mapping=softmax", f"results_dir={tmp_path}", "model.layers=2"]
    rows = ["--row", "model.hidden_size=24", "--row", "joeynmt model.hidden_size=48"]
    assert main([*settings, *rows, "--before", "1", "--updates", "1", "--repetitions", "1"]) == 0
    ((sizes, source, target),) = built
    assert [sizes[part]["num_layers"] for part in ("encoder", "decoder")] == [2, 2]
    assert sizes["encoder"]["hidden_size"] * 2 == sizes["decoder"]["hidden_size"] == 48
    assert min(source, target) > 50
    assert capsys.readouterr().out.count("`joeynmt model.hidden_size=48`") == 1


def test_joeynmt_is_refused_beside_other_models(tmp_path, capsys):
    assert main(["task=snli", f"results_dir={tmp_path}", "--row", "joeynmt"]) == 2
    assert "joeynmt" in capsys.readouterr().err
