import io
import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import matplotlib
import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure

from repro.report.attention import describe_attention, draw_attention, remark_attention
from repro.report.canvas import PNG_DPI, drawable, plain_style, png_bytes, svg_bytes, token_label
from repro.report.drawings import DRAWINGS, drawing
from repro.report.examples import lattice_example
from repro.report.lattice import MOST, describe_lattice, draw_lattice, percent, remark_lattice
from repro.report.lattice_graph import Node, build_tree, place, walk
from repro.results import ResultsError

Row = dict[str, Any]


def hypothesis(text: str, steps: list[float]) -> Row:
    return {"tokens": list(text), "probability": math.prod(steps), "steps": steps}


def attention_row(**changes: Any) -> Row:
    row: Row = {
        "index": 3,
        "language": "english",
        "source": ["<lang:english>", "<tag:V>", "a", " "],
        "output": ["a", "b", "</s>"],
        "gold": "ab",
        "weights": [[0.0, 0.0, 1.0, 0.0], [0.5, 0.0, 0.5, 0.0], [0.001, 0.999, 0.0, 0.0]],
    }
    return row | changes


def lattice_row(**changes: Any) -> Row:
    row: Row = {
        "index": 4,
        "language": "english",
        "lemma": "draw",
        "tags": ["V", "PST"],
        "gold": "drawn",
        "finite": True,
        "hypotheses": [
            hypothesis("drawn", [1, 1, 0.75, 1, 0.25, 1]),
            hypothesis("drawed", [1, 1, 0.75, 1, 0.75, 1, 1]),
            hypothesis("drew", [1, 1, 0.25, 1, 1]),
        ],
    }
    return row | changes


PAIR: Row = {"index": 0, "premise": ["a", "b"], "hypothesis": ["c"], "gold": "neutral"}
PREMISES: Row = {
    "index": 0,
    "pairs": [{**PAIR, "panels": {"softmax": {"predicted": "neutral", "weights": [0.5, 0.5]}}}],
}
SENTENCES: Row = {
    "index": 0,
    "sentences": [
        {
            "index": 0,
            "language": "a to b",
            "source": ["a", "b"],
            "gold": "c",
            "separator": " ",
            "panels": {
                name: {"source": ["a", "b"], "output": ["c", "</s>"], "weights": [[0.5, 0.5]] * 2}
                for name in ("fusedmax", "oscarmax")
            },
        }
    ],
}
CURVES: Row = {
    "metric": "dev/token_accuracy",
    "curves": [
        {"label": "output", "seed": seed, "x": [1.0, 2.0], "y": [5.0, 6.0 * seed]}
        for seed in (1, 2)
    ],
}
ROWS: Mapping[str, Row] = {
    "attention": attention_row(),
    "lattice": lattice_row(),
    "dependency_arcs": {
        "index": 0,
        "sentence": "s",
        "words": ["a", "b"],
        "gold": [0, 1],
        "candidates": [{"heads": [0, 1], "weight": 0.5}, {"heads": [2, 0], "weight": 0.5}],
    },
    "premise_attention": PREMISES,
    "premise_attention_of_three": PREMISES,
    "alignment_grids": {
        **PAIR,
        "panels": {
            "softmax": {
                "predicted": "neutral",
                "premise_to_hypothesis": [[1.0], [1.0]],
                "hypothesis_to_premise": [[0.25, 0.75]],
                "structures": {},
            }
        },
    },
    "forced_decoding": {
        "index": 0,
        "language": "a to b",
        "source": ["a"],
        "target": ["c", "</s>"],
        "separator": " ",
        "steps": [
            {"probability": 0.5, "support": 2, "alternatives": [["c", 0.5], ["d", 0.5]]},
            {"probability": 1.0, "support": 1, "alternatives": [["</s>", 1.0]]},
        ],
    },
    "attention_to_summarized": SENTENCES,
    "attention_to_two_summarized": SENTENCES,
    "attention_to_translated": SENTENCES,
    "attention_to_two_translated": SENTENCES,
    "attention_to_six_translated": SENTENCES,
    "longer_summary": SENTENCES,
    "shorter_summary": SENTENCES,
    "translations": SENTENCES,
    "alpha_sweep": CURVES,
    "accuracy_over_time": CURVES,
    "sparsity_over_training": {
        "index": 0,
        "epochs": [1, 2],
        "trees": [[[2, 3]], [[1, 3]]],
        "parents": [[[1.5, 3]], [[1.0, 3]]],
    },
}


def pixels(figure: Figure) -> np.ndarray:
    image = matplotlib.image.imread(io.BytesIO(png_bytes(figure)), format="png")
    return np.round(image[..., :3] * 255).astype(int)


def cell_pixels(figure: Figure, image: np.ndarray, x: int, y: int, width: float) -> np.ndarray:
    """Pixels of one cell, ``width`` of it around the middle."""
    axes = figure.axes[0]
    corners = [
        (x + 0.5 - width / 2, y + 0.5 + width / 2),
        (x + 0.5 + width / 2, y + 0.5 - width / 2),
    ]
    inches = figure.dpi_scale_trans.inverted().transform(axes.transData.transform(corners))
    (left, bottom), (right, top) = np.round(inches * PNG_DPI).astype(int)
    return image[image.shape[0] - top : image.shape[0] - bottom, left:right].reshape(-1, 3)


