import random
from itertools import combinations
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from repro.report.canvas import plain_style, svg_bytes
from repro.report.dependency_arcs import (
    describe_dependency_arcs,
    draw_dependency_arcs,
    remark_dependency_arcs,
)
from repro.report.parses import choose_parses, parsed_sentence
from repro.report.sparsity_over_training import (
    box_of,
    choose_sparsity,
    describe_sparsity,
    draw_sparsity,
    quantile,
    remark_sparsity,
)
from repro.results import ResultsError

Row = dict[str, Any]


def row(*candidates: tuple[list[int], float], index: int = 0, **changes: Any) -> Row:
    found = [{"heads": heads, "weight": weight} for heads, weight in candidates]
    plain: Row = {
        "index": index,
        "sentence": f"s{index}",
        "words": ["a", "b", "c"],
        "gold": [2, 0, 2],
        "candidates": found,
    }
    return plain | changes


GOLD, OTHER, THIRD = [2, 0, 2], [2, 0, 1], [0, 1, 1]
AMBIGUOUS = row((OTHER, 0.75), (GOLD, 0.25))


def test_marginals_are_sums_over_the_trees_that_hold_an_arc() -> None:
    example = parsed_sentence(row((OTHER, 0.5), (GOLD, 0.25), (THIRD, 0.25)))
    assert example.marginals == {
        (0, 1): 0.25, (0, 2): 0.75, (1, 2): 0.25, (1, 3): 0.75, (2, 1): 0.75, (2, 3): 0.25,
    }  # fmt: skip
    assert example.gold_place == 1


def test_weights_whose_rounded_sum_exceeds_one_are_drawn() -> None:
    rounded = row((OTHER, 0.75), (GOLD, 0.25 + 1e-7))
    assert max(parsed_sentence(rounded).marginals.values()) > 1
    with plain_style():
        svg_bytes(draw_dependency_arcs(rounded))


@pytest.mark.parametrize(
    "others",
    [
        [row((GOLD, 1.0), index=1)],
        [row((GOLD, 0.6), (OTHER, 0.4), index=1)],
        [row((OTHER, 0.6), (THIRD, 0.4), index=1)],
        [row((OTHER, 0.9), (GOLD, 0.1), index=1)],
        [row((OTHER, 0.75), (GOLD, 0.25), index=1)],
        [row(([0, *range(1, 15)], 0.5), ([0, 1, 1, *range(3, 15)], 0.5), index=1,
             words=["w"] * 15, gold=[0, 1, 1, *range(3, 15)])],
    ],
    ids=["single", "gold first", "without gold", "less even", "later", "long"],
)  # fmt: skip
def test_the_most_even_ambiguous_sentence_wins(others: list[Row]) -> None:
    for rows in ([AMBIGUOUS, *others], [*others, AMBIGUOUS]):
        examples = [parsed_sentence(one) for one in rows]
        assert examples[choose_parses(examples, [])].index == 0
    assert examples[choose_parses(examples, ["none", "s1"])].index == 1


def test_the_drawing_shows_arcs_words_and_weights() -> None:
    with plain_style():
        figure = draw_dependency_arcs(AMBIGUOUS)
        texts = [text.get_text() for text in figure.axes[0].texts]
        again = svg_bytes(draw_dependency_arcs(AMBIGUOUS))
        assert svg_bytes(figure) == again
    assert texts[:4] == ["root", "a", "b", "c"]
    assert texts[4:] == ["0.25", "0.75", "s0   2 trees: 0.75, 0.25 (gold)"]
    paths = [patch.get_path().vertices for patch in figure.axes[0].patches]
    above = [path for path in paths if path[1][1] > 0]
    assert (len(above), len(paths)) == (3, 4)


def crowded(words: int, seed: int) -> Row:
    """A long sentence of short words, of which every word may be below many others."""
    draw = random.Random(seed)
    trees = [[draw.randrange(place) for place in range(1, words + 1)] for _ in range(6)]
    trees += [[place + 1 for place in range(1, words)] + [0]]
    return row(*[(tree, 1 / 7) for tree in trees], words=["w"] * words, gold=trees[0])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("words", [3, 14, 30])
def test_labels_of_arcs_do_not_touch_each_other_or_the_words(words: int, seed: int) -> None:
    with plain_style():
        figure = draw_dependency_arcs(crowded(words, seed))
        renderer = FigureCanvasAgg(figure).get_renderer()
        *texts, _title = figure.axes[0].texts
        boxes = [text.get_window_extent(renderer) for text in texts]
    assert len(texts) > words + 2
    assert not any(first.overlaps(second) for first, second in combinations(boxes, 2))


