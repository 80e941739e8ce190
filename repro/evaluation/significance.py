r"""Paired test of the difference between two systems on the same examples.

A system is represented by sufficient statistics of its runs, one array ``(n, k)`` per seed. The
value of a system is the mean over groups ``g`` and runs ``r`` of the metric of summed statistics,

.. math:: m = \frac{1}{G R} \sum_{g, r} f\Bigl(\sum_{i \in g} s_{r, i}\Bigr),

with a single group unless the metric is an average over languages. The test accounts for the
choice of test examples only: the runs of a system stay together, so the p-value says nothing about
other seeds.

References:
    Clark et al. (2011), Better hypothesis testing for statistical machine translation.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.evaluation.sufficient_statistics import Formula, split_groups

TRIALS = 10_000
SEED = 12345
_ROUNDING = 1e-9
_CELLS = 2**22
"""Largest number of random numbers to draw at once, to bound memory."""

Array = NDArray[np.float64]
Runs = Sequence[NDArray[np.number]]


@dataclass(frozen=True)
class PairedTest:
    """Outcome of a paired test."""

    difference: float  # value of the first system minus that of the second, in units of the metric
    p_value: float  # two-sided, in (0, 1]
    signature: str  # method, trials and seed


def approximate_randomisation(
    first: Runs,
    second: Runs,
    formula: Formula,
    *,
    groups: Sequence[Hashable] | None = None,
    trials: int = TRIALS,
    seed: int = SEED,
) -> PairedTest:
    r"""Test a difference by swapping the systems' outputs for each example with probability 1/2.

    .. math:: p = \frac{1 + \#\{t : |\Delta_t| \ge |\Delta|\}}{1 + \text{trials}}

    Args:
        first: statistics of one system, an array of shape ``(n, k)`` for each of its runs.
        second: statistics of the other system for the same examples, with as many runs.
        formula: map of sums ``(..., k)`` to values ``(...)`` of the metric.
        groups: group of every example; ``None`` puts all in one.
        trials: number of draws.
        seed: seed of the draws.

    Raises:
        ValueError: shapes differ, there is no example or trial, or a number is not finite.

    References:
        Riezler & Maxwell (2005), On some pitfalls in automatic evaluation and significance
        testing for MT.
    """
    shapes = {np.shape(run) for run in (*first, *second)}
    if len(first) != len(second) or len(shapes) != 1 or len(shape := shapes.pop()) != 2:
        raise ValueError("expected as many runs of both systems, with as many examples and numbers")
    if 0 in shape or trials < 1:
        raise ValueError("expected at least one example with at least one number, and one trial")
    stacked = np.concatenate([np.asarray(run, np.float64) for run in (*first, *second)], axis=1)
    if not np.isfinite(stacked).all():
        raise ValueError("statistics must be finite")
    parts = [*split_groups(stacked, groups).values()]

    def difference(sums: Sequence[Array]) -> Array:
        """Compute differences ``(...)`` from sums of every group, ``(..., columns)``."""
        each = [formula(one.reshape(*one.shape[:-1], 2, len(first), shape[1])) for one in sums]
        values: Array = np.mean(each, axis=0).mean(-1)
        return values[..., 0] - values[..., 1]

    generator = np.random.default_rng(seed)
    observed = float(difference([part.sum(0) for part in parts]))
    draws = difference([_swapped_sums(generator, trials, part) for part in parts])
    as_large = int((np.abs(draws) >= abs(observed) - _ROUNDING).sum())
    return PairedTest(observed, (1 + as_large) / (1 + trials), signature(trials, seed))


def signature(trials: int = TRIALS, seed: int = SEED) -> str:
    """Format method, trials and seed of :func:`approximate_randomisation`."""
    return f"randomisation|trials:{trials}|seed:{seed}"


def _swapped_sums(generator: np.random.Generator, trials: int, rows: Array) -> Array:
    """Sum over all examples with the systems of each swapped at random, for each trial."""
    half = rows.shape[1] // 2
    change = rows[:, half:] - rows[:, :half]
    change = change[change.any(1)]
    most = max(1, _CELLS // max(1, len(change)))
    moved = [
        generator.integers(0, 2, (min(most, trials - start), len(change)), np.int8).astype(float)
        @ change
        for start in range(0, trials, most)
    ]
    total = np.concatenate(moved)
    return rows.sum(0) + np.concatenate([total, -total], axis=1)
