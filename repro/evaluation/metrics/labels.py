"""Metrics of classification, and numbers that its tasks measure themselves."""

from collections.abc import Sequence
from dataclasses import dataclass

from repro.evaluation.metrics.metric import Metric, signature
from repro.evaluation.sufficient_statistics import Statistics, percentage_of_sums, ratios


@dataclass(frozen=True)
class Labels:
    """Gold and predicted label of each example."""

    gold: Sequence[str]
    predicted: Sequence[str]


def label_accuracy(labels: Labels) -> Statistics:
    """Return whether each predicted label is correct."""
    return Statistics(ratios([a == b for a, b in zip(labels.gold, labels.predicted, strict=True)]))


def label_recall(labels: Labels) -> Statistics:
    """Return whether each predicted label is correct, grouped by gold label."""
    return label_accuracy(labels)._replace(groups=labels.gold)


METRICS = (
    Metric(
        "label_accuracy", "%", 2, True, signature("acc", "micro:pair"),
        "Share of pairs with the gold label.",
        from_sums=percentage_of_sums, outputs=Labels, statistics=label_accuracy,
    ),
    Metric(
        "label_recall", "%", 2, True, signature("recall", "micro:pair"),
        "Share of the pairs of each gold label that are labeled correctly.", part="label",
        from_sums=percentage_of_sums, outputs=Labels, statistics=label_recall, recorded="parts",
    ),
    Metric("label_loss", "", 4, False, signature("loss", "mean:pair"), "Mean loss of a pair."),
    Metric(
        "premise_nonzeros", "%", 1, None, signature("attnnz", "micro:word"),
        "Share of the words of the premises with nonzero attention.",
    ),
    Metric(
        "alignment_nonzeros", "%", 1, None, signature("alignnz", "micro:cell|directions:both"),
        "Share of the pairs of words with nonzero alignment weight, both directions together.",
    ),
    Metric(
        "pairs_per_second", "pairs/s", 1, True, signature("speed", "count:pair|clock:wall"),
        "Training pairs per second of wall time.",
    ),
)  # fmt: skip