def test_the_title_lists_the_heaviest_trees_only() -> None:
    with plain_style():
        title = draw_dependency_arcs(row(*[(GOLD, 0.1)] * 10)).axes[0].texts[-1].get_text()
    assert title == f"s0   10 trees: 0.10 (gold), {'0.10, ' * 7}…"


def test_the_words_say_what_is_in_doubt() -> None:
    text = describe_dependency_arcs(AMBIGUOUS)
    assert "2 with nonzero weight" in text
    assert "'c' below 'a' (0.75)" in text
    assert remark_dependency_arcs(AMBIGUOUS) == ""
    single = row((OTHER, 1.0))
    assert "No arc is in doubt" in describe_dependency_arcs(single)
    assert remark_dependency_arcs(single).count(".") == 3
    with plain_style():
        assert len(draw_dependency_arcs(row((GOLD, 1.0))).axes[0].patches) == 3


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"index": 1}, "missing or malformed"),
        (row((GOLD, 0.5)), "are no distribution"),
        (row((GOLD, 1.5), (OTHER, -0.5)), "are no distribution"),
        (row((GOLD, float("nan"))), "are no distribution"),
        (row(), "are no distribution"),
        (row(([2, 0], 1.0)), "expected a head among 3 words each"),
        (row(([2, 0, 4], 1.0)), "expected a head among 3 words each"),
    ],
)
def test_damaged_candidates_are_refused(broken: Row, message: str) -> None:
    with pytest.raises(ResultsError, match=message):
        parsed_sentence(broken)


HISTORY: Row = {
    "epochs": [1, 2],
    "trees": [[[1, 1], [4, 2], [9, 1]], [[1, 3], [2, 1]]],
    "parents": [[[1.5, 2], [2.0, 2]], [[1.0, 4]]],
}


def test_quantiles_of_counts_are_those_of_the_values() -> None:
    counts = [(1.0, 1), (4.0, 2), (9.0, 1)]
    assert [quantile(counts, share) for share in (0.25, 0.26, 0.5, 0.75, 0.76, 1.0)] == [
        1, 4, 4, 4, 9, 9,
    ]  # fmt: skip


def test_sparsity_is_drawn_as_boxes_and_told() -> None:
    both = HISTORY | {
        "training_trees": [[[4, 3], [5, 1]], [[1, 2], [2, 6]]],
        "training_parents": [[[1.5, 4]], [[1.25, 8]]],
    }
    with plain_style():
        alone, compared = draw_sparsity(HISTORY).axes, draw_sparsity(both).axes
    assert [len(axes.patches) for axes in (*alone, *compared)] == [2, 2, 4, 4]
    legend = compared[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "training sentences", "validation sentences"
    ]  # fmt: skip
    assert box_of([(1.0, 1), (4.0, 2), (9.0, 1)]) == {
        "whislo": 1, "q1": 1, "med": 4, "q3": 4, "whishi": 9, "fliers": [],
    }  # fmt: skip
    told = describe_sparsity(both)
    assert "validation sentences, epoch 1: median of 4 trees and 1.5 heads per word" in told
    assert "training sentences, epoch 2: median of 2 trees and 1.25 heads per word" in told
    assert "3 of 4 validation sentences and 2 of 8 training sentences" in remark_sparsity(both)
    assert "training" not in remark_sparsity(HISTORY)


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": [1]},
        {"training_trees": [[[1, 1]]]},
        {"trees": [[], []]},
        {"parents": [[[1, 0]], [[1, 1]]]},
        {"trees": 3},
    ],
)
def test_a_damaged_history_is_refused(change: Row) -> None:
    with pytest.raises(ResultsError, match="sparsity over training"):
        draw_sparsity(HISTORY | change)


def test_a_run_has_one_history_or_none() -> None:
    assert choose_sparsity([HISTORY], []) == 0
    for rows, prefer in (([], []), ([HISTORY], ["s1"])):
        with pytest.raises(ResultsError, match="kept no numbers of trees"):
            choose_sparsity(rows, prefer)


def test_two_sentences_stand_below_each_other() -> None:
    two = {"index": 0, "sentences": [AMBIGUOUS, row((OTHER, 1.0), index=1)]}
    with plain_style():
        upper, lower = draw_dependency_arcs(two).axes
        alone = draw_dependency_arcs(AMBIGUOUS).axes[0]
    assert [t.get_text() for t in upper.texts] == [t.get_text() for t in alone.texts]
    assert upper.get_position().y0 == pytest.approx(lower.get_position().y1)
    assert describe_dependency_arcs(two).count("Dependency trees of") == 2
    assert remark_dependency_arcs(two).count("s1") == 3


def test_sentences_are_asked_for_by_their_words() -> None:
    other = row((GOLD, 1.0), words=["A", "b", "d"], index=1)
    examples = [parsed_sentence(one) for one in (AMBIGUOUS, other)]
    assert choose_parses(examples, ["x", "a b d."]) == 1
