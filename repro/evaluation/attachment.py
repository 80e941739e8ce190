"""Unlabelled attachment of predicted heads, counted as the CoNLL 2017 evaluation does."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.data.errors import DataError
from repro.evaluation.sufficient_statistics import statistics_of_ratios, statistics_of_scores


@dataclass(frozen=True)
class AttachmentScores:
    """Counts over a split.

    Attributes:
        words: all words, punctuation included.
        correct: words with the right head.
        sentences: all sentences.
        exact: sentences whose every head is right.
    """

    words: int
    correct: int
    sentences: int
    exact: int

    @property
    def uas(self) -> float:
        """Unlabelled attachment score in percent."""
        return 100.0 * self.correct / self.words

    def as_metrics(self, split: str) -> dict[str, float]:
        """Values by full metric name."""
        return {
            f"{split}/uas": self.uas,
            f"{split}/exact_trees": 100.0 * self.exact / self.sentences,
        }


def attachment_statistics(
    gold: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]]
) -> dict[str, NDArray[np.float64]]:
    """What each sentence adds to the metrics, by their short names.

    Args:
        gold: as for :func:`score_attachment`.
        predicted: as there.

    Returns:
        Rows of two numbers: right heads and words; whether all are right, and one.

    Raises:
        DataError: as there.
    """
    correct = _correct_words(gold, predicted)
    lengths = [len(heads) for heads in gold]
    exact = [right == length for right, length in zip(correct, lengths, strict=True)]
    return {
        "uas": statistics_of_ratios(correct, lengths),
        "exact_trees": statistics_of_scores(exact),
    }


def score_attachment(
    gold: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]]
) -> AttachmentScores:
    """Compare predicted heads with gold ones.

    With gold words, precision, recall and F1 of the shared task's UAS are all the share of words
    whose head is right. Punctuation counts.

    Args:
        gold: for each sentence, the position of the head of each word, counted from one.
        predicted: the same sentences in the same order.

    Raises:
        DataError: sentences or words differ in number, or there are none.

    References:
        Zeman et al. (2017), §5.
    """
    correct = _correct_words(gold, predicted)
    return AttachmentScores(
        words=sum(map(len, gold)),
        correct=sum(correct),
        sentences=len(gold),
        exact=sum(right == len(heads) for right, heads in zip(correct, gold, strict=True)),
    )


def _correct_words(gold: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]]) -> list[int]:
    if len(gold) != len(predicted) or not gold:
        raise DataError(f"expected predictions for {len(gold)} sentences, found {len(predicted)}")
    return [_correct(n, *pair) for n, pair in enumerate(zip(gold, predicted, strict=True))]


def _correct(number: int, gold: Sequence[int], predicted: Sequence[int]) -> int:
    if len(gold) != len(predicted):
        raise DataError(
            f"sentence {number + 1}: expected {len(gold)} heads, found {len(predicted)}"
        )
    return sum(right == guess for right, guess in zip(gold, predicted, strict=True))
