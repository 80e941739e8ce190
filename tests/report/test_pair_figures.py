"""Figures of sentence pairs that several runs are shown for."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from figure_runs import chosen, runs_of
from measured import measurement

from repro.config.experiment import Axis, Drawing, load_experiment
from repro.report import export_figure_data
from repro.report.figures.alignments import PATHS, Alignments
from repro.report.figures.comparison import choose_pairs
from repro.report.figures.heatmap import segments
from repro.report.figures.premises import Premises
from repro.results import Archive, ResultsError, run_folder

pytestmark = pytest.mark.usefixtures("plain")

Row = dict[str, Any]


def attended(
    index: int, premise: str, weights: list[float], hypothesis: str = "", predicted: str = "neutral"
) -> Row:
    return {
        "index": index, "pair": f"p{index}", "premise": premise.split(),
        "hypothesis": (hypothesis or f"said {index}").split(), "gold": "neutral",
        "predicted": predicted, "weights": weights,
    }  # fmt: skip


def common_pairs(kept: Any) -> list[Row]:
    return choose_pairs(runs_of(kept), lambda pair: (0,), 9, "")["pairs"]


def gather_premises(kept: Any) -> Row:
    return Premises(1).gather(runs_of(kept))


def gather_alignment(kept: Any) -> Row:
    return Alignments().gather(runs_of(kept))


SHORT = attended(0, "a b", [0.5, 0.5])
LONG = attended(1, "a b c", [0.0, 0.5, 0.5])
UNKNOWN = attended(2, "a b c d", [1.0, 0.0, 0.0, 0.0], predicted="entailment")


def test_runs_are_joined_by_pair_and_keep_what_they_say():
    other = {**LONG, "weights": [1.0, 0.0, 0.0]}
    (row,) = common_pairs({"x": [SHORT, LONG], "y": [other]})
    assert (row["index"], row["premise"]) == (1, ["a", "b", "c"])
    assert row["panels"]["x"]["weights"] == LONG["weights"]
    assert row["panels"]["y"] == {
        "predicted": "neutral",
        "weights": [1.0, 0.0, 0.0],
        "mapping": "y",
    }


def test_runs_that_cannot_be_joined_are_refused():
    with pytest.raises(ResultsError, match="kept no examples"):
        common_pairs({"x": [SHORT], "y": [LONG]})
    with pytest.raises(ResultsError, match="read different texts"):
        common_pairs({"x": [SHORT], "y": [{**SHORT, "premise": ["z", "b"]}]})


def shown(kept: list[Row], prefer: list[str], count: int = 1) -> list[int]:
    return chosen(Premises(count), {"x": kept}, prefer)


def test_the_longest_premise_that_every_run_is_right_about_is_shown():
    rows = [SHORT, LONG, UNKNOWN]
    assert shown(rows, []) == shown(rows[::-1], []) == [1]
    too_long = attended(3, "w " * 25, [1.0] + [0.0] * 24)
    assert shown([*rows, too_long], []) == [1]
    assert shown([too_long, UNKNOWN], []) == [2]
    assert shown([*rows, attended(4, "x y z", LONG["weights"])], []) == [1]


def test_preferred_hypotheses_come_first_whatever_their_marks():
    rows = [SHORT, LONG, UNKNOWN]
    assert shown(rows, ["Said 2."], 2) == [2, 1]
    assert shown(rows, ["nothing", "said 0", "said 2"], 2) == [0, 2]


def test_no_premise_and_no_hypothesis_is_shown_twice():
    again = attended(5, "a b c", LONG["weights"])
    same = attended(6, "x y z v w", [1.0, 0, 0, 0, 0], hypothesis="said 1")
    assert shown([LONG, again, same, SHORT], [], 3) == [6, 5, 0]


def test_lines_stand_where_neighbors_differ():
    assert segments([0.25, 0.25, 0.5, 0.0, 0.0]) == [2, 3]
    third = 1 / 3
    assert segments([third, 1 - third - third, third]) == []


def test_the_remark_names_runs_and_mistakes():
    row = gather_premises({"x": [UNKNOWN]})
    assert Premises(1).remark(row) == "The label of 'said 2' is not predicted by: x."
    assert "x: 1 of 4 words" in Premises(1).describe(row)
    assert row["runs"] == {"x": "x-1"}


def test_strips_have_a_dot_at_zero_and_lines_where_weights_differ():
    row = gather_premises({"x": [LONG], "y": [{**LONG, "weights": [0.2, 0.3, 0.5]}]})
    axes = Premises(1).draw(row).axes[0]
    zeros, borders = axes.lines
    assert [*zip(zeros.get_xdata(), zeros.get_ydata(), strict=True)] == [(0.5, 0.5)]
    upright = [x for x, y in zip(borders.get_xdata(), borders.get_ydata(), strict=True) if y < 1]
    assert upright == [1]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["a", "b", "c"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["x", "y"]
    assert [text.get_text() for text in axes.texts] == ["neutral", "neutral"]


def aligned(index: int, words: tuple[str, str], panel: Row, **changes: Any) -> Row:
    row = attended(index, words[0], [], hypothesis=words[1])
    row.pop("weights")
    return {**row, **panel, **changes}


DENSE = {
    "premise_to_hypothesis": [[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]],
    "hypothesis_to_premise": [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]],
    "structures": {},
}
PATH = {
    "premise_to_hypothesis": [[1.0, 0.0], [0.25, 0.75], [0.0, 1.0]],
    "hypothesis_to_premise": [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
    "structures": {
        "premise_to_hypothesis": [
            {"weight": 0.25, "partners": [0, 0, 1]},
            {"weight": 0.75, "partners": [0, 1, 1]},
        ],
        "hypothesis_to_premise": [{"weight": 1.0, "partners": [0, 2]}],
    },
}
MATCHED = {
    "premise_to_hypothesis": [[0.6, 0.0], [0.4, 0.0], [0.0, 1.0]],
    "hypothesis_to_premise": [[0.6, 0.4, 0.0], [0.0, 0.0, 1.0]],
    "structures": {
        "premise_to_hypothesis": [
            {"weight": 0.6, "partners": [0, -1, 1]},
            {"weight": 0.4, "partners": [-1, 0, 1]},
        ]
    },
}
WORDS = ("a b c", "x y")


THREE = {
    name: [aligned(0, WORDS, panel)]
    for name, panel in {"softmax": DENSE, "sequential": PATH, "matching": MATCHED}.items()
}


def test_alignments_show_cells_paths_and_matchings():
    row = gather_alignment(THREE)
    figure = Alignments().draw(row)
    *maps, _ = figure.cells  # upper maps, then lower ones
    nonzero = [sum(w > 0 for line in one.weights for w in line) for one in maps]
    assert nonzero == [6, 2, 3, 5, 4]
    path_up, path_low = maps[1].axes, maps[4].axes
    (up,) = (line for line in path_up.lines if line.get_marker() == "o")
    assert [*up.get_xdata()] == [0.5, 1.5]
    assert [*up.get_ydata()] == [0.5, 2.5]
    low = [line for line in path_low.lines if line.get_marker() == "o"]
    widths = [line.get_linewidth() for line in low]
    assert widths == sorted(widths), "the lightest path first, under the others"
    small = figure.axes[5].child_axes
    assert {axes.get_title() for axes in small} == {"0.60", "0.40"}
    assert [len(axes.patches) for axes in small] == [2, 2]
    told = {text.get_text() for part in (figure, *figure.axes) for text in part.texts}
    assert {"0.75", "0.25", "1.00"} <= told
    assert "premise: a b c\nhypothesis: x y\ngold: neutral" in told
    text = Alignments().describe(row)
    assert "softmax: 11 of 12 weights are nonzero;" in text
    assert "sequential: 6 of 12 weights are nonzero, 3 structures" in text


def test_columns_of_the_upper_grid_are_words_of_the_hypothesis():
    figure = Alignments().draw(gather_alignment({"sequential": THREE["sequential"]}))
    upper, lower, _ = figure.cells
    assert [[w > 0 for w in line] for line in upper.weights] == [
        [True, False],
        [False, False],
        [False, True],
    ]
    assert [tick.get_text() for tick in lower.axes.get_xticklabels()] == ["x", "y"]
    assert [tick.get_text() for tick in upper.axes.get_yticklabels()] == ["a", "b", "c"]


def test_a_neutral_pair_that_fits_is_shown():
    rows = [
        aligned(0, ("a b", "x"), {}),
        aligned(1, ("a b", "x y"), {}),
        aligned(2, ("a b c", "x y"), {}, gold="entailment", predicted="entailment"),
        aligned(3, ("a b c", "x y"), {}, predicted="entailment"),
        aligned(4, ("w " * 15, "x y"), {}),
    ]
    assert chosen(Alignments(), {"x": rows}) == [1]
    assert chosen(Alignments(), {"x": rows}, ["X."]) == [0]
    assert chosen(Alignments(), {"x": [rows[2], rows[3], rows[4]]}) == [2]


@pytest.mark.parametrize(
    ("count", "hidden"),
    [(7, "structure of least weight is"), (8, "2 structures of least weight are")],
)
def test_more_structures_than_are_drawn_are_counted(count, hidden):
    many = [{"weight": 0.125, "partners": [0, -1, 1]} for _ in range(count)]
    panel = {**MATCHED, "structures": {"premise_to_hypothesis": many}}
    row = gather_alignment({"matching": [aligned(0, WORDS, panel)]})
    assert f"matching: the {hidden} not drawn." in Alignments().remark(row)
    assert len(Alignments().draw(row).axes[1].child_axes) == 6


def test_two_paths_are_drawn_and_the_others_counted():
    many = [{"weight": 0.25, "partners": [0, 1, 1]} for _ in range(4)]
    panel = {**MATCHED, "structures": dict.fromkeys(("premise_to_hypothesis",), many)}
    panel["structures"]["hypothesis_to_premise"] = [{"weight": 1.0, "partners": [0, 2]}]
    row = gather_alignment({"sequential": [aligned(0, WORDS, panel)]})
    lines = [
        [line for line in axes.lines if line.get_color() in PATHS]
        for axes in Alignments().draw(row).axes[:2]
    ]
    assert [len(drawn) for drawn in lines] == [1, 2]
    assert len({line.get_linestyle() for line in lines[1]}) == 2
    assert "2 structures of least weight" in Alignments().remark(row)


def test_a_comparison_takes_the_best_run_of_each_row(tmp_path, figure_experiment):
    experiment = replace(
        figure_experiment,
        rows=[Axis("attention", {"x": [], "y": []})],
        drawing=Drawing("premise_attention", best="dev/label_accuracy", prefer=["said 0"]),
    )
    records = []
    for label, run, value in [("x", "aa", 60.0), ("x", "bb", 70.0), ("y", "cc", 50.0)]:
        changes = {"row": label, "column": "dev", "scale": "demo"}
        metric = "dev/label_accuracy"
        records.append(measurement(run_id=run, value=value, metric=metric, **changes))
        weights = [1.0, 0.0] if run == "bb" else [0.5, 0.5]
        kept = [{**SHORT, "weights": weights}, LONG]
        folder = run_folder(tmp_path, "demo", run)
        folder.write_attention(kept)
    archive = Archive(tmp_path, "demo")
    archive.__dict__["records"] = [
        SimpleNamespace(run_id=run, config={"mapping": {"name": name}})
        for run, name in [("aa", "softmax"), ("bb", "sparsemax"), ("cc", "softmax")]
    ]
    path = export_figure_data(archive, experiment, records)
    content = json.loads(path.read_text("utf-8"))
    example = content["example"]
    assert content["record"]["run_id"] == "bb"
    assert example["runs"] == {"x": "bb", "y": "cc"}
    (pair,) = example["pairs"]
    assert [one["mapping"] for one in pair["panels"].values()] == ["sparsemax", "softmax"]
    assert {label: one["weights"] for label, one in pair["panels"].items()} == {
        "x": [1.0, 0.0],
        "y": [0.5, 0.5],
    }


def test_titles_do_not_name_a_label_that_the_example_lacks():
    for path in Path("results").glob("*/figures/*/*.json"):
        pairs = json.loads(path.read_text(encoding="utf-8"))["example"].get("pairs", [])
        labels = {str(pair["gold"]) for pair in pairs if "gold" in pair}
        title = load_experiment("/".join(path.with_suffix("").parts[-2:])).title
        assert not labels or labels == {"contradiction"} or "contradict" not in title, path
