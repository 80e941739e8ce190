import io
import json
import math
import re
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import matplotlib.image
import numpy as np
import pytest
from figure_runs import chosen
from matplotlib.figure import Figure

from repro.mappings import MAPPINGS
from repro.report.figures import Figure as Kind
from repro.report.figures import FigureData, figure_kind, figure_kinds
from repro.report.figures.canvas import (
    FAINTEST,
    PNG_DPI,
    drawable,
    opacity,
    plain_style,
    token_label,
)
from repro.report.figures.data import draw_figure
from repro.report.figures.heatmap import CELL, FOOT, room
from repro.report.figures.lattice import Node, build_tree, lattice_example, percent, place, walk
from repro.report.figures.styles import STYLES, lines_of, style_of
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


RESULTS = Path(__file__).parents[2] / "results"
PATHS = sorted((RESULTS / "small" / "figures").glob("*/*.json"))
ROWS: Mapping[str, Row] = {
    data["drawing"]: data["example"]
    for data in (json.loads(path.read_text(encoding="utf-8")) for path in PATHS)
    if data["record"] is not None
}
"""Committed data of each kind of figure that shows runs."""
ATTENTION, LATTICE = figure_kind("attention"), figure_kind("lattice")
KINDS = {type(kind): name for name, kind in figure_kinds().items() if name in ROWS}.values()
"""One kind of each class; the others differ in numbers only."""


def pixels(figure: Any) -> np.ndarray:
    image = matplotlib.image.imread(io.BytesIO(figure.png()), format="png")
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


def test_a_larger_weight_is_darker():
    with plain_style():
        figure = ATTENTION.draw(attention_row())
        image = pixels(figure)
    shades = [cell_pixels(figure, image, x, y, 0.5).mean() for x, y in [(0, 2), (0, 1), (2, 0)]]
    assert shades == sorted(shades, reverse=True)
    assert shades[0] - shades[1] > 20
    assert shades[1] - shades[2] > 20


