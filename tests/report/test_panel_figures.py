"""Figures that show what several runs make of the same sentence."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from figure_runs import chosen, runs_of
from measured import measurement

from repro.config.schema.mapping import FusedmaxConfig
from repro.data.vocabulary import SINK
from repro.prediction import AttentionMap, Prediction
from repro.report.figure_view import figure_view
from repro.report.figures import FigureData, figure_kind
from repro.report.figures.attention import draw_example
from repro.report.figures.comparison import Sentence, choose_sentences, shown_sentences
from repro.report.figures.heatmap import clusters
from repro.report.figures.kinds import OWN, RULE, choice_in_words
from repro.report.figures.predictions import draw_predictions
from repro.report.figures.sentence_panels import NOT_SHOWN, SentencePanels, repeated_words
from repro.report.figures.translations import MISSED, MISTAKEN, Translations, common_words
from repro.results import ResultsError

pytestmark = pytest.mark.usefixtures("plain")

Row = dict[str, Any]


def kept(index: int, source: str, output: str, gold: str = "x y", **changes: Any) -> Row:
    """One stored example; all attention on the first word."""
    words, symbols = source.split(), [*output.split(), "</s>"]
    weights = [[1.0] + [0.0] * (len(words) - 1) for _ in symbols]
    row: Row = {
        "index": index, "language": "a to b", "source": words, "output": symbols, "gold": gold,
        "separator": " ", "weights": weights,
    }  # fmt: skip
    return row | changes


LONGER, SHORTER = figure_kind("longer_summary"), figure_kind("shorter_summary")


def common(kept: Any) -> list[Sentence]:
    return shown_sentences(choose_sentences(runs_of(kept), lambda one: (one.row["index"],), 9, ""))


def runs(*outputs: str, names: Sequence[str] = ("fusedmax", "oscarmax", "softmax")) -> Any:
    """Three runs that all kept three sentences; one text of outputs ``a|b|c`` for each run."""
    return {
        name: [kept(n, f"{'w ' * (n + 2)}", output) for n, output in enumerate(texts.split("|"))]
        for name, texts in zip(names, outputs, strict=True)
    }


def test_equal_weights_are_one_cluster_wherever_they_stand():
    assert clusters([0.25, 0.0, 0.25, 0.5, 0.0]) == [[0, 2]]
    assert clusters([0.1, 0.4, 0.4, 0.1]) == [[1, 2], [0, 3]]
    assert clusters([0.1, 0.2, 0.3, 0.4, 0.0, 0.0]) == []
    third = 1 / 3
    assert clusters([third, 1 - third - third, third]) == [[0, 1, 2]]


def test_sentences_are_joined_by_their_place_and_keep_what_each_run_says():
    found = {"x": [kept(0, "a b", "p"), kept(1, "c", "q")], "y": [kept(1, "c", "r")]}
    (sentence,) = common(found)
    assert (sentence.row["index"], sentence.source) == (1, ["c"])
    assert {p.label: (p.mapping, p.words) for p in sentence.panels} == {
        "x": ("x", ["q"]),
        "y": ("y", ["r"]),
    }


def test_a_sink_is_no_word_of_the_sentence():
    free, bounded = kept(0, "a b", "p"), kept(0, f"a b {SINK}", "q")
    (sentence,) = common({"bounded": [bounded], "free": [free]})
    assert sentence.source == ["a", "b"]
    assert [[*panel.columns] for panel in sentence.panels] == [["a", "b", SINK], ["a", "b"]]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([kept(5, "a b", "p")], "kept no examples"),
        ([kept(0, "a b", "p", gold="z")], "read different texts"),
        ([kept(0, "a c", "p")], "read different texts"),
    ],
)
def test_runs_that_cannot_be_joined_are_refused(other, message):
    with pytest.raises(ResultsError, match=message):
        common({"x": [kept(0, "a b", "p")], "y": other})


def test_the_longest_sources_that_fit_are_shown_once():
    rows = [
        kept(n, source, "p") for n, source in enumerate(["a", "b c", "b c", "d e f", "g h i j"])
    ]
    assert chosen(SentencePanels(3, 3), {"x": rows}) == [3, 1, 0]
    assert chosen(SentencePanels(2, 3), {"x": rows[::-1]}, ["A!"]) == [0, 3]
    long = kept(9, "k l m", "p " * 8)
    assert chosen(SentencePanels(9, 3), {"x": [*rows, long]}) == [3, 1, 0, 9, 4]


def test_the_longer_summary_is_where_fusedmax_says_most_more():
    found = runs("a a|a a a a|a a", "a|a a a|a a", "a|a|a a a")
    assert chosen(LONGER, found) == [1]  # 4 - 3 = 2 - 1, the longer source
    found = runs("a a|a a a|a a", "a|a a a|a a", "a|a|a a a")
    assert chosen(LONGER, found) == [0]


def test_the_shorter_summary_is_where_both_say_least():
    found = runs("a|a a|a", "a a|a a|a a a", "a a a|a a a a|a a")
    assert chosen(SHORTER, found) == [1]
    row = SHORTER.gather(runs_of(found, []))
    assert SHORTER.remark(row) == (
        "Words of the outputs: fusedmax 2, oscarmax 2, softmax 4. "
        "Weights of softmax below the least single-precision number are zero."
    )


def test_a_figure_without_a_sentence_that_shows_its_point_says_so():
    found = runs("a|b|c", "a|b|c", "a|b|c", names=("fusedmax", "oscarmax", "sparsemax"))
    for kind in (LONGER, SHORTER):
        closest = kind.gather(runs_of(found))
        assert [one["index"] for one in closest["sentences"]] == [2]  # the longest source
        assert kind.remark(closest).startswith(NOT_SHOWN)
        preferred = kind.gather(runs_of(found, ["w w w"]))
        assert [(one["index"], one[OWN]) for one in preferred["sentences"]] == [(1, True)]
        assert NOT_SHOWN not in kind.remark(preferred)
    longer = runs("a|a a a|a", "a|a|a", "a|a|a")
    for longest, index, said in ((3, 1, True), (2, 0, False)):  # with two, the longer does not fit
        kind = replace(LONGER, longest=longest)
        assert chosen(kind, longer) == [index]
        assert (NOT_SHOWN not in kind.remark(kind.gather(runs_of(longer)))) == said


def test_the_section_names_the_runs_of_every_row(tmp_path, figure_experiment):
    example = LONGER.gather(runs_of(runs("a|b|c", "a|b|c", "a|b|c")))
    example["runs"] = {"softmax": "aa", "fusedmax": "bb"}
    data = FigureData("paper2020/figure9", "longer_summary", example, record=measurement())
    view = figure_view(tmp_path, "demo", figure_experiment, data, "demo")
    assert "softmax aa, fusedmax bb" in view.run


def test_sentences_of_other_splits_are_shown_on_request_only():
    rows = [
        kept(0, "a b c", "p", gold="q"),
        kept(0, "d@@ e Φ .", "p", gold="x@@ y !", split="test"),
    ]
    kind = SentencePanels(2, 9)
    (shown,) = kind.gather(runs_of({"x": rows}))["sentences"]
    assert (shown["index"], shown[OWN]) == (0, False)
    for name in ("DE φ", "XY!"):
        both = kind.gather(runs_of({"x": rows, "y": rows[::-1]}, [name, "unheard of"]))
        assert [(one["split"], one[OWN]) for one in both["sentences"]] == [
            ("test", True), ("dev", False)
        ]  # fmt: skip
        choice = choice_in_words({**both, RULE: "the longest"})
        assert choice == (
            "The paper's own: test example 1. Chosen by a rule, the longest: validation example 1."
        )


def test_rules_need_the_runs_they_speak_of():
    with pytest.raises(ResultsError, match="no run uses fusedmax or oscarmax"):
        SHORTER.gather(runs_of({"softmax": [kept(0, "a", "p")]}))


def boxes(figure: Any) -> list[Any]:
    """Bounding boxes of all texts of a figure."""
    figure.draw_without_rendering()
    ticks = [
        t for a in figure.axes if a.axison for t in (*a.get_xticklabels(), *a.get_yticklabels())
    ]
    texts = [
        *figure.texts,
        *ticks,
        *(a.title for a in figure.axes),
        *(a._left_title for a in figure.axes),
    ]
    return [text.get_window_extent() for text in texts if text.get_text()]


@pytest.mark.parametrize(("words", "names"), [(4, ["oscarmax"]), (24, [*"abcd", "oscarmax"])])
def test_texts_do_not_overlap_and_stay_inside(words, names):
    source = " ".join(["international"] * words)
    rows = {
        name: [
            kept(n, f"{source}{n}", "internationally " * 3, gold=f"{source} " * 2) for n in range(3)
        ]
        for name in names
    }
    kind = SentencePanels(3, 24)
    figure = kind.draw(kind.gather(runs_of(rows)))
    found = boxes(figure)
    for number, one in enumerate(found):
        assert figure.bbox.x0 <= one.x0 <= one.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= one.y0 <= one.y1 <= figure.bbox.y1
        assert not any(one.overlaps(other) for other in found[number + 1 :])


def test_panels_in_words():
    kind = SentencePanels(2, 9)
    row = kind.gather(runs_of(runs("a|b|c", "a|b|d", "a|b|c")))
    assert "2 sentences. Nonzero weights: fusedmax: 4 of 14; oscarmax" in kind.describe(row)
    assert "oscarmax gives" not in kind.remark(row)
    assert "softmax below the least" in kind.remark(row)


def test_groups_of_oscarmax_have_bullets_and_no_lines_inside(monkeypatch):
    line = [0.0, 0.3, 0.3, 0.4, 0.0]
    rows = {name: [kept(0, "a b c d e", "", weights=[line])] for name in ("fusedmax", "oscarmax")}
    kind = SentencePanels(1, 9)
    row = kind.gather(runs_of(rows))
    figure = kind.draw(row)
    fused, oscar, _ = figure.axes
    for axes in (fused, oscar):
        zeros, borders = axes.lines[:2]
        assert [*zeros.get_xdata()] == [0.5, 4.5]
        assert {x for x in borders.get_xdata() if x == x} == {1, 3, 4}
    assert [[*one.get_xdata()] for one in oscar.lines[2:]] == [[1.5, 2.5]]
    assert len(fused.lines) == 2
    assert "Words to which oscarmax gives equal weights bear the same bullet" in kind.remark(row)
    monkeypatch.setattr(FusedmaxConfig, "clusters", True)  # as one of an extension may
    assert len(kind.draw(row).axes[0].lines) == 3
    assert "Words to which fusedmax or oscarmax gives" in kind.remark(row)


def test_repeated_words_are_bold():
    said, gold = "die al@@ te , al@@ te , die stadt", "die stadt die , la@@ st"
    kind = SentencePanels(1, 9, repetitions=True)
    row = kind.gather(runs_of({"softmax": [kept(0, "a b", said, gold=gold)]}))
    (sentence,) = shown_sentences(row)
    assert repeated_words(sentence.panels[0].words, sentence) == ["alte"]
    axes = kind.draw(row).axes[0]
    bold = [label.get_text() for label in axes.get_yticklabels() if label.get_weight() == "bold"]
    assert bold == ["al@@", "te", "al@@", "te"]
    assert "alte" in kind.remark(row)
    assert "alte" not in SentencePanels(1, 9).remark(row)


def test_a_word_that_occurs_again_in_another_phrase_is_no_repetition():
    """Articles of a sentence recur; a phrase that is said twice is marked."""
    said, gold = "a man with a hat on a bench in a park", "the man on the bench wears a hat"
    (sentence,) = common({"softmax": [kept(0, "x y", said, gold=gold)]})
    assert repeated_words(sentence.panels[0].words, sentence) == []
    assert repeated_words(["a", "man", "saw", "a", "man"], sentence) == ["a", "man"]


def test_a_figure_about_repetitions_shows_sentences_with_some():
    examples = [kept(0, "a b c d", "x y z"), kept(1, "a b", "x y x y"), kept(2, "a b c", "p q")]
    figure = figure_kind("attention_to_two_translated")
    data = figure.gather(runs_of({"softmax": examples}, []))
    assert [one["index"] for one in data["sentences"]] == [1, 0]
    assert NOT_SHOWN not in figure.remark(data)


def test_an_alignment_of_two_sentences_is_drawn_as_an_example():
    row = {
        "premise": ["a", "b"], "hypothesis": ["c"], "gold": "neutral", "predicted": "neutral",
        "premise_to_hypothesis": [[1.0], [0.0]], "hypothesis_to_premise": [[1.0, 0.0]],
    }  # fmt: skip
    canvas, description = draw_example(row, "sparsemap")
    assert "premise: a b" in description
    assert canvas.svg("example")


def test_four_panels_stand_two_by_two_where_four_are_too_wide():
    def panels_of(names: str, words: int) -> list[Any]:
        kind = SentencePanels(1, words)
        rows = {name: [kept(0, "word " * words, "p q r")] for name in names}
        return kind.draw(kind.gather(runs_of(rows))).axes[:-1]

    panels = panels_of("abcd", 20)
    places = [
        (round(axes.get_position().x0, 3), round(axes.get_position().y0, 3)) for axes in panels
    ]
    assert len({x for x, _ in places}) == len({y for _, y in places}) == 2
    named = [bool(axes.get_xticklabels()) for axes in panels]
    assert named == [False, False, True, True]
    assert len({round(axes.get_position().x0, 3) for axes in panels_of("abc", 28)}) == 1


def test_dollar_signs_of_an_input_are_text():
    source = ["$_$", "b"]
    prediction = Prediction("x", "x", source, attention=AttentionMap(torch.eye(2), "xy", source))
    canvas = draw_predictions([{"softmax": prediction}])
    assert "$_$ b" in canvas.svg("figure")
    assert canvas.png()


def brute_force_length(one: Sequence[str], other: Sequence[str]) -> int:
    if not one or not other:
        return 0
    rest = max(brute_force_length(one[1:], other), brute_force_length(one, other[1:]))
    return max(rest, 1 + brute_force_length(one[1:], other[1:])) if one[0] == other[0] else rest


@pytest.mark.parametrize(
    ("one", "other"),
    [("a b c a", "c a b a"), ("so you know you know", "like that you know"), ("a", "b"), ("", "a")],
)
def test_common_words_are_a_longest_common_subsequence(one, other):
    first, second = common_words(one.split(), other.split())
    words = [one.split()[n] for n in sorted(first)]
    assert words == [other.split()[n] for n in sorted(second)]
    assert len(words) == brute_force_length(one.split(), other.split())


def test_the_sentences_about_which_runs_differ_most_are_shown_first():
    found = {
        "x": [kept(0, "a", "x y"), kept(1, "b", "x y"), kept(2, "c", "x y")],
        "y": [kept(0, "a", "x y"), kept(1, "b", "z"), kept(2, "c", "x z")],
    }
    assert chosen(Translations(), found) == [1, 2, 0]
    assert chosen(Translations(), found, ["A"]) == [0, 1, 2]


def test_missing_words_are_blue_and_wrong_ones_red():
    found = {"x": [kept(0, "a@@ b c", "x y y")], "y": [kept(0, "a@@ b c", "y")]}
    row = Translations().gather(runs_of(found))
    figure = Translations().draw(row)
    assert all(box.y0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes(figure))
    texts = [(text.get_text(), text.get_color()) for text in figure.axes[0].texts]
    colored = [(text, color) for text, color in texts if color in (MISSED, MISTAKEN)]
    assert colored == [("x", MISSED), ("y", MISTAKEN)]
    assert [text for text, _ in texts][:5] == ["input", "ab c", "reference", "x", "y"]
    assert "1 sentences with their reference and translations by x, y" in Translations().describe(
        row
    )
    assert Translations().remark(row) == "Immediate repetitions: x 1, y 0."