def test_zero_cells_are_white_and_nonzero_ones_shaded_and_outlined() -> None:
    row = attention_row()
    with plain_style():
        figure = draw_attention(row)
        image = pixels(figure)
    for y, line in enumerate(row["weights"]):
        for x, weight in enumerate(line):
            whole = cell_pixels(figure, image, x, y, 0.9)
            middle = cell_pixels(figure, image, x, y, 0.5)
            if weight == 0:
                assert (whole == 255).all(), (x, y)
            else:
                assert (middle < 255).any(axis=1).all(), (x, y)
                assert whole.sum(axis=1).min() < middle.sum(axis=1).min() or weight > 0.6, (x, y)


def test_a_larger_weight_is_darker() -> None:
    with plain_style():
        figure = draw_attention(attention_row())
        image = pixels(figure)
    shades = [cell_pixels(figure, image, x, y, 0.5).mean() for x, y in [(0, 2), (0, 1), (2, 0)]]
    assert shades == sorted(shades, reverse=True)
    assert shades[0] - shades[1] > 20
    assert shades[1] - shades[2] > 20


def test_attention_labels_tokens_for_the_eye() -> None:
    figure = draw_attention(attention_row())
    axes = figure.axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["english", "V", "a", "␣"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["a", "b", "</s>"]
    assert [tick.get_rotation() for tick in axes.get_xticklabels()] == [90, 0, 0, 0]


def test_forty_source_symbols_do_not_overlap() -> None:
    source = [f"<tag:{'T' * 8}>"] * 5 + ["W"] * 35
    weights = [[0.0] * 40 for _ in range(30)]
    for line in weights:
        line[7] = 1.0
    with plain_style():
        figure = draw_attention(attention_row(source=source, output=["W"] * 30, weights=weights))
        figure.draw_without_rendering()
    boxes = [tick.get_window_extent() for tick in figure.axes[0].get_xticklabels()]
    gaps = [right.x0 - left.x1 for left, right in pairwise(boxes)]
    assert min(gaps) > 0
    assert min(box.y0 for box in boxes) > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": [[0, 0, 1, 0], [0.5, 0, 0.4, 0], [0, 1, 0, 0]]}, "output 1 are no distrib"),
        ({"weights": [[0, 0, 1, 0], [1.5, 0, -0.5, 0], [0, 1, 0, 0]]}, "output 1 are no distrib"),
        ({"weights": [[0, 0, 1, 0], [math.nan] * 4, [0, 1, 0, 0]]}, "output 1 are no distrib"),
        ({"weights": [[0, 0, 1, 0]]}, "expected 3 rows of 4 weights"),
        ({"weights": [[1.0]] * 3}, "expected 3 rows of 4 weights"),
        ({"output": [], "weights": []}, "expected 0 rows"),
        ({"weights": None}, "missing or malformed"),
    ],
)
def test_bad_attention_is_refused(changes: Row, message: str) -> None:
    with pytest.raises(ResultsError, match=message):
        draw_attention(attention_row(**changes))


def test_attention_in_words() -> None:
    assert "5 of 12 weights are nonzero" in describe_attention(attention_row())
    assert remark_attention(attention_row()) == ""
    dense = attention_row(gold="x", weights=[[0.25] * 4] * 3)
    assert remark_attention(dense).startswith("The prediction shown is wrong. No weight")


def ends(root: Node) -> dict[str, Node]:
    return {n.hypothesis.text: n for _, n in walk(root) if n.hypothesis is not None}


def test_lattice_shares_prefixes() -> None:
    root = build_tree(lattice_example(lattice_row()), MOST)
    assert [node.token for _, node in walk(root)] == [*"drawed", "", "n", "", "e", "w", ""]
    assert place(root, step=1.0, branch=2.0) == 3
    found = ends(root)
    assert {text: node.y for text, node in found.items()} == {"drawed": 0, "drawn": 1, "drew": 2}
    assert found["drawn"].hypothesis is not None
    assert found["drawn"].hypothesis.probability == pytest.approx(0.1875)
    assert [c.mass for c in root.children] == [pytest.approx(1.0)]
    branching = [p for p, _ in walk(root) if p.branches]
    assert {node.token for node in branching} == {"r", "w"}


def written(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts if text.get_text()]


def test_lattice_labels_branches_and_ends() -> None:
    texts = written(draw_lattice(lattice_row()))
    percentages = sorted(text for text in texts if text.endswith("%"))
    branches, final = ["25.0 %", "25.0 %", "75.0 %", "75.0 %"], ["18.8 %", "25.0 %", "56.2 %"]
    assert percentages == sorted(branches + final)
    assert texts.count("✓ gold") == 1
    assert {"drawed", "drawn", "drew", "english: draw, V PST"} <= set(texts)
    assert texts[-1] == "Complete: 3 hypotheses with nonzero probability, all others zero."
    assert remark_lattice(lattice_row()) == ""
    assert "'drawed' 56.2 %; 'drew' 25.0 %; 'drawn' 18.8 %." in describe_lattice(lattice_row())


