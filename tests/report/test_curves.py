"""Figures that show all runs of an experiment as curves."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro.config.experiment import Axis, Column, Drawing, Experiment
from repro.report import build_report, document, draw_figure_data
from repro.report.accuracy_over_time import describe_times, draw_times, gather_times, remark_times
from repro.report.alpha_sweep import describe_sweep, draw_sweep, gather_sweep, remark_sweep
from repro.report.canvas import plain_style
from repro.report.curves import ShownRun, curves_of, metric_label
from repro.report.figure import FigureData, read_figure_data
from repro.results import Archive, Measurement, ResultsError, RunFolder, run_folder

Row = dict[str, Any]
METRIC = "dev/token_accuracy"
NOWHERE = RunFolder(Path("nowhere"))


def run(row: str, value: float, seed: int = 1, folder: RunFolder = NOWHERE) -> ShownRun:
    return ShownRun(row, seed, value, folder)


SWEEP = gather_sweep(
    [
        run("output 2", 60.0), run("output 1", 50.0), run("output 1", 54.0, seed=2),
        run("attention 1.5", 70.0), run("output 2", 58.0, seed=2),
    ],
    METRIC,
)  # fmt: skip
TIMES: Row = {
    "metric": METRIC,
    "curves": [
        {"label": "softmax", "seed": 1, "x": [100.0, 300.0], "y": [40.0, 60.0]},
        {"label": "softmax", "seed": 2, "x": [150.0, 1200.0], "y": [41.0, 61.0]},
        {"label": "sparsemax", "seed": 1, "x": [200.0, 400.0], "y": [45.0, 65.0]},
    ],
}


def test_a_sweep_has_one_curve_for_each_name_and_seed_by_rising_alpha() -> None:
    found = {name: curves for name, curves in curves_of(SWEEP)}
    assert [(c.seed, c.x, c.y) for c in found["output"]] == [
        (1, (1.0, 2.0), (50.0, 60.0)), (2, (1.0, 2.0), (54.0, 58.0)),
    ]  # fmt: skip
    assert [(c.x, c.y) for c in found["attention"]] == [((1.5,), (70.0,))]
    with pytest.raises(ResultsError, match="row 'softmax': expected a name and a number"):
        gather_sweep([run("softmax", 1.0)], METRIC)


def test_a_sweep_shows_points_mean_and_spread() -> None:
    with plain_style():
        figure = draw_sweep(SWEEP)
    output, attention = figure.axes
    assert output.get_xlabel() == "α of the output"
    assert output.get_ylabel() == "validation token accuracy (%)"
    assert output.get_ylim() == attention.get_ylim()
    points, mean = output.lines[:2], output.lines[2]
    assert [[*line.get_ydata()] for line in points] == [[50, 60], [54, 58]]
    assert [*mean.get_ydata()] == [52, 59]
    (band,) = output.collections
    found = {tuple(np.round(point, 6)) for point in band.get_paths()[0].vertices}
    for alpha, values in ((1.0, [50, 54]), (2.0, [60, 58])):
        deviation = np.std(values, ddof=1)
        for side in (-1, 1):
            assert (alpha, round(np.mean(values) + side * deviation, 6)) in found
    legend = [text.get_text() for text in output.get_legend().get_texts()]
    assert legend == ["mean of 2 seeds", "± standard deviation"]
    assert not attention.collections
    assert [text.get_text() for text in attention.get_legend().get_texts()] == ["seed 1"]


def test_a_sweep_in_words() -> None:
    assert "α of the output: 1: 52.00; 2: 59.00" in describe_sweep(SWEEP)
    told = remark_sweep(SWEEP)
    assert told.startswith("Largest here: output α = 2 (59.00), attention α = 1.5 (70.00).")
    assert "bands" in told
    one_seed = SWEEP | {"curves": [SWEEP["curves"][-1]]}
    assert "bands" not in remark_sweep(one_seed)


def test_times_come_from_the_history(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    validated = {"epoch": 2, "seconds": 3.0, "dev_token_accuracy": 50.0}
    folder.rewrite_history([{"epoch": 1, "seconds": 1.5}, validated])
    row = gather_times([run("softmax", 50.0, folder=folder)], METRIC)
    assert row["curves"] == [{"label": "softmax", "seed": 1, "x": [3.0], "y": [50.0]}]
    folder.rewrite_history([{"epoch": 1, "dev_token_accuracy": 50.0}])
    with pytest.raises(ResultsError, match=r"history\.jsonl: expected rows with 'dev_token_acc"):
        gather_times([run("softmax", 50.0, folder=folder)], METRIC)


def test_times_have_markers_for_one_seed_and_a_unit_that_fits() -> None:
    with plain_style():
        axes = draw_times(TIMES).axes[0]
    assert axes.get_xlabel() == "training time without validation (min)"
    first, second, other = axes.lines
    assert [*second.get_xdata()] == [2.5, 20]
    assert (first.get_marker(), second.get_marker()) == ("o", "None")
    assert other.get_marker() not in ("None", "o")
    assert first.get_color() == second.get_color() != other.get_color()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["softmax", "sparsemax"]
    short = {**TIMES, "curves": TIMES["curves"][:1]}
    with plain_style():
        assert draw_times(short).axes[0].get_xlabel().endswith("(s)")
    assert "softmax (seed 2): 61.00 after 1.2e+03 s and 2 validations" in describe_times(TIMES)
    assert "softmax 150 s, sparsemax 200 s. Further seeds" in remark_times(TIMES)
    assert "Further seeds" not in remark_times(short)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "missing or malformed"),
        ({**TIMES, "curves": []}, "at least one"),
        ({**TIMES, "curves": [{**TIMES["curves"][0], "x": [1.0]}]}, "as many x as y"),
        ({**TIMES, "curves": [{**TIMES["curves"][0], "x": ["late"]}]}, "malformed"),
        ({**TIMES, "metric": None}, "malformed"),
    ],
)
def test_malformed_curves_are_refused(row: Row, message: str) -> None:
    with pytest.raises(ResultsError, match=message):
        curves_of(row)


def test_a_metric_has_its_unit() -> None:
    assert metric_label("dev/token_accuracy") == "validation token accuracy (%)"
    assert metric_label("test/loss") == "test loss"


def test_the_figure_of_a_sweep_shows_every_run_of_the_experiment(
    tmp_path: Path,
    figure_experiment: Experiment,
    make_record: Callable[..., Measurement],
    filled: Callable[..., Archive],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [Axis("α", {"output 1": [], "output 2": []})]
    plan = Drawing("accuracy_over_time", best=METRIC, caption="A caption.")
    experiment = replace(
        figure_experiment, rows=rows, drawing=plan, columns=[Column("dev", METRIC)]
    )
    common = {"column": "dev", "scale": "demo", "metric": METRIC}
    records = [
        make_record(run_id=f"{row[-1]}{seed}", row=row, seed=seed, value=float(seed), **common)
        for row in ("output 2", "output 1")
        for seed in (2, 1)
    ]
    for record in records:
        folder = run_folder(tmp_path, "demo", record.run_id)
        folder.mark_running()
        folder.append_history({"epoch": 1, "seconds": 1.0, "dev_token_accuracy": record.value})
    draw_figure_data(tmp_path, "demo", experiment, records)
    data = read_figure_data(tmp_path, "demo", experiment.name)
    assert data is not None
    found = [(curve["label"], curve["seed"]) for curve in data.example["curves"]]
    assert found == [("output 1", 1), ("output 1", 2), ("output 2", 1), ("output 2", 2)]
    monkeypatch.setattr(document, "list_experiments", lambda: [experiment.name])
    monkeypatch.setattr(document, "load_experiment", lambda _name: experiment)
    html = build_report(filled(tmp_path, "demo", {experiment.name: records})).read_text(
        encoding="utf-8"
    )
    assert (
        "Shown: all runs; run 12 (row output 1, column dev, corpus made-up, seed 2) has the largest"
        in html
    )


@pytest.mark.parametrize(
    ("drawing", "example", "words"),
    [
        (
            "attention",
            {"index": 3},
            "run run (row 1 / a, column avg, corpus made-up, seed 1): the largest test/acc",
        ),
        (
            "attention_to_translated",
            {"index": 3, "sentences": [{"index": 3}, {"index": 0, "split": "test"}]},
            "the best run of each row; validation example 4, test example 1; run run (row 1 / a,",
        ),
        (
            "sparsity_over_training",
            {"epochs": [1]},
            "run run (row 1 / a, column avg, corpus made-up, seed 1): the",
        ),
        (
            "alpha_sweep",
            {"curves": []},
            "all runs; run run (row 1 / a, column avg, corpus made-up, seed 1) has the",
        ),
    ],
)
def test_it_is_said_which_runs_are_shown(
    drawing: str, example: Row, words: str, make_record: Callable[..., Measurement]
) -> None:
    data = FigureData("paper2020/figure9", drawing, make_record(), example)
    shown = document._shown_run(data, "50.00")
    assert shown.startswith(words)
    assert ("example" in shown) == ("index" in example)
