r"""Sufficient statistics: what each example adds to a corpus metric, and the metric of their sums.

A metric of a corpus is :math:`f(\sum_i s_i)`, where the vector :math:`s_i` belongs to example
``i``. Means and shares have :math:`s_i = (\text{numerator}, \text{denominator})`; BLEU has the
counts of :class:`repro.evaluation.bleu.BleuScore`, METEOR those of its own program.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro.evaluation.bleu import bleu_of_statistics
from repro.evaluation.meteor import meteor_of_statistics

Array = NDArray[np.float64]
Statistics = Mapping[str, NDArray[np.number]]
"""By full metric name, ``<split>/<metric>``: one row of numbers for each example of the split."""
Form = Callable[[Array], Array]
"""From sums ``(..., k)`` to values ``(...)`` of the metric."""
GROUPS = ".groups"
"""Added to the name of a metric: the group of each example, for averages over groups."""

_SHARES = ("accuracy", "rep", "drop", "label_accuracy", "uas", "exact_trees")
_ROUGE = tuple(
    name + cut
    for name in ("rouge1", "rouge2", "rougeL", "rougeW", "rougeL_precision", "rougeL_recall")
    for cut in ("", "_whole")
)


def mean_of_sums(sums: Array) -> Array:
    """Numerator over denominator, shapes ``(..., 2)`` and ``(...)``; 0 where nothing is counted."""
    numerators, denominators = sums[..., 0], sums[..., 1]
    empty = denominators == 0
    return np.where(empty, 0.0, numerators / np.where(empty, 1.0, denominators))


def percentage_of_sums(sums: Array) -> Array:
    """The mean times one hundred."""
    return 100.0 * mean_of_sums(sums)


FORMS: Mapping[str, Form] = {
    **dict.fromkeys(("bleu", "bleu_lc", "bleu_13a"), bleu_of_statistics),
    "meteor": meteor_of_statistics,
    **dict.fromkeys(_SHARES, percentage_of_sums),
    **dict.fromkeys(_ROUGE, mean_of_sums),
}
"""Metrics, without their split, that are functions of sums."""


def form_of(metric: str) -> Form | None:
    """How the metric of a full name is computed from sums; None if it is not."""
    parts = metric.split("/")
    return FORMS.get(parts[1]) if len(parts) == 2 else None


def statistics_of_scores(scores: Sequence[float]) -> Array:
    """Rows of a metric that is the mean of the examples' scores, shape ``(n, 2)``."""
    return statistics_of_ratios(scores, np.ones(len(scores)))


def statistics_of_ratios(numerators: ArrayLike, denominators: ArrayLike) -> Array:
    """Rows of a metric that divides two sums, shape ``(n, 2)``."""
    return np.stack([np.asarray(numerators, float), np.asarray(denominators, float)], axis=1)
