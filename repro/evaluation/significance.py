r"""Paired tests of the difference between two systems on the same examples.

With groups (languages) the statistic is the macro average
:math:`\sum_i w_i (a_i - b_i)`, :math:`w_i = 1 / (G\, n_{g(i)})`; without, the plain mean.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

BOOTSTRAP_TRIALS = 1000
RANDOMISATION_TRIALS = 10_000
SEED = 12345
_ROUNDING = 1e-9

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PairedTest:
    """Outcome of a paired test.

    Attributes:
        difference: statistic of the first system less that of the second, in units of the scores.
        p_value: two-sided, in ``(0, 1]``.
        signature: method, trials and seed.
    """

    difference: float
    p_value: float
    signature: str


def paired_bootstrap(
    first: ArrayLike,
    second: ArrayLike,
    *,
    groups: Sequence[Hashable] | None = None,
    trials: int = BOOTSTRAP_TRIALS,
    seed: int = SEED,
) -> PairedTest:
    r"""Draw the examples again with replacement, inside each group.

    .. math:: p = \frac{1 + \#\{t : |\Delta_t - \bar\Delta| \ge |\Delta|\}}{1 + \text{trials}}

    Args:
        first: score of every example under one system, shape ``(n,)``.
        second: scores of the same examples under the other system, shape ``(n,)``.
        groups: group of every example; ``None`` puts all in one.
        trials: number of draws.
        seed: seed of the draws.

    Raises:
        ValueError: shapes differ, no example, a score that is not finite, or no trial.

    References:
        Koehn (2004), Statistical significance tests for machine translation evaluation;
        centred as in sacrebleu (Post, 2018).
    """
    differences, starts, sizes = _prepare(first, second, groups, trials)
    generator = np.random.default_rng(seed)
    draws = np.empty(trials)
    for trial in range(trials):
        chosen = starts + np.floor(generator.random(len(differences)) * sizes).astype(np.int64)
        draws[trial] = differences[chosen].sum()
    observed = differences.sum()
    p_value = _share_as_large(draws - draws.mean(), observed)
    return PairedTest(float(observed), p_value, f"bootstrap|trials:{trials}|seed:{seed}")


def approximate_randomisation(
    first: ArrayLike,
    second: ArrayLike,
    *,
    groups: Sequence[Hashable] | None = None,
    trials: int = RANDOMISATION_TRIALS,
    seed: int = SEED,
) -> PairedTest:
    r"""Swap the systems' scores of each example with probability one half.

    .. math:: p = \frac{1 + \#\{t : |\Delta_t| \ge |\Delta|\}}{1 + \text{trials}}

    Args:
        first: score of every example under one system, shape ``(n,)``.
        second: scores of the same examples under the other system, shape ``(n,)``.
        groups: group of every example; ``None`` puts all in one.
        trials: number of random swaps.
        seed: seed of the swaps.

    Raises:
        ValueError: shapes differ, no example, a score that is not finite, or no trial.

    References:
        Riezler & Maxwell (2005), On some pitfalls in automatic evaluation and significance
        testing for MT.
    """
    differences, _, _ = _prepare(first, second, groups, trials)
    changed = differences[differences != 0]
    generator = np.random.default_rng(seed)
    draws = np.empty(trials)
    for trial in range(trials):
        signs = 1.0 - 2.0 * generator.integers(0, 2, len(changed), dtype=np.int8)
        draws[trial] = signs @ changed
    observed = differences.sum()
    signature = f"randomisation|trials:{trials}|seed:{seed}"
    return PairedTest(float(observed), _share_as_large(draws, observed), signature)


def _prepare(
    first: ArrayLike, second: ArrayLike, groups: Sequence[Hashable] | None, trials: int
) -> tuple[Array, Array, Array]:
    """Weighted differences sorted by group, and each example's group start and group size."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape or a.size == 0:
        raise ValueError(f"expected two equally long, nonempty lists, not {a.shape} and {b.shape}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("scores must be finite")
    if trials < 1:
        raise ValueError(f"expected at least one trial, not {trials}")
    labels: Sequence[Hashable] = [0] * a.size if groups is None else groups
    if len(labels) != a.size:
        raise ValueError(f"{len(labels)} groups for {a.size} examples")
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    codes = np.array([numbers[label] for label in labels])
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes)
    sizes = np.repeat(counts, counts).astype(np.float64)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    return (a - b)[order] / (sizes * len(counts)), starts, sizes


def _share_as_large(draws: Array, observed: float) -> float:
    as_large = np.abs(draws) >= abs(observed) * (1 - _ROUNDING)
    return float((1 + as_large.sum()) / (1 + len(draws)))