def test_a_beam_says_that_it_is_no_complete_set() -> None:
    found = [hypothesis("drawed", [0.5] + [1] * 6), hypothesis("dra", [0.5, 0.5, 0.5])]
    row = lattice_row(finite=False, hypotheses=found)
    with pytest.raises(ResultsError, match="disagree on the step"):
        draw_lattice(row)
    row = lattice_row(finite=False, hypotheses=[found[0], hypothesis("xy", [0.2, 1])])
    texts = written(draw_lattice(row))
    assert "xy … (unfinished)" in texts
    assert texts[-1] == (
        "Beam only: 2 hypotheses found, 70.0 % of the probability. "
        "The gold form drawn is not among them."
    )
    assert "not complete" in remark_lattice(row)


def test_an_unfinished_hypothesis_is_never_gold() -> None:
    row = lattice_row(finite=False, hypotheses=[hypothesis("drawn", [0.9, 1, 1, 1, 1])])
    assert not lattice_example(row).has_gold
    assert "✓ gold" not in written(draw_lattice(row))


def test_many_hypotheses_are_cut_and_say_so() -> None:
    names = [chr(ord("a") + n) for n in range(20)]
    row = lattice_row(gold="t", hypotheses=[hypothesis(name, [0.05, 1]) for name in names])
    texts = written(draw_lattice(row))
    assert "l" in texts
    assert "m" not in texts
    assert texts[-1].endswith("all others zero. Drawn: the 12 most probable.")
    assert remark_lattice(row) == "Drawn are the 12 most probable of 20."
    assert describe_lattice(row).endswith("; 8 more.")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hypotheses": [hypothesis("ab", [1, 1, 1, 1])]}, "'ab' has 4 steps for 2 tokens"),
        ({"hypotheses": [hypothesis("ab", [1])]}, "'ab' has 1 steps for 2 tokens"),
        ({"hypotheses": [hypothesis("ab", [1, 1])]}, "holds an unfinished hypothesis"),
        ({"hypotheses": [hypothesis("ab", [0.9, 1, 1])]}, "the complete set has total prob.* 0.9"),
        ({"hypotheses": [hypothesis("a", [1, 1]), hypothesis("b", [1, 1])]}, "total probab.* 2.0"),
        ({"hypotheses": [hypothesis("a", [-0.5, -2])]}, r"outside of \[0, 1\]"),
        ({"hypotheses": [hypothesis("a", [0.5, 1])] * 2}, "'a' stands twice"),
        ({"hypotheses": [], "finite": False}, "has no hypotheses"),
        ({"hypotheses": [{}]}, "missing or malformed"),
        ({"gold": None, "hypotheses": None}, "missing or malformed"),
    ],
)
def test_bad_hypotheses_are_refused(changes: Row, message: str) -> None:
    with pytest.raises(ResultsError, match=message):
        draw_lattice(lattice_row(**changes))


@pytest.mark.parametrize(
    ("probability", "text"),
    [
        (0.0, "0.0 %"), (1e-9, "<0.1 %"), (0.0004, "<0.1 %"), (0.001, "0.1 %"), (0.664, "66.4 %"),
        (0.9999, ">99.9 %"), (0.99999998, "100.0 %"), (1.0, "100.0 %"),
    ],
)  # fmt: skip
def test_percentages_never_hide_a_doubt(probability: float, text: str) -> None:
    assert percent(probability) == text


def test_letters_that_the_font_lacks_become_codes() -> None:
    assert drawable("aä↔कя") == "aä↔U+0915я"
    assert token_label("<lang:x>") == "x"
    assert token_label("<tag:V.PTCP>") == "V.PTCP"
    assert token_label("</s>") == "</s>"


@pytest.mark.parametrize("name", DRAWINGS)
def test_figures_are_the_same_bytes_whatever_the_settings(name: str) -> None:
    def draw() -> tuple[bytes, bytes]:
        with plain_style():
            figure = drawing(name).draw(ROWS[name])
            return svg_bytes(figure), png_bytes(figure)

    first = draw()
    with matplotlib.rc_context({"font.size": 20, "svg.hashsalt": "other", "axes.facecolor": "red"}):
        second = draw()
    assert first == second
    assert b"<dc:date>" not in first[0]


@pytest.mark.parametrize("name", DRAWINGS)
def test_hostile_text_is_drawn_as_text(name: str) -> None:
    hostile = "<script>alert(1)</script>$\\frac{1}{0}$"
    texts = {"language": hostile, "lemma": hostile, "gold": hostile, "sentence": hostile}
    row = {
        key: texts.get(key, value) if isinstance(value, str) else value
        for key, value in ROWS[name].items()
    }
    with plain_style():
        svg = svg_bytes(drawing(name).draw(row))
    assert b"<script" not in svg


def test_an_unknown_drawing_is_refused() -> None:
    with pytest.raises(ResultsError, match="no drawing 'pie'; choose from: attention, lattice"):
        drawing("pie")
