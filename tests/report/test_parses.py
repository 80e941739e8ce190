import random
from itertools import combinations
from typing import Any

import pytest
from figure_runs import chosen, runs_of
from matplotlib.backends.backend_agg import FigureCanvasAgg

from repro.report.figures.canvas import INK
from repro.report.figures.dependency_arcs import WRONG, DependencyArcs, parsed_sentence
from repro.report.figures.sparsity_over_training import SparsityOverTraining, box_of, quantile
from repro.results import ResultsError

pytestmark = pytest.mark.usefixtures("plain")

Row = dict[str, Any]


def drawn(*rows: Row) -> Any:
    return DependencyArcs().draw({"sentences": rows})


def told(*rows: Row) -> tuple[str, str]:
    kind, data = DependencyArcs(), {"sentences": rows}
    return kind.describe(data), kind.remark(data)


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


def test_marginals_are_sums_over_the_trees_that_hold_an_arc():
    example = parsed_sentence(row((OTHER, 0.5), (GOLD, 0.25), (THIRD, 0.25)))
    assert example.marginals == {
        (0, 1): 0.25, (0, 2): 0.75, (1, 2): 0.25, (1, 3): 0.75, (2, 1): 0.75, (2, 3): 0.25,
    }  # fmt: skip
    assert example.gold_place == 1


def test_weights_whose_rounded_sum_exceeds_one_are_drawn():
    rounded = row((OTHER, 0.75), (GOLD, 0.25 + 1e-7))
    assert max(parsed_sentence(rounded).marginals.values()) > 1
    drawn(rounded).svg("name")


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
def test_the_most_even_ambiguous_sentence_wins(others):
    for rows in ([AMBIGUOUS, *others], [*others, AMBIGUOUS]):
        assert chosen(DependencyArcs(), {"x": rows})[0] == 0
        assert chosen(DependencyArcs(), {"x": rows}, ["none", "s1"])[0] == 1


def test_the_drawing_shows_arcs_words_and_weights():
    figure = drawn(AMBIGUOUS)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts[:4] == ["root", "a", "b", "c"]
    assert texts[4:] == ["0.25", "0.75", "Sentence s0: 2 trees, of weight 0.75, 0.25 (gold)"]
    assert [text.get_color() for text in figure.texts] == [INK, WRONG]
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
def test_labels_of_arcs_do_not_touch_each_other_or_the_words(words, seed):
    figure = drawn(crowded(words, seed))
    renderer = FigureCanvasAgg(figure).get_renderer()
    *texts, _title = figure.axes[0].texts
    boxes = [text.get_window_extent(renderer) for text in texts]
    assert len(texts) > words + 2
    assert not any(first.overlaps(second) for first, second in combinations(boxes, 2))


def test_the_title_lists_the_heaviest_trees_only():
    title = drawn(row(*[(GOLD, 0.1)] * 10)).axes[0].texts[-1].get_text()
    assert title == f"Sentence s0: 10 trees, of weight 0.10 (gold), {'0.10, ' * 7}…"


def test_the_words_say_what_is_in_doubt():
    text, remark = told(AMBIGUOUS)
    assert "2 with nonzero weight" in text
    assert "'c' below 'a' (0.75)" in text
    assert remark == ""
    single = row((OTHER, 1.0))
    assert "No arc is in doubt" in told(single)[0]
    assert told(single)[1].count(".") == 3
    assert len(drawn(row((GOLD, 1.0))).axes[0].patches) == 3


SPARSITY = SparsityOverTraining()
HISTORY: Row = {
    "epochs": [1, 2],
    "trees": [[[1, 1], [4, 2], [9, 1]], [[1, 3], [2, 1]]],
    "parents": [[[1.5, 2], [2.0, 2]], [[1.0, 4]]],
}


def test_quantiles_of_counts_are_those_of_the_values():
    counts = [(1.0, 1), (4.0, 2), (9.0, 1)]
    assert [quantile(counts, share) for share in (0.25, 0.26, 0.5, 0.75, 0.76, 1.0)] == [
        1, 4, 4, 4, 9, 9,
    ]  # fmt: skip


def test_sparsity_is_drawn_as_boxes_and_told():
    both = HISTORY | {
        "training_trees": [[[4, 3], [5, 1]], [[1, 2], [2, 6]]],
        "training_parents": [[[1.5, 4]], [[1.25, 8]]],
    }
    alone, compared = SPARSITY.draw(HISTORY).axes, SPARSITY.draw(both).axes
    assert [len(axes.patches) for axes in (*alone, *compared)] == [2, 2, 4, 4]
    legend = compared[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [
        "training sentences", "validation sentences"
    ]  # fmt: skip
    assert box_of([(1.0, 1), (4.0, 2), (9.0, 1)]) == {
        "whislo": 1, "q1": 1, "med": 4, "q3": 4, "whishi": 9, "fliers": [],
    }  # fmt: skip
    words = SPARSITY.describe(both)
    assert "validation sentences, epoch 1: median of 4 trees and 1.5 heads per word" in words
    assert "training sentences, epoch 2: median of 2 trees and 1.25 heads per word" in words
    assert "2 of 8 training sentences and 3 of 4 validation sentences" in SPARSITY.remark(both)
    assert "training" not in SPARSITY.remark(HISTORY)


def test_two_sentences_stand_below_each_other():
    two = (AMBIGUOUS, row((OTHER, 1.0), index=1))
    upper, lower = drawn(*two).axes
    alone = drawn(AMBIGUOUS).axes[0]
    assert [t.get_text() for t in upper.texts] == [t.get_text() for t in alone.texts]
    assert upper.get_position().y0 == pytest.approx(lower.get_position().y1)
    assert told(*two)[0].count("Dependency trees of") == 2
    assert told(*two)[1].count("s1") == 3


def test_sentences_are_asked_for_by_their_words():
    other = row((GOLD, 1.0), words=["A", "b", "d"], index=1)
    assert chosen(DependencyArcs(), {"x": [AMBIGUOUS, other]}, ["x", "a b d."])[0] == 1
    with pytest.raises(ResultsError, match="kept no examples"):
        chosen(DependencyArcs(), {"x": []})


def test_a_history_without_numbers_of_trees_is_refused():
    counted = {"epoch": 2, "dev_trees_counts": [[1, 3]], "dev_parents_counts": [[1.0, 3]]}
    data = SPARSITY.gather(runs_of({"SparseMAP": [{"epoch": 1}, counted]}))
    assert data == {"epochs": [2], "trees": [[[1, 3]]], "parents": [[[1.0, 3]]]}
    with pytest.raises(ResultsError, match="kept no numbers of trees"):
        SPARSITY.gather(runs_of({"SparseMAP": [{"epoch": 1}]}))