def test_attention_labels_tokens_for_the_eye():
    figure = ATTENTION.draw(attention_row())
    axes = figure.axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["english", "V", "a", "␣"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["a", "b", "</s>"]
    assert [tick.get_rotation() for tick in axes.get_xticklabels()] == [90, 90, 90, 90]


def test_forty_source_symbols_do_not_overlap():
    source = [f"<tag:{'T' * 8}>"] * 5 + ["W"] * 35
    weights = [[0.0] * 40 for _ in range(30)]
    for line in weights:
        line[7] = 1.0
    with plain_style():
        figure = ATTENTION.draw(attention_row(source=source, output=["W"] * 30, weights=weights))
        figure.draw_without_rendering()
    boxes = [tick.get_window_extent() for tick in figure.axes[0].get_xticklabels()]
    gaps = [right.x0 - left.x1 for left, right in pairwise(boxes)]
    assert min(gaps) > 0
    assert min(box.y0 for box in boxes) > 0


def test_attention_takes_no_more_room_than_its_cells_and_words():
    source = [f"s{n}" for n in range(40)]
    row = attention_row(source=source, output=["W"] * 12, weights=[[0.05] * 40] * 12)
    figure = ATTENTION.draw(row)
    box = figure.axes[0].get_position()
    width, height = figure.get_size_inches()
    assert box.width * width == pytest.approx(40 * CELL)
    assert (1 - box.x1) * width < 0.2
    below = box.y0 * height
    assert below == pytest.approx(FOOT + room(source), abs=0.12)


def test_attention_in_words():
    assert "5 of 12 weights are nonzero" in ATTENTION.describe(attention_row())
    assert ATTENTION.remark(attention_row()) == ""
    dense = attention_row(gold="x", weights=[[0.25] * 4] * 3)
    assert ATTENTION.remark(dense).startswith("The prediction shown is wrong. No weight")


def ends(root: Node) -> dict[str, Node]:
    return {n.hypothesis.text: n for _, n in walk(root) if n.hypothesis is not None}


def test_lattice_shares_prefixes():
    root = build_tree(lattice_example(lattice_row()))
    assert [node.token for _, node in walk(root)] == [*"drawed", "", "n", "", "e", "w", ""]
    assert place(root) == 3
    found = ends(root)
    assert {text: node.y for text, node in found.items()} == {"drawed": 0, "drawn": 1, "drew": 2}
    assert found["drawn"].hypothesis.probability == pytest.approx(0.1875)
    assert [c.mass for c in root.children] == [pytest.approx(1.0)]
    branching = [p for p, _ in walk(root) if p.branches]
    assert {node.token for node in branching} == {"r", "w"}


def written(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts if text.get_text()]


def test_lattice_labels_branches_and_ends():
    texts = written(LATTICE.draw(lattice_row()))
    percentages = sorted(text for text in texts if text.endswith("%"))
    branches, final = ["25.0 %", "25.0 %", "75.0 %", "75.0 %"], ["18.8 %", "25.0 %", "56.2 %"]
    assert percentages == sorted(branches + final)
    assert texts.count("✓ gold") == 1
    assert {"drawed", "drawn", "drew", "english: draw, V PST"} <= set(texts)
    assert texts[-1] == "Complete: 3 hypotheses with nonzero probability, all others zero."
    assert LATTICE.remark(lattice_row()) == ""
    assert "'drawed' 56.2 %; 'drew' 25.0 %; 'drawn' 18.8 %." in LATTICE.describe(lattice_row())


def test_a_beam_says_that_it_is_no_complete_set():
    found = [hypothesis("drawed", [0.5] + [1] * 6), hypothesis("dra", [0.5, 0.5, 0.5])]
    row = lattice_row(finite=False, hypotheses=found)
    with pytest.raises(ResultsError, match="disagree on the step"):
        LATTICE.draw(row)
    row = lattice_row(finite=False, hypotheses=[found[0], hypothesis("xy", [0.2, 1])])
    texts = written(LATTICE.draw(row))
    assert "xy … (unfinished)" in texts
    assert texts[-1] == (
        "Beam only: 2 hypotheses found, 70.0 % of the probability. "
        "The gold form drawn is not among them."
    )
    assert "not complete" in LATTICE.remark(row)


def test_an_unfinished_hypothesis_is_never_gold():
    row = lattice_row(finite=False, hypotheses=[hypothesis("drawn", [0.9, 1, 1, 1, 1])])
    assert not lattice_example(row).has_gold
    assert "✓ gold" not in written(LATTICE.draw(row))


def test_many_hypotheses_are_cut_and_say_so():
    names = [chr(ord("a") + n) for n in range(20)]
    row = lattice_row(gold="t", hypotheses=[hypothesis(name, [0.05, 1]) for name in names])
    texts = written(LATTICE.draw(row))
    assert "l" in texts
    assert "m" not in texts
    assert texts[-1].endswith("all others zero. Drawn: the 12 most probable.")
    assert LATTICE.remark(row) == "Drawn are the 12 most probable of 20."
    assert LATTICE.describe(row).endswith("; 8 more.")


@pytest.mark.parametrize(
    ("probability", "text"),
    [
        (0.0, "0.0 %"), (1e-9, "<0.1 %"), (0.0004, "<0.1 %"), (0.001, "0.1 %"), (0.664, "66.4 %"),
        (0.9999, ">99.9 %"), (0.99999998, "100.0 %"), (1.0, "100.0 %"),
    ],
)  # fmt: skip
def test_percentages_never_hide_a_doubt(probability, text):
    assert percent(probability) == text


def test_letters_that_the_font_lacks_become_codes():
    assert drawable("aä↔कя") == "aä↔U+0915я"
    assert token_label("<lang:x>") == "x"
    assert token_label("<tag:V.PTCP>") == "V.PTCP"
    assert token_label("</s>") == "</s>"


def test_zero_cells_are_white_with_a_dot():
    row = attention_row()
    with plain_style():
        figure = ATTENTION.draw(row)
        image = pixels(figure)
    for y, line in enumerate(row["weights"]):
        for x, weight in enumerate(line):
            cell = cell_pixels(figure, image, x, y, 0.7)
            white = (cell == 255).all(axis=1)
            if weight == 0:
                assert 0.8 < white.mean() < 1, (x, y)
            else:
                assert not white.any(), (x, y)


def test_shades_grow_from_nothing_at_zero():
    shares = [opacity(weight) for weight in (0.0, 1e-30, 0.1, 0.5, 0.999, 1.0)]
    assert shares[0] == 0 < FAINTEST <= shares[1]
    assert shares == sorted(set(shares))
    assert shares[-1] == 1


def drawn(name: str, row: Row) -> str:
    return draw_figure(FigureData("paper2020/figure9", name, row))["svg"].decode()


def test_cells_say_words_and_weight_on_hovering():
    """Neighboring zeros share a shape, which names the first and the last word."""
    row = {**attention_row(), "weights": [[0.0, 0.0, 1.0], [0.25, 0.0, 0.75], [0.0, 1.0, 0.0]]}
    row |= {"source": ["a", "b", "c"], "output": ["x", "y", "</s>"]}
    root = ElementTree.fromstring(drawn("attention", row))
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == [
        "a … b → x: 0", "c → x: 1", "a → y: 0.25", "b → y: 0", "c → y: 0.75",
        "a → </s>: 0", "b → </s>: 1", "c → </s>: 0",
    ]  # fmt: skip
    shapes = [one for one in root.iter() if "fill-opacity" in one.attrib and len(one)]
    shaded = [float(one.get("fill-opacity", "")) > 0 for one in shapes]
    assert shaded == [not title.endswith(": 0") for title in titles if title]
    assert shapes[0].get("d") == "M0 0h2v1h-2z"


@cache
def as_drawn(name: str) -> dict[str, bytes]:
    """Return the files of an example."""
    return draw_figure(FigureData("paper2020/figure9", name, ROWS[name]))


@pytest.mark.parametrize("name", KINDS)
def test_svg_is_text_that_follows_the_page(name):
    svg = as_drawn(name)["svg"].decode()
    root = ElementTree.fromstring(svg)
    assert [one for one in root.iter() if one.tag.endswith("}text")]
    assert "currentColor" in svg
    assert "font-family=" in svg
    assert not re.search(r"<style|<metadata|<image|font-family:|Date", svg)
    assert root.get("aria-label")


@pytest.mark.parametrize("name", KINDS)
def test_ids_are_unique_within_a_page(name):
    with plain_style():
        second = figure_kind(name).draw(ROWS[name]).svg("paper2020/figure8")
    first = as_drawn(name)["svg"].decode()
    ids = [re.findall(r'id="([^"]+)"', svg) for svg in (first, second)]
    assert not {*ids[0]} & {*ids[1]}
    for svg, known in zip((first, second), ids, strict=True):
        assert len(known) == len({*known})
        references = re.findall(r'(?:url\(#|href="#)([^")]+)', svg)
        assert {*references} <= {*known}


@pytest.mark.parametrize("name", KINDS)
def test_figures_are_the_same_bytes_whatever_the_settings(name):
    with matplotlib.rc_context({"font.size": 20, "svg.hashsalt": "other", "axes.facecolor": "red"}):
        assert draw_figure(FigureData("paper2020/figure9", name, ROWS[name])) == as_drawn(name)


def hostile(value: Any) -> Any:
    """Copy the data with every text of it replaced."""
    text = "<script>alert(1)</script>$\\frac{1}{0}$"
    if isinstance(value, dict):
        kept = ("metric", "mapping", "predicted")
        return {k: v if k in kept else hostile(v) for k, v in value.items()}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return f"{value}{text}" if isinstance(value, str) and value != "</s>" else value


@pytest.mark.parametrize("name", KINDS)
def test_hostile_text_is_drawn_as_text(name):
    svg = drawn(name, hostile(ROWS[name]))
    assert "<script" not in svg
    assert ElementTree.fromstring(svg).tag.endswith("svg")


def test_an_unknown_drawing_is_refused():
    with pytest.raises(ResultsError, match="no drawing 'pie'; choose from: accuracy_over_time"):
        figure_kind("pie")


def test_data_of_another_kind_are_refused():
    with pytest.raises(ResultsError, match="paper2020/figure9: malformed data"):
        drawn("lattice", attention_row())


def test_every_kind_has_an_example_or_needs_no_run():
    others = {name: kind for name, kind in figure_kinds().items() if name not in ROWS}
    assert {type(kind).__module__.split(".")[3] for kind in others.values()} == {"library"}
    assert all(isinstance(kind, Kind) for kind in others.values())


def test_mappings_have_looks_of_their_own():
    assert {*STYLES} <= {*MAPPINGS}
    for looks in (
        {(s.color, s.dashes) for s in STYLES.values()},
        {(s.color, s.marker) for s in STYLES.values()},
    ):
        assert len(looks) == len(STYLES)
    own = [style_of(name) for name in ("lengthmax", "topmax", "lengthmax")]
    assert own[0] == own[2] != own[1]
    assert style_of("entmax", 1.0) == style_of("softmax")
    assert style_of("entmax", 2.0) == style_of("sparsemax")
    same = lines_of({"newton": style_of("entmax"), "sorting": style_of("entmax")})
    assert same["newton"].color == same["sorting"].color
    assert same["newton"].dashes != same["sorting"].dashes


def test_the_longest_correct_source_of_thirty_is_chosen():
    def kept(index: int, length: int, gold: str = "a") -> Row:
        weights = [[1.0] + [0.0] * (length - 1)]
        return attention_row(
            index=index, source=["x"] * length, output=["a"], gold=gold, weights=weights
        )

    for rows, index in (
        ([kept(0, 10), kept(1, 30), kept(2, 31)], 1),
        ([kept(0, 10), kept(1, 30, gold="b")], 0),
        ([kept(5, 10), kept(4, 10)], 4),
        ([kept(0, 40), kept(1, 33)], 1),
    ):
        assert chosen(ATTENTION, {"x": rows}) == [index]
    rows = [kept(0, 20), attention_row(index=1, source=[*"draw"])]
    assert chosen(ATTENTION, {"x": rows}, ["draw"]) == [1]


def test_the_most_even_complete_set_with_gold_is_chosen():
    def kept(index: int, *shares: float, lemma: str = "go", gold: str = "a", **more: Any) -> Row:
        found = [
            {"tokens": [chr(ord("a") + n)], "probability": share, "steps": [share, 1.0]}
            for n, share in enumerate(shares)
        ]
        return lattice_row(index=index, lemma=lemma, gold=gold, hypotheses=found, **more)

    even = kept(7, 0.5, 0.5)
    for other in (
        kept(0, 0.9, 0.1), kept(0, 1.0), kept(0, *[0.1] * 10), kept(9, 0.5, 0.5),
        kept(0, 0.34, 0.33, 0.33, gold="z"), kept(0, 0.25, 0.25, 0.25, 0.2, finite=False),
    ):  # fmt: skip
        for rows in ([even, other], [other, even]):
            assert chosen(LATTICE, {"x": rows}) == [7]
    assert chosen(LATTICE, {"x": [even, kept(9, 0.25, 0.25, 0.25, 0.25)]}) == [9]
    named = kept(1, 1.0, lemma="draw")
    assert chosen(LATTICE, {"x": [even, named]}, ["none", "draw"]) == [1]
