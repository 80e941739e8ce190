"""Morphological inflection, and probabilities of hypotheses."""

from repro.evaluation.metrics.metric import Metric, signed
from repro.evaluation.sufficient_statistics import percentage_of_sums

_SCORER = "macro:language|scorer:evalm2018"

METRICS = (
    Metric(
        "accuracy", "%", 2, True, signed("acc", _SCORER),
        "Share of forms that are predicted exactly, averaged over languages.",
        of_sums=percentage_of_sums,
    ),
    Metric(
        "levenshtein", "edits", 3, False, signed("lev", _SCORER),
        "Mean edit distance from predicted to gold form, averaged over languages.",
    ),
    Metric(
        "rule_baseline", "%", 2, True, signed("acc", _SCORER + "|system:rule-baseline"),
        "Accuracy of the shared task's rule baseline, as measured by its own program.",
    ),
    Metric(
        "certified", "%", 1, True, signed("cert", "micro:example|search:beam"),
        "Share of examples whose beam held every hypothesis of nonzero probability.",
    ),
    Metric(
        "optimal", "%", 1, True, signed("optimal", "micro:example|search:beam"),
        "Share of examples whose prediction is proven to be a most probable sequence.",
    ),
    Metric(
        "single", "%", 1, None, signed("single", "micro:example|search:beam"),
        "Share of examples with all probability mass on one sequence.",
    ),
)  # fmt: skip
