"""Figures that show what several runs make of the same sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from matplotlib.colors import to_hex

from repro.report.attention_panels import (
    REPETITIONS,
    describe_attention_panels,
    draw_attention_panels,
    remark_attention_panels,
    repeated_words,
)
from repro.report.canvas import plain_style
from repro.report.choice import MISSING, OWN, RULE, choice_in_words
from repro.report.compared_sentences import (
    SINK,
    common_sentences,
    compared_sentence,
    shown_sentences,
)
from repro.report.panel_choice import (
    gather_longer_summary,
    gather_sentences,
    gather_shorter_summary,
    remark_summaries,
)
from repro.report.strips import ZERO, clusters
from repro.report.translations import (
    MISSED,
    MISTAKEN,
    common_words,
    describe_translations,
    draw_translations,
    gather_translations,
    remark_translations,
)
from repro.results import ResultsError

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


def shown(found: Mapping[str, Any]) -> list[int]:
    return [row["index"] for row in found["sentences"]]


def runs(*outputs: str, names: Sequence[str] = ("fusedmax", "oscarmax", "softmax")) -> Any:
    """Three runs that all kept three sentences; one text of outputs ``a|b|c`` for each run."""
    return {
        name: [kept(n, f"{'w ' * (n + 2)}", output) for n, output in enumerate(texts.split("|"))]
        for name, texts in zip(names, outputs, strict=True)
    }


def test_equal_weights_are_one_cluster_wherever_they_stand() -> None:
    assert clusters([0.25, 0.0, 0.25, 0.5, 0.0]) == [[0, 2]]
    assert clusters([0.1, 0.4, 0.4, 0.1]) == [[1, 2], [0, 3]]
    assert clusters([0.1, 0.2, 0.3, 0.4, 0.0, 0.0]) == []
    third = 1 / 3
    assert clusters([third, 1 - third - third, third]) == [[0, 1, 2]]


def test_sentences_are_joined_by_their_place_and_keep_what_each_run_says() -> None:
    found = common_sentences(
        {"x": [kept(0, "a b", "p"), kept(1, "c", "q")], "y": [kept(1, "c", "r")]}
    )
    (row,) = found
    sentence = compared_sentence(row)
    assert (sentence.index, sentence.source) == (1, ("c",))
    assert {name: sentence.words(name) for name in "xy"} == {"x": ["q"], "y": ["r"]}


def test_a_sink_is_no_word_of_the_sentence() -> None:
    free, bounded = kept(0, "a b", "p"), kept(0, f"a b {SINK}", "q")
    sentence = compared_sentence(common_sentences({"bounded": [bounded], "free": [free]})[0])
    assert sentence.source == ("a", "b")
    assert sentence.panels["bounded"].source[-1] == SINK


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([kept(5, "a b", "p")], "no sentence in common"),
        ([kept(0, "a b", "p", gold="z")], "read other sentences"),
        ([{"index": 0}], "missing or malformed"),
        ([{}], "missing or malformed"),
    ],
)
def test_runs_that_cannot_be_joined_are_refused(other: list[Row], message: str) -> None:
    with pytest.raises(ResultsError, match=message):
        common_sentences({"x": [kept(0, "a b", "p")], "y": other})


@pytest.mark.parametrize("source", ["a c", f"a b {SINK} {SINK}"])
def test_runs_of_other_words_are_refused(source: str) -> None:
    (row,) = common_sentences({"x": [kept(0, "a b", "p")]})
    row["panels"]["y"] = kept(0, source, "p")
    with pytest.raises(ResultsError, match="all of them of the same source"):
        compared_sentence(row)


def test_the_longest_sources_that_fit_are_shown_once() -> None:
    rows = [
        kept(n, source, "p") for n, source in enumerate(["a", "b c", "b c", "d e f", "g h i j"])
    ]
    assert shown(gather_sentences({"x": rows}, [], 3, 3)) == [3, 1, 0]
    assert shown(gather_sentences({"x": rows[::-1]}, ["A!"], 2, 3)) == [0, 3]
    long = kept(9, "k l m", "p " * 8)
    assert shown(gather_sentences({"x": [*rows, long]}, [], 9, 3)) == [3, 1, 0, 9, 4]


def test_the_longer_summary_is_where_fusedmax_says_most_more() -> None:
    found = runs("a a|a a a a|a a", "a|a a a|a a", "a|a|a a a")
    assert shown(gather_longer_summary(found, [], 9)) == [1]  # 4 - 3 = 2 - 1, the longer source
    found = runs("a a|a a a|a a", "a|a a a|a a", "a|a|a a a")
    assert shown(gather_longer_summary(found, [], 9)) == [0]


def test_the_shorter_summary_is_where_both_say_least() -> None:
    found = runs("a|a a|a", "a a|a a|a a a", "a a a|a a a a|a a")
    assert shown(gather_shorter_summary(found, [], 9)) == [1]
    row = gather_shorter_summary(found, [], 9)
    assert remark_summaries(row) == (
        "Words of the outputs: fusedmax 2, oscarmax 2, softmax 4. "
        "Weights of softmax below the least single-precision number are zero."
    )


def test_a_figure_without_a_sentence_that_shows_its_point_has_no_example() -> None:
    found = runs("a|b|c", "a|b|c", "a|b|c", names=("fusedmax", "oscarmax", "sparsemax"))
    for gather in (gather_longer_summary, gather_shorter_summary):
        assert gather(found, [], 9).keys() == {MISSING}
        preferred = gather(found, ["w w w"], 9)
        assert (shown(preferred), preferred["sentences"][0][OWN]) == ([1], True)
    longer = runs("a|a a a|a", "a|a|a", "a|a|a")
    assert shown(gather_longer_summary(longer, [], 3)) == [1]
    assert gather_longer_summary(longer, [], 2).keys() == {MISSING}  # the sentence does not fit


def test_sentences_of_other_splits_are_shown_on_request_only() -> None:
    rows = [
        kept(0, "a b c", "p", gold="q"),
        kept(0, "d@@ e Φ .", "p", gold="x@@ y !", split="test"),
    ]
    assert gather_sentences({"x": rows}, [], 2, 9)["sentences"][0][OWN] is False
    assert shown(gather_sentences({"x": rows}, [], 2, 9)) == [0]
    for name in ("DE φ", "XY!"):
        both = gather_sentences({"x": rows, "y": rows[::-1]}, [name, "unheard of"], 2, 9)
        assert [(one["split"], one[OWN]) for one in both["sentences"]] == [
            ("test", True), ("dev", False)
        ]  # fmt: skip
        choice = choice_in_words({**both, RULE: "the longest"})
        assert choice == (
            "The paper's own: test example 1. Chosen by a rule, the longest: validation example 1."
        )


def test_repeated_words_are_bold_and_zeros_white() -> None:
    said, gold = "die al@@ te , al@@ te , die stadt", "die stadt die , la@@ st"
    rows = {"softmax": [kept(0, "a b", said, gold=gold)]}
    row = gather_sentences(rows, [], 1, 9)
    (sentence,) = shown_sentences(row)
    assert repeated_words(sentence.words("softmax"), sentence) == ["alte"]
    with plain_style():
        axes = draw_attention_panels(row, REPETITIONS).axes[0]
    bold = [label.get_text() for label in axes.get_yticklabels() if label.get_weight() == "bold"]
    assert bold == ["al@@", "te", "al@@", "te"]
    assert {to_hex(patch.get_facecolor()) for patch in axes.patches[1:2]} == {"#ffffff"}
    assert "alte" in remark_attention_panels(row, REPETITIONS)
    assert "alte" not in remark_attention_panels(row)


def test_rules_need_the_runs_they_speak_of() -> None:
    with pytest.raises(ResultsError, match="no run is labelled oscarmax"):
        gather_shorter_summary({"fusedmax": [kept(0, "a", "p")]}, [], 9)


def test_panels_are_grey_at_zero_without_borders_inside_groups() -> None:
    line = [0.0, 0.3, 0.3, 0.4, 0.0]
    rows = {name: [kept(0, "a b c d e", "", weights=[line])] for name in ("fusedmax", "oscarmax")}
    with plain_style():
        figure = draw_attention_panels(gather_sentences(rows, [], 1, 9))
    first, second = figure.axes[:2]
    for axes in (first, second):
        colours = [to_hex(patch.get_facecolor()) for patch in axes.patches]
        assert colours[0] == colours[4] == ZERO
        assert colours[1] == colours[2] not in (ZERO, colours[3])
        upright = {line.get_xdata()[0] for line in axes.lines if len({*line.get_xdata()}) == 1}
        assert upright == {1, 3, 4}
    marked = [[*line.get_xdata()] for line in second.lines if line.get_marker() == "o"]
    assert marked == [[1.5, 2.5]]
    assert not [line for line in first.lines if line.get_marker() == "o"]


def boxes(figure: Any) -> list[Any]:
    """Where all texts of a figure stand."""
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
def test_texts_do_not_overlap_and_stay_inside(words: int, names: list[str]) -> None:
    source = " ".join(["international"] * words)
    rows = {
        name: [
            kept(n, f"{source}{n}", "internationally " * 3, gold=f"{source} " * 2) for n in range(3)
        ]
        for name in names
    }
    with plain_style():
        figure = draw_attention_panels(gather_sentences(rows, [], 3, 24))
        found = boxes(figure)
    for number, one in enumerate(found):
        assert figure.bbox.x0 <= one.x0 <= one.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= one.y0 <= one.y1 <= figure.bbox.y1
        assert not any(one.overlaps(other) for other in found[number + 1 :])


def test_panels_in_words() -> None:
    row = gather_sentences(runs("a|b|c", "a|b|d", "a|b|c"), [], 2, 9) | {"runs": {"fusedmax": "f1"}}
    assert "'w w w w' (a to b): fusedmax: 'c', 2 of 8 weights are nonzero; oscarmax: 'd'" in (
        describe_attention_panels(row)
    )
    assert remark_attention_panels(row) == (
        "Weights of softmax below the least single-precision number are zero. Runs: fusedmax f1."
    )


def test_malformed_panels_are_refused() -> None:
    with pytest.raises(ResultsError, match="at least one sentence"):
        draw_attention_panels({"sentences": []})
    row = gather_sentences({"x": [kept(0, "a b", "p")]}, [], 1, 9)
    row["sentences"][0]["panels"]["x"]["weights"] = [[1.0, 0.5]] * 2
    with pytest.raises(ResultsError, match="no distribution"):
        draw_attention_panels(row)


def brute_force_length(one: Sequence[str], other: Sequence[str]) -> int:
    if not one or not other:
        return 0
    rest = max(brute_force_length(one[1:], other), brute_force_length(one, other[1:]))
    return max(rest, 1 + brute_force_length(one[1:], other[1:])) if one[0] == other[0] else rest


@pytest.mark.parametrize(
    ("one", "other"),
    [("a b c a", "c a b a"), ("so you know you know", "like that you know"), ("a", "b"), ("", "a")],
)
def test_common_words_are_a_longest_common_subsequence(one: str, other: str) -> None:
    first, second = common_words(one.split(), other.split())
    words = [one.split()[n] for n in sorted(first)]
    assert words == [other.split()[n] for n in sorted(second)]
    assert len(words) == brute_force_length(one.split(), other.split())


def test_the_sentences_about_which_runs_differ_most_are_shown_first() -> None:
    found = {
        "x": [kept(0, "a", "x y"), kept(1, "b", "x y"), kept(2, "c", "x y")],
        "y": [kept(0, "a", "x y"), kept(1, "b", "z"), kept(2, "c", "x z")],
    }
    assert shown(gather_translations(found, [])) == [1, 2, 0]
    assert shown(gather_translations(found, ["A"])) == [0, 1, 2]


def test_missing_words_are_blue_and_wrong_ones_red() -> None:
    found = {"x": [kept(0, "a@@ b c", "x y y")], "y": [kept(0, "a@@ b c", "y")]}
    row = gather_translations(found, [])
    with plain_style():
        figure = draw_translations(row)
        assert all(box.y0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes(figure))
    texts = [(text.get_text(), text.get_color()) for text in figure.axes[0].texts]
    coloured = [(text, colour) for text, colour in texts if colour in (MISSED, MISTAKEN)]
    assert coloured == [("x", MISSED), ("y", MISTAKEN)]
    assert [text for text, _ in texts][:6] == ["input", "ab", "c", "reference", "x", "y"]
    assert "'ab c': reference: 'x y'; x: 'x y y'; y: 'y'" in describe_translations(row)
    assert remark_translations(row) == "Immediate repetitions: x 1, y 0."
