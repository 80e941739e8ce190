from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.data.errors import DataError
from repro.data.sigmorphon import Inflection
from repro.evaluation.inflection import (
    align_predictions,
    inflection_statistics,
    levenshtein,
    macro_percentage,
    read_predictions,
    score_inflections,
    word_accuracy,
    write_predictions,
)
from repro.evaluation.metrics import metric_of
from repro.evaluation.significance import metric_value
from repro.evaluation.sufficient_statistics import percentage_of_sums

short = st.text(alphabet="abü", max_size=6)

EXAMPLES = [
    Inflection("english", "draw", "drew", ("V", "PST")),
    Inflection("english", "draw", "drawn", ("V.PTCP", "PST")),
    Inflection("german", "Haus", "Häuser", ("N", "NOM", "PL")),
    Inflection("german", "Tag", "Tage", ("N", "NOM", "PL")),
    Inflection("german", "Tag", "Tags", ("N", "GEN", "SG")),
    Inflection("german", "Tag", "Tag", ("N", "NOM", "SG")),
]


def recursive_distance(first: str, second: str) -> int:
    """The definition, by recursion over the lengths of the two beginnings."""

    @cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        if first[i - 1] == second[j - 1]:
            return distance(i - 1, j - 1)
        return 1 + min(distance(i - 1, j), distance(i, j - 1), distance(i - 1, j - 1))

    return distance(len(first), len(second))


@given(short, short)
def test_levenshtein_equals_the_recursion(first: str, second: str) -> None:
    assert levenshtein(first, second) == recursive_distance(first, second)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("ü", "u\u0308", 2), ("drew", "drawed", 3)],
)
def test_levenshtein_of_known_pairs(first: str, second: str, distance: int) -> None:
    assert levenshtein(first, second) == levenshtein(second, first) == distance


def test_word_accuracy_is_exact_match_in_percent() -> None:
    assert word_accuracy(["a", "ü", "c", ""], ["a", "u\u0308", "C", ""]) == 50.0


def test_scores_by_language_and_macro_average() -> None:
    predicted = ["drew", "drawed", "Häuser", "Tage", "Tages", ""]
    scores = score_inflections(EXAMPLES, predicted)
    assert scores.accuracy == {"english": 50.0, "german": 50.0}
    assert scores.levenshtein == {"english": 1.0, "german": 1.0}
    scores = score_inflections(EXAMPLES, ["drew", "drawn", "", "Tage", "Tags", "Tag"])
    assert scores.accuracy == {"english": 100.0, "german": 75.0}
    assert scores.levenshtein == {"english": 0.0, "german": 1.5}
    assert scores.macro_accuracy == 87.5
    assert scores.macro_levenshtein == 0.75


def test_percentages_are_averaged_over_languages() -> None:
    languages = ["english", "german", "english", "english", "english"]
    holds = [True, False, False, False, True]
    assert macro_percentage(languages, holds) == (50 + 0) / 2 != 100 * 2 / 5
    with pytest.raises(ValueError, match="4 predictions for 5"):
        macro_percentage(languages, holds[:4])


def test_of_duplicates_the_last_gold_and_the_last_guess_count_once() -> None:
    tags = ("V", "PST")
    gold = [
        Inflection("english", "dream", "dreamed", tags),
        Inflection("english", "dream", "dreamt", tags),
        Inflection("english", "burn", "burnt", tags),
    ]
    assert score_inflections(gold, ["dreamed", "dreamt", "x"]).accuracy == {"english": 50.0}
    assert score_inflections(gold, ["dreamt", "dreamed", "x"]).accuracy == {"english": 0.0}
    assert score_inflections(gold, ["x", "dreamt", "burnt"]).accuracy == {"english": 100.0}


def test_statistics_of_each_language_give_the_accuracy() -> None:
    gold = [*reversed(EXAMPLES), Inflection("english", "draw", "drew", ("V", "PST"))]
    predicted = ["Tag", "Tags", "", "Häuser", "drawn", "drew", "drawed"]  # the last one counts
    rows, languages = inflection_statistics(gold, predicted)
    assert rows.tolist() == [[1, 1], [0, 1], [1, 1], [1, 1], [0, 1], [1, 1]]
    assert languages.tolist() == [0, 0, 1, 1, 1, 1]
    value = metric_value(rows, percentage_of_sums, languages.tolist())
    assert value == score_inflections(gold, predicted).macro_accuracy == 62.5


def test_same_lemma_and_tags_of_two_languages_are_two_items() -> None:
    gold = [Inflection("dutch", "a", "b", ("N",)), Inflection("german", "a", "c", ("N",))]
    assert score_inflections(gold, ["b", "b"]).accuracy == {"dutch": 100.0, "german": 0.0}


def test_metric_names_are_known() -> None:
    named = score_inflections(EXAMPLES, [example.form for example in EXAMPLES]).as_metrics("dev")
    assert named["dev/accuracy"] == 100.0
    assert named["dev/levenshtein/german"] == 0.0
    assert len(named) == 6
    assert {metric_of(name).name for name in named} == {"accuracy", "levenshtein"}


@pytest.mark.parametrize("predicted", [[], ["a"], ["a"] * 7])
def test_wrong_number_of_predictions_is_refused(predicted: list[str]) -> None:
    with pytest.raises(ValueError, match=f"{len(predicted)} predictions for 6 gold examples"):
        score_inflections(EXAMPLES, predicted)
    with pytest.raises(ValueError, match="0 predictions for 0 gold"):
        word_accuracy([], [])


def test_predictions_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "predictions" / "test-german.tsv"
    predicted = ["Häuser ", "", "Ta\u2028gs", "Tag"]
    write_predictions(path, EXAMPLES[2:], predicted)
    first = path.read_text(encoding="utf-8").split("\n")[0]
    assert first == "Haus\tHäuser \tN;NOM;PL"
    assert align_predictions(EXAMPLES[2:], read_predictions(path)) == predicted


def test_missing_guess_is_empty_and_last_guess_counts(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_text("draw\tdrawed\tV;PST\ndraw\tdrew\tV;PST\n", encoding="utf-8")
    assert align_predictions(EXAMPLES[:2], read_predictions(path)) == ["drew", ""]


@pytest.mark.parametrize("form", ["a\tb", "a\nb"])
def test_unwritable_prediction_leaves_no_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / "p.tsv"
    with pytest.raises(ValueError, match="cannot stand in a TSV"):
        write_predictions(path, EXAMPLES[:1], [form])
    assert not path.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a\tb\tN\na\tb\n", r"p.tsv:2: .*found 2 field"), (b"\xff\tb\tN\n", "p.tsv:1: not UTF-8")],
)
def test_malformed_predictions_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "p.tsv"
    with pytest.raises(DataError, match=r"p.tsv is missing"):
        read_predictions(path)
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_predictions(path)
