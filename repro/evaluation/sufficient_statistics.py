r"""Sufficient statistics: what each example adds to a corpus metric, and the metric of their sums.

A metric of a corpus is :math:`f(\sum_i s_i)`, where the vector :math:`s_i` belongs to example
``i``. Means and shares have :math:`s_i = (\text{numerator}, \text{denominator})`; BLEU has the
counts of :func:`repro.evaluation.metrics.translation.token_counts`, METEOR those of its own
program. A macro average is the mean of :math:`f` over groups of examples.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Form = Callable[[Array], Array]
"""Map of sums ``(..., k)`` to values ``(...)`` of the metric."""
GROUPS = ".groups"
"""Suffix of a metric's name: the array with the group of each example, for macro averages."""


class Statistics(NamedTuple):
    """Contributions of the examples of a split to one metric.

    Attributes:
        rows: shape ``(examples, k)``.
        groups: the group of each example, for macro averages; ``None`` for a micro average.
    """

    rows: Array
    groups: Sequence[str] | None = None


def ratios(numerators: ArrayLike, denominators: ArrayLike = 1.0) -> Array:
    """Statistics of a metric that divides two sums, shape ``(n, 2)``; by default of a mean."""
    first = np.asarray(numerators, float)
    return np.stack([first, np.broadcast_to(np.asarray(denominators, float), first.shape)], axis=1)


def mean_of_sums(sums: Array) -> Array:
    """Numerator over denominator, shapes ``(..., 2)`` and ``(...)``; 0 where nothing is counted."""
    numerators, denominators = sums[..., 0], sums[..., 1]
    empty = denominators == 0
    return np.where(empty, 0.0, numerators / np.where(empty, 1.0, denominators))


def percentage_of_sums(sums: Array) -> Array:
    """:func:`mean_of_sums` times one hundred."""
    return 100.0 * mean_of_sums(sums)


def split_groups(rows: Array, groups: Sequence[Hashable] | None) -> dict[Hashable, Array]:
    """Rows of each group, groups in the order of their first example.

    Raises:
        ValueError: a different number of groups and rows.
    """
    if groups is None:
        return {None: rows}
    if len(groups) != len(rows):
        raise ValueError(f"{len(groups)} groups for {len(rows)} examples")
    numbers = {label: number for number, label in enumerate(dict.fromkeys(groups))}
    codes = np.array([numbers[label] for label in groups])
    return {label: rows[codes == number] for label, number in numbers.items()}


def metric_value(
    rows: NDArray[np.number], form: Form, groups: Sequence[Hashable] | None = None
) -> float:
    """Metric of statistics ``(n, k)``, averaged over groups."""
    parts = split_groups(np.asarray(rows, np.float64), groups).values()
    return float(np.mean([form(part.sum(0)) for part in parts]))
