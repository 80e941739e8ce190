import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.evaluation.metrics import METRICS, score_outputs
from repro.evaluation.metrics.labels import Labels

NAMES = ("entailment", "neutral", "contradiction")


def named(numbers: list[int]) -> list[str]:
    return [NAMES[number] for number in numbers]


def test_scores_by_hand():
    values = score_outputs("dev", Labels(named([0, 0, 0, 2, 2]), named([0, 1, 0, 2, 0]))).values
    assert values == {
        "dev/label_accuracy": pytest.approx(60.0),
        "dev/label_recall/entailment": pytest.approx(200 / 3),
        "dev/label_recall/contradiction": pytest.approx(50.0),
    }


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1))
def test_accuracy_is_the_mean_recall_weighted_by_frequency(rows):
    gold, guesses = (named(list(side)) for side in zip(*rows, strict=True))
    values = score_outputs("test", Labels(gold, guesses)).values
    weighted = sum(values[f"test/label_recall/{n}"] * gold.count(n) for n in set(gold)) / len(rows)
    assert values["test/label_accuracy"] == pytest.approx(weighted)
    right = sum(a == b for a, b in rows)
    assert METRICS["label_accuracy"].value(Labels(gold, guesses)) == pytest.approx(
        100 * right / len(rows)
    )
