"""Figures that show all runs of an experiment as curves."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from figure_runs import figure_run, runs_in
from measured import measurement

from repro.config.experiment import Axis, Column, Drawing
from repro.report import build_report, export_figure_data
from repro.report.figures import FigureRuns, read_figure_data
from repro.report.figures.canvas import Canvas
from repro.report.figures.curves import (
    AccuracyOverTime,
    AlphaSweep,
    GapOverTraining,
    curves_of,
    mark_values,
    metric_label,
)
from repro.results import Archive, ResultsError, run_folder

pytestmark = pytest.mark.usefixtures("plain")

Row = dict[str, Any]
METRIC = "dev/token_accuracy"
SWEEPS, ACCURACIES = AlphaSweep(), AccuracyOverTime()


def gather_sweep(*found: tuple[float, float, float, int]) -> Row:
    """Data of a sweep, from α of attention and output, value and seed of each run."""
    runs = [
        figure_run(
            str(number),
            value=value,
            seed=seed,
            config={"mapping": {"alpha": attention}, "loss": {"alpha": output}},
        )
        for number, (attention, output, value, seed) in enumerate(found)
    ]
    return SWEEPS.gather(FigureRuns(METRIC, (), runs, runs))


SWEEP = gather_sweep(
    (1.5, 2, 60.0, 1), (1.5, 1, 50.0, 1), (1.5, 1, 54.0, 2), (2, 1.5, 70.0, 1), (1.5, 2, 58.0, 2)
)
TIMES: Row = {
    "metric": METRIC,
    "curves": [
        {"label": mapping, "mapping": mapping, "seed": seed, "x": x, "y": y}
        for mapping, seed, x, y in [
            ("softmax", 1, [100.0, 300.0], [40.0, 60.0]),
            ("softmax", 2, [150.0, 1200.0], [41.0, 61.0]),
            ("sparsemax", 1, [200.0, 400.0], [45.0, 65.0]),
        ]
    ],
}


def test_a_sweep_has_one_curve_for_each_seed_by_rising_alpha():
    found = curves_of(SWEEP)
    assert [(c["seed"], c["x"], c["y"]) for c in found["output"]] == [
        (1, [1.0, 2.0], [50.0, 60.0]), (2, [1.0, 2.0], [54.0, 58.0]),
    ]  # fmt: skip
    assert [(c["x"], c["y"]) for c in found["attention"]] == [([2.0], [70.0])]
    with pytest.raises(ResultsError, match="no run has an α of"):
        gather_sweep((1, 2, 50.0, 1))


def test_the_run_that_both_sweeps_share_is_in_both():
    found = curves_of(gather_sweep((1.5, 1.5, 60.0, 1)))
    assert {name: curves[0]["x"] for name, curves in found.items()} == {
        "attention": [1.5],
        "output": [1.5],
    }


def test_a_sweep_shows_points_mean_and_spread():
    figure = SWEEPS.draw(SWEEP)
    attention, output = figure.axes
    assert output.get_xlabel() == "α of the output"
    assert attention.get_ylabel() == "validation token accuracy (%)"
    assert output.get_ylim() == attention.get_ylim()
    mean, *points = output.lines
    assert [[*line.get_ydata()] for line in points] == [[50, 54], [60, 58]]
    assert [*mean.get_ydata()] == [52, 59]
    (band,) = output.collections
    found = {tuple(np.round(point, 6)) for point in band.get_paths()[0].vertices}
    for alpha, values in ((1.0, [50, 54]), (2.0, [60, 58])):
        deviation = np.std(values, ddof=1)
        for side in (-1, 1):
            assert (alpha, round(np.mean(values) + side * deviation, 6)) in found
    legend = [text.get_text() for text in output.get_legend().get_texts()]
    assert legend == ["mean ± standard deviation of 2 seeds"]
    assert not attention.collections
    (single,) = attention.get_legend().get_texts()
    assert single.get_text() == "mean; one seed at some α"
    # Single runs are points: a line would show their spread as a shape.
    assert [line.get_linestyle() for line in (output.lines[0], attention.lines[0])] == ["-", "None"]


def test_a_sweep_has_a_tick_at_each_value_and_one_legend_for_equal_panels():
    runs = [(1, 1.5), (1.33, 1.5), (2, 1.5), (1.5, 1), (1.5, 1.33), (1.5, 2), (1.5, 1.5)]
    panels = SWEEPS.draw(gather_sweep(*((*alphas, 60.0, 1) for alphas in runs))).axes
    for axes in panels:
        ticks = [tick.get_text() for tick in axes.get_xticklabels()]
        assert ticks == ["1", "1.33", "1.5", "2"]
    assert [axes.get_legend() is None for axes in panels] == [False, True]


@pytest.mark.parametrize(
    ("values", "ticks"), [([1, 2, 4], [1, 2, 4]), ([1, 2, 100], None), ([0.001, 0.002, 1], None)]
)
def test_ticks_are_values_or_integers(values, ticks):
    axes = Canvas(4, 3).subplots()
    axes.plot(values, values)
    mark_values(axes, values)
    found = [*axes.get_xticks()]
    assert ticks is None or found == ticks
    assert not isinstance(values[0], int) or all(float(one).is_integer() for one in found)


def test_a_sweep_in_words():
    assert "α of the output: 1: 52.00; 2: 59.00" in SWEEPS.describe(SWEEP)
    told = SWEEPS.remark(SWEEP)
    assert told.startswith("Largest here: attention α = 2 (70.00), output α = 2 (59.00).")
    assert "bands" in told
    one_seed = SWEEP | {"curves": SWEEP["curves"][:1]}
    assert "bands" not in SWEEPS.remark(one_seed)


def test_times_come_from_the_history():
    validated = {"epoch": 2, "seconds": 3.0, "dev_token_accuracy": 50.0}
    run = figure_run("a row", [{"epoch": 1, "seconds": 1.5}, validated], config={})
    data = ACCURACIES.gather(FigureRuns(METRIC, (), [run], [run]))
    assert data["curves"] == [
        {
            "label": "a row", "seed": 1, "mapping": "", "alpha": None, "warm_up": 0.0,
            "x": [3.0], "y": [50.0],
        }
    ]  # fmt: skip
    broken = figure_run("a row", [{"epoch": 1, "dev_token_accuracy": 50.0}], config={})
    with pytest.raises(ResultsError, match=r"history\.jsonl: expected rows with 'dev_token_acc"):
        ACCURACIES.gather(FigureRuns(METRIC, (), [broken], [broken]))


def test_the_first_update_is_not_counted_and_the_reader_is_told(tmp_path):
    folder = run_folder(tmp_path, "demo", "0123456789ab")
    folder.mark_running()
    for seconds in (132.0, 141.0):
        folder.append_history({"epoch": 1, "seconds": seconds, "dev_token_accuracy": 50.0})
    folder.write_training({"progress": {"warm_up": {"seconds": 131.0}}})
    runs = runs_in(softmax=folder).every
    data = ACCURACIES.gather(FigureRuns(METRIC, (), runs, runs))
    assert data["curves"][0]["x"] == [1.0, 10.0]
    assert "first update of each run (up to 131 s)" in ACCURACIES.remark(data)
    assert "first update" not in ACCURACIES.remark(TIMES)


def test_times_have_markers_for_one_seed_and_a_unit_that_fits():
    axes = ACCURACIES.draw(TIMES).axes[0]
    assert axes.get_xlabel() == "training time without validation (min)"
    first, second, other = axes.lines
    assert [*second.get_xdata()] == [2.5, 20]
    assert (first.get_marker(), second.get_marker()) == ("o", "None")
    assert other.get_marker() not in ("None", "o")
    assert first.get_color() == second.get_color() != other.get_color()
    labels = {text.get_text(): text for text in axes.texts}
    assert {*labels} == {"softmax", "sparsemax"}
    assert labels["softmax"].xy == (first.get_xdata()[-1], first.get_ydata()[-1])
    assert labels["sparsemax"].get_color() == other.get_color()
    ends = [{**curve, "x": [1.0, 60.0], "y": [9.0, 60.0]} for curve in TIMES["curves"]]
    axes = ACCURACIES.draw(TIMES | {"curves": ends}).axes[0]
    assert not axes.texts  # labels would overlap
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {*labels}
    short = {**TIMES, "curves": TIMES["curves"][:1]}
    assert ACCURACIES.draw(short).axes[0].get_xlabel().endswith("(s)")
    assert "softmax (seed 2): 61.00 after 1.2e+03 s and 2 validations" in ACCURACIES.describe(TIMES)
    assert "softmax 150 s, sparsemax 200 s. Further seeds" in ACCURACIES.remark(TIMES)
    assert "Further seeds" not in ACCURACIES.remark(short)


def test_a_metric_has_its_unit():
    assert metric_label("dev/token_accuracy") == "validation token accuracy (%)"
    assert metric_label("test/loss") == "test loss"
    assert metric_label("test/bleu_lc") == "test BLEU lc"


def test_the_figure_of_a_sweep_shows_every_run_of_the_experiment(
    tmp_path, figure_experiment, filled, know
):
    rows = [Axis("α", {"output 1": [], "output 2": []})]
    plan = Drawing("accuracy_over_time", best=METRIC, caption="A caption.")
    experiment = replace(
        figure_experiment, rows=rows, drawing=plan, columns=[Column("dev", METRIC)]
    )
    common = {"column": "dev", "scale": "demo", "metric": METRIC}
    records = [
        measurement(run_id=f"{row[-1]}{seed}", row=row, seed=seed, value=float(seed), **common)
        for row in ("output 2", "output 1")
        for seed in (2, 1)
    ]
    for record in records:
        folder = run_folder(tmp_path, "demo", record.run_id)
        folder.mark_running()
        folder.append_history({"epoch": 1, "seconds": 1.0, "dev_token_accuracy": record.value})
    export_figure_data(Archive(tmp_path, "demo"), experiment, records)
    data = read_figure_data(tmp_path, "demo", experiment.name)
    found = [(curve["label"], curve["seed"]) for curve in data.example["curves"]]
    assert found == [("output 1", 1), ("output 1", 2), ("output 2", 1), ("output 2", 2)]
    know(experiment)
    html = build_report(filled(tmp_path, "demo", {experiment.name: records})).read_text(
        encoding="utf-8"
    )
    assert "<dt>shown</dt><dd>all runs; run 12 (output 1, corpus made-up, seed 2)" in html


def test_the_gap_is_that_of_equal_updates():
    runs = [
        figure_run(
            f"SGD / {mapping}",
            [
                {"step": step, "dev_token_accuracy": value, "dev_attention_nonzeros": step / 2}
                for step, value in zip((5, 9), accuracies, strict=True)
            ],
            config={"mapping": {"name": mapping}},
        )
        for mapping, accuracies in (("softmax", (50.0, 61.5)), ("sparsemax", (40.0, 62.0)))
    ]
    kind = GapOverTraining()
    data = kind.gather(FigureRuns(METRIC, (), runs, runs))
    left, right = kind.draw(data).axes
    assert [[*line.get_ydata()] for line in left.get_lines()] == [[10.0, -0.5], [0, 0]]
    assert [[*line.get_ydata()] for line in right.get_lines()] == [[2.5, 4.5]]
    assert [[*line.get_xdata()] for line in right.get_lines()] == [[5, 9]]
