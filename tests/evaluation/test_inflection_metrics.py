from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.data.sigmorphon import Inflection
from repro.evaluation.metrics import METRICS, metric_of, score_outputs
from repro.evaluation.metrics.inflection import InflectedForms, levenshtein

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
def test_levenshtein_equals_the_recursion(first, second):
    assert levenshtein(first, second) == recursive_distance(first, second)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("ü", "u\u0308", 2), ("drew", "drawed", 3)],
)
def test_levenshtein_of_known_pairs(first, second, distance):
    assert levenshtein(first, second) == levenshtein(second, first) == distance


def scores(examples: list[Inflection], predicted: list[str]) -> dict[str, float]:
    values = score_outputs("dev", InflectedForms(examples, predicted)).values
    return {name.removeprefix("dev/"): value for name, value in values.items()}


def test_accuracy_is_exact_match_without_normalization():
    gold = [Inflection("german", str(n), form, ("N",)) for n, form in enumerate(["a", "ü", "c"])]
    assert scores(gold, ["a", "u\u0308", "C"])["accuracy"] == pytest.approx(100 / 3)


def test_scores_by_language_and_macro_average():
    found = scores(EXAMPLES, ["drew", "drawed", "Häuser", "Tage", "Tages", ""])
    assert (found["accuracy/english"], found["accuracy/german"]) == (50.0, 50.0)
    assert (found["levenshtein/english"], found["levenshtein/german"]) == (1.0, 1.0)
    assert scores(EXAMPLES, ["drew", "drawn", "", "Tage", "Tags", "Tag"]) == {
        "accuracy": 87.5, "accuracy/english": 100.0, "accuracy/german": 75.0,
        "levenshtein": 0.75, "levenshtein/english": 0.0, "levenshtein/german": 1.5,
    }  # fmt: skip


def test_certificates_are_averaged_over_languages():
    gold = [Inflection(name, "a", "b", ("N",)) for name in ("en", "de", "en", "en", "en")]
    holds = [True, False, False, False, True]
    forms = InflectedForms(gold, ["b"] * 5, {"single": holds})
    assert METRICS["single"].value(forms) == (50 + 0) / 2 != 100 * 2 / 5
    assert METRICS["certified"].count(forms) is None


def test_of_duplicates_the_last_gold_and_the_last_guess_count_once():
    tags = ("V", "PST")
    gold = [
        Inflection("english", "dream", "dreamed", tags),
        Inflection("english", "dream", "dreamt", tags),
        Inflection("english", "burn", "burnt", tags),
    ]
    assert scores(gold, ["dreamed", "dreamt", "x"])["accuracy"] == 50.0
    assert scores(gold, ["dreamt", "dreamed", "x"])["accuracy"] == 0.0
    assert scores(gold, ["x", "dreamt", "burnt"])["accuracy"] == 100.0


def test_statistics_are_those_of_each_language():
    gold = [*reversed(EXAMPLES), Inflection("english", "draw", "drew", ("V", "PST"))]
    predicted = ["Tag", "Tags", "", "Häuser", "drawn", "drew", "drawed"]  # the last one counts
    found = score_outputs("test", InflectedForms(gold, predicted))
    rows = [[1, 1], [0, 1], [1, 1], [1, 1], [0, 1], [1, 1]]
    assert found.statistics["test/accuracy"].tolist() == rows
    assert found.statistics["test/accuracy.groups"].tolist() == [0, 0, 1, 1, 1, 1]
    assert found.values["test/accuracy"] == 62.5


def test_same_lemma_and_tags_of_two_languages_are_two_items():
    gold = [Inflection("dutch", "a", "b", ("N",)), Inflection("german", "a", "c", ("N",))]
    found = scores(gold, ["b", "b"])
    assert (found["accuracy/dutch"], found["accuracy/german"]) == (100.0, 0.0)


def test_metric_names_are_known():
    named = scores(EXAMPLES, [example.form for example in EXAMPLES])
    assert len(named) == 6
    assert {metric_of(f"dev/{name}").name for name in named} == {"accuracy", "levenshtein"}
