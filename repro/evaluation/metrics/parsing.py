"""Dependency parsing."""

from repro.evaluation.metrics.metric import Metric, signed
from repro.evaluation.sufficient_statistics import percentage_of_sums

METRICS = (
    Metric(
        "uas", "%", 2, True, signed("uas", "micro:word|punctuation:counted|tokens:gold"),
        "Share of words whose head is right, punctuation included, as in CoNLL 2017.",
        of_sums=percentage_of_sums,
    ),
    Metric(
        "exact_trees", "%", 2, True, signed("exact", "micro:sentence|tokens:gold"),
        "Share of sentences whose every head is right.",
        of_sums=percentage_of_sums,
    ),
    Metric(
        "tree_loss", "", 4, False, signed("loss", "mean:sentence"),
        "Mean structured loss of a sentence.",
    ),
    Metric(
        "trees", "trees", 2, None, signed("trees", "mean:sentence|inference:sparsemap"),
        "Mean number of trees with nonzero weight.",
    ),
    Metric(
        "parents", "heads", 3, None, signed("parents", "mean:sentence|inference:sparsemap"),
        "Mean number of heads per word with nonzero probability, averaged over sentences.",
    ),
    Metric(
        "single_tree", "%", 1, None, signed("single", "micro:sentence|inference:sparsemap"),
        "Share of sentences with all weight on a single tree.",
    ),
    Metric(
        "sentences_per_second", "sentences/s", 1, True, signed("speed", "clock:wall"),
        "Training sentences per second of wall time.",
    ),
    Metric(
        "inference_share", "", 3, None, signed("inference", "part:loss-forward|clock:wall"),
        "Share of training time spent in the loss with its structured inference.",
    ),
)  # fmt: skip
