from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.data.errors import DataError
from repro.evaluation.classification import read_labels, score_labels, write_labels

NAMES = ("entailment", "neutral", "contradiction")


def test_scores_by_hand() -> None:
    scores = score_labels(NAMES, [0, 0, 0, 2, 2], [0, 1, 0, 2, 0])
    assert scores.confusion == ((2, 1, 0), (0, 0, 0), (1, 0, 1))
    assert scores.accuracy == pytest.approx(60.0)
    assert scores.as_metrics("dev") == {
        "dev/label_accuracy": pytest.approx(60.0),
        "dev/label_recall/entailment": pytest.approx(200 / 3),
        "dev/label_recall/contradiction": pytest.approx(50.0),
    }


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1))
def test_accuracy_is_the_mean_recall_weighted_by_frequency(rows: list[tuple[int, int]]) -> None:
    gold = [right for right, _ in rows]
    scores = score_labels(NAMES, gold, [guess for _, guess in rows])
    assert scores.accuracy == pytest.approx(100 * sum(a == b for a, b in rows) / len(rows))
    shares = [gold.count(NAMES.index(name)) / len(rows) for name in scores.recall]
    weighted = sum(s * r for s, r in zip(shares, scores.recall.values(), strict=True))
    assert scores.accuracy == pytest.approx(weighted)


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        ([], [], "0 predictions for 0 gold labels"),
        ([0], [0, 1], "2 predictions for 1 gold labels"),
        ([0], [3], "from 0 to 2"),
        ([-1], [0], "from 0 to 2"),
    ],
)
def test_refusals(gold: list[int], predicted: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score_labels(NAMES, gold, predicted)


def test_labels_are_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    write_labels(path, ["ä1", "b2"], ["neutral", "entailment"])
    assert read_labels(path) == {"ä1": "neutral", "b2": "entailment"}
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        write_labels(path, ["a", "b"], ["neutral"])
    assert len(read_labels(path)) == 2


def test_malformed_labels_are_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    with pytest.raises(DataError, match=r"labels.jsonl is missing"):
        read_labels(path)
    for line in ("{", "[]", '{"id": "a"}'):
        path.write_text('{"id": "a", "label": "neutral"}\n' + line + "\n")
        with pytest.raises(DataError, match=r"labels.jsonl:2: expected the keys id and label"):
            read_labels(path)
