"""Natural language inference."""

from repro.evaluation.metrics.metric import Metric, signed
from repro.evaluation.sufficient_statistics import percentage_of_sums

METRICS = (
    Metric(
        "label_accuracy", "%", 2, True, signed("acc", "micro:pair"),
        "Share of pairs with the gold label.",
        of_sums=percentage_of_sums,
    ),
    Metric(
        "label_recall", "%", 2, True, signed("recall", "micro:pair"),
        "Share of the pairs of one gold label that are given it.", part="label",
    ),
    Metric(
        "label_loss", "", 4, False, signed("loss", "mean:pair"),
        "Mean loss of a pair.",
    ),
    Metric(
        "premise_nonzeros", "%", 1, None, signed("attnnz", "micro:word"),
        "Share of the words of the premises with nonzero attention.",
    ),
    Metric(
        "alignment_nonzeros", "%", 1, None, signed("alignnz", "micro:cell|directions:both"),
        "Share of the pairs of words with nonzero alignment weight, both directions together.",
    ),
    Metric(
        "pairs_per_second", "pairs/s", 1, True, signed("speed", "count:pair|clock:wall"),
        "Training pairs per second of wall time.",
    ),
)  # fmt: skip
