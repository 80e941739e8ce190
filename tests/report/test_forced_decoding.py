"""Figures of what a model would say next along a given target."""

from typing import Any

import pytest
from figure_runs import chosen

from repro.report.figures.forced_decoding import COMPLETED, ZERO, ForcedDecoding
from repro.results import ResultsError

pytestmark = pytest.mark.usefixtures("plain")

Row = dict[str, Any]
FORCED = ForcedDecoding()


def step(probability: float, support: int, **shares: float) -> Row:
    return {
        "probability": probability, "support": support,
        "alternatives": [[name, share] for name, share in shares.items()],
    }  # fmt: skip


def sure(word: str) -> Row:
    return step(1.0, 1, **{word: 1.0})


def row(index: int, target: str, *steps: Row, source: str = "le ta@@ ble") -> Row:
    return {
        "index": index, "language": "fr to en", "source": source.split(), "separator": " ",
        "target": target.split(), "steps": list(steps),
    }  # fmt: skip


CHOICE = step(0.25, 2, a=0.75, the=0.25)
PAPER = row(3, "the tree of life", CHOICE, sure("tree"), sure("of"), sure("life"))


def test_steps_without_a_choice_share_a_shaded_box():
    axes = FORCED.draw(PAPER).axes[0]
    first, second = axes.patches
    assert first.get_facecolor() == (1, 1, 1, 1)
    assert second.get_facecolor()[:3] == pytest.approx(
        [int(COMPLETED[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    )
    written = [(text.get_text(), text.get_weight()) for text in axes.texts]
    assert written[0][0] == "fr to en: le table"
    assert written[1:6] == [
        ("a", "normal"), ("75.0 %", "normal"), ("the", "bold"), ("25.0 %", "normal"),
        ("tree of life", "bold"),
    ]  # fmt: skip
    assert FORCED.remark(PAPER) == "3 of 4 steps have no alternative."
    assert "'the' 25.0 % of 2; 'tree' 100.0 % of 1" in FORCED.describe(PAPER)


def test_an_impossible_target_is_listed_and_red():
    found = row(0, "x", step(0.0, 1, a=1.0))
    axes = FORCED.draw(found).axes[0]
    texts = {text.get_text(): text for text in axes.texts}
    assert texts["x"].get_color() == ZERO
    assert "0.0 %" in texts
    assert len(axes.patches) == 1
    assert axes.patches[0].get_facecolor() == (1, 1, 1, 1)
    assert FORCED.remark(found).endswith("1 symbols of the target have probability exactly zero.")


def test_what_is_not_listed_is_counted():
    shares = {f"w{n}": 0.05 for n in range(10)}
    found = row(0, "rare", step(0.001, 30, **shares))
    texts = [text.get_text() for text in FORCED.draw(found).axes[0].texts]
    assert "w7" in texts
    assert "w8" not in texts
    assert {"rare", "0.1 %", "and 21 more"} <= set(texts)
    assert FORCED.remark(found).endswith("are counted but not listed.")


def test_boxes_stay_inside_and_apart():
    steps = [CHOICE if n % 3 else sure("the") for n in range(40)] + [sure("the")] * 60
    figure = FORCED.draw(row(0, "the " * 100, *steps))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    found = [patch.get_window_extent() for patch in axes.patches]
    for text in axes.texts:
        extent = text.get_window_extent()
        assert figure.bbox.x0 <= extent.x0 <= extent.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= extent.y0 <= extent.y1 <= figure.bbox.y1
        inside = [box for box in found if box.overlaps(extent)]
        assert all(box.x0 <= extent.x0 and extent.x1 <= box.x1 for box in inside)
    for number, one in enumerate(found):
        assert not any(one.overlaps(other) for other in found[number + 1 :])


def test_the_target_that_changes_most_is_shown():
    plain = row(0, "a b", sure("a"), sure("b"))
    turns = row(1, "the b the", CHOICE, sure("b"), CHOICE)
    impossible = row(2, "the b x b", CHOICE, sure("b"), step(0.0, 2, a=0.5, b=0.5), sure("b"))
    long = row(4, "the b " * 9, *[CHOICE, sure("b")] * 9)
    rows = [plain, impossible, long, turns, PAPER]
    for found, index in ((rows, 1), (rows[:3], 0), ([long, impossible], 2)):
        assert chosen(FORCED, {"x": found}) == [index]
    other = row(5, "a", sure("a"), source="Un autre .")
    assert chosen(FORCED, {"x": [*rows, other]}, ["un autre"]) == [5]
    with pytest.raises(ResultsError, match="kept no examples"):
        chosen(FORCED, {"x": []})
