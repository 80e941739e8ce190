"""Scores of a classification into few labels, and predictions in a file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.data.errors import DataError
from repro.data.files import numbered_lines, parse_json_object, write_if_changed


@dataclass(frozen=True)
class ClassificationScores:
    """What a split's predictions are worth.

    Attributes:
        labels: names of the labels.
        confusion: ``confusion[gold][predicted]`` counts examples.
    """

    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]

    @property
    def accuracy(self) -> float:
        """Share of examples with the gold label, in percent."""
        right = sum(self.confusion[label][label] for label in range(len(self.labels)))
        return 100.0 * right / sum(map(sum, self.confusion))

    @property
    def recall(self) -> dict[str, float]:
        """Label to the share of its examples that are found, in percent; labels that occur."""
        rows = zip(self.labels, self.confusion, strict=True)
        return {
            name: 100.0 * row[self.labels.index(name)] / sum(row) for name, row in rows if sum(row)
        }

    def as_metrics(self, split: str) -> dict[str, float]:
        """Accuracy, and the recall of each label, by full metric name."""
        named = {f"{split}/label_accuracy": self.accuracy}
        named |= {f"{split}/label_recall/{name}": value for name, value in self.recall.items()}
        return named


def score_labels(
    labels: Sequence[str], gold: Sequence[int], predicted: Sequence[int]
) -> ClassificationScores:
    """Count every pair of gold and predicted label.

    Args:
        labels: names of the labels.
        gold: indices into ``labels``.
        predicted: likewise, one for each gold label, in the same order.

    Raises:
        ValueError: no example, a different number of predictions, or an index out of range.
    """
    if len(gold) != len(predicted) or not gold:
        raise ValueError(
            f"{len(predicted)} predictions for {len(gold)} gold labels; at least one needed"
        )
    if not {*gold, *predicted} <= set(range(len(labels))):
        raise ValueError(f"labels are numbered from 0 to {len(labels) - 1}")
    counts = [[0] * len(labels) for _ in labels]
    for right, guess in zip(gold, predicted, strict=True):
        counts[right][guess] += 1
    return ClassificationScores(tuple(labels), tuple(map(tuple, counts)))


def write_labels(path: Path, identifiers: Sequence[str], predicted: Sequence[str]) -> None:
    """Write one JSON object a line with the keys ``id`` and ``label``, atomically.

    Raises:
        ValueError: a different number of predictions.
    """
    rows = zip(identifiers, predicted, strict=True)
    lines = [
        json.dumps({"id": name, "label": label}, ensure_ascii=False) + "\n" for name, label in rows
    ]
    write_if_changed(path, "".join(lines).encode())


def read_labels(path: Path) -> dict[str, str]:
    """Read what :func:`write_labels` wrote.

    Raises:
        DataError: the file is missing or malformed; names the file and the line.
    """
    if not path.is_file():
        raise DataError(f"{path} is missing: expected predictions, one JSON object a line")
    found: dict[str, str] = {}
    for number, line in numbered_lines(path.read_bytes(), path):
        try:
            row = parse_json_object(line)
            found[row["id"]] = row["label"]
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"{path}:{number}: expected the keys id and label ({error})") from None
    return found
