r"""Sufficient statistics: what each example adds to a corpus metric, and the metric of their sums.

A metric of a corpus is :math:`f(\sum_i s_i)`, where the vector :math:`s_i` belongs to example
``i``. Means and shares have :math:`s_i = (\text{numerator}, \text{denominator})`; BLEU has the
counts of :func:`repro.evaluation.metrics.translation.token_counts`. A macro average is the mean of
:math:`f` over groups of examples.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Formula = Callable[[Array], Array]
"""Map of sums ``(..., k)`` to values ``(...)`` of the metric."""
GROUPS = ".groups"
"""Suffix of the name of the array with the group of each example, for macro averages."""


class Statistics(NamedTuple):
    """Contributions of the examples of a split to one metric.

    Attributes:
        rows: shape ``(examples, k)``.
        groups: group of each example, for a macro average; ``None`` for a micro average.
        parts: part of each example, for values of parts beside a micro average.
    """

    rows: Array
    groups: Sequence[str] | None = None
    parts: Sequence[str] | None = None


def ratios(numerators: ArrayLike, denominators: ArrayLike = 1.0) -> Array:
    """Stack numerators and denominators, by default ones, to statistics of shape ``(n, 2)``."""
    first = np.asarray(numerators, float)
    return np.stack([first, np.broadcast_to(np.asarray(denominators, float), first.shape)], axis=1)


def mean_of_sums(sums: Array) -> Array:
    """Divide sums of :func:`ratios`, shape ``(..., 2)``; 0 where the denominator is 0."""
    numerators, denominators = sums[..., 0], sums[..., 1]
    empty = denominators == 0
    return np.where(empty, 0.0, numerators / np.where(empty, 1.0, denominators))


def percentage_of_sums(sums: Array) -> Array:
    """Compute :func:`mean_of_sums` in percent."""
    return 100.0 * mean_of_sums(sums)


def split_groups(rows: Array, groups: Sequence[Hashable] | None) -> dict[Hashable, Array]:
    """Split rows by group, with groups in the order of their first example.

    Raises:
        ValueError: the numbers of groups and rows differ.
    """
    if groups is None:
        return {None: rows}
    if len(groups) != len(rows):
        raise ValueError(f"{len(groups)} groups for {len(rows)} examples")
    numbers = {label: number for number, label in enumerate(dict.fromkeys(groups))}
    codes = np.array([numbers[label] for label in groups])
    return {label: rows[codes == number] for label, number in numbers.items()}


def metric_value(
    rows: NDArray[np.number], formula: Formula, groups: Sequence[Hashable] | None = None
) -> float:
    """Compute a metric from statistics of shape ``(n, k)``, averaged over groups."""
    parts = split_groups(np.asarray(rows, np.float64), groups).values()
    return float(np.mean([formula(part.sum(0)) for part in parts]))
