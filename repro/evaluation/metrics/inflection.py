"""Morphological inflection, and probabilities of hypotheses."""

from repro.evaluation.metrics.metric import Metric, signed
from repro.evaluation.sufficient_statistics import percentage_of_sums

_SCORER = "macro:language|scorer:evalm2018"
_SEARCH = "macro:language|search:beam"

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
        "certified", "%", 1, True, signed("cert", _SEARCH),
        "Share of examples whose beam held every hypothesis of nonzero probability, averaged over "
        "languages.",
    ),
    Metric(
        "optimal", "%", 1, True, signed("optimal", _SEARCH),
        "Share of examples whose prediction is proven a most probable sequence, averaged over "
        "languages.",
    ),
    Metric(
        "single", "%", 1, None, signed("single", _SEARCH),
        "Share of examples with all probability mass on one sequence, averaged over languages.",
    ),
)  # fmt: skip
