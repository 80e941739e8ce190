r"""Sufficient statistics: what each example adds to a corpus metric, and the metric of their sums.

A metric of a corpus is :math:`f(\sum_i s_i)`, where the vector :math:`s_i` belongs to example
``i``. Means and shares have :math:`s_i = (\text{numerator}, \text{denominator})`; BLEU has the
counts of :class:`repro.evaluation.bleu.BleuScore`, METEOR those of its own program. Each metric
names its ``f``: :attr:`repro.evaluation.metrics.Metric.of_sums`.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Statistics = Mapping[str, NDArray[np.number]]
"""By full metric name, ``<split>/<metric>``: one row of numbers for each example of the split."""
Form = Callable[[Array], Array]
"""From sums ``(..., k)`` to values ``(...)`` of the metric."""
GROUPS = ".groups"
"""Added to the name of a metric: the group of each example, for averages over groups."""


def mean_of_sums(sums: Array) -> Array:
    """Numerator over denominator, shapes ``(..., 2)`` and ``(...)``; 0 where nothing is counted."""
    numerators, denominators = sums[..., 0], sums[..., 1]
    empty = denominators == 0
    return np.where(empty, 0.0, numerators / np.where(empty, 1.0, denominators))


def percentage_of_sums(sums: Array) -> Array:
    """The mean times one hundred."""
    return 100.0 * mean_of_sums(sums)


def statistics_of_scores(scores: Sequence[float]) -> Array:
    """Rows of a metric that is the mean of the examples' scores, shape ``(n, 2)``."""
    return statistics_of_ratios(scores, np.ones(len(scores)))


def statistics_of_ratios(numerators: ArrayLike, denominators: ArrayLike) -> Array:
    """Rows of a metric that divides two sums, shape ``(n, 2)``."""
    return np.stack([np.asarray(numerators, float), np.asarray(denominators, float)], axis=1)
