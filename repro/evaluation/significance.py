r"""Paired tests of the difference between two systems on the same examples.

A system is given by the sufficient statistics of its runs, one array ``(n, k)`` for each seed. The
value of a system is the mean over groups ``g`` and runs ``r`` of the metric of summed statistics,

.. math:: m = \frac{1}{G R} \sum_{g, r} f\Bigl(\sum_{i \in g} s_{r, i}\Bigr),

with a single group unless the metric is an average over languages. Both tests ask what other test
examples could have given: the runs of a system stay together, so the p-values say nothing about
other seeds.

References:
    Clark et al. (2011), Better hypothesis testing for statistical machine translation.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from repro.evaluation.sufficient_statistics import Form, split_groups

BOOTSTRAP_TRIALS = 1000
RANDOMISATION_TRIALS = 10_000
SEED = 12345
_ROUNDING = 1e-9
_CELLS = 2**22
"""Random numbers of one portion of trials, at most."""

Array = NDArray[np.float64]
Runs = Sequence[NDArray[np.number]]


@dataclass(frozen=True)
class PairedTest:
    """Outcome of a paired test."""

    difference: float  # value of the first system less that of the second, in units of the metric
    p_value: float  # two-sided, in (0, 1]
    signature: str  # method, trials and seed


def paired_bootstrap(
    first: Runs,
    second: Runs,
    form: Form,
    *,
    groups: Sequence[Hashable] | None = None,
    trials: int = BOOTSTRAP_TRIALS,
    seed: int = SEED,
) -> PairedTest:
    r"""Draw the examples again with replacement, inside each group.

    .. math:: p = \frac{1 + \#\{t : |\Delta_t - \bar\Delta| \ge |\Delta|\}}{1 + \text{trials}}

    Args:
        first: statistics of one system, arrays of shape ``(n, k)``, one for each of its runs.
        second: those of the other system for the same examples, of as many runs.
        form: from sums ``(..., k)`` to values ``(...)`` of the metric.
        groups: group of every example; ``None`` puts all in one.
        trials: number of draws.
        seed: seed of the draws.

    Raises:
        ValueError: shapes differ, no example, a number that is not finite, or no trial.

    References:
        Koehn (2004), Statistical significance tests for machine translation evaluation; centred
        as in sacrebleu (Post, 2018), which takes absolute differences before it centres them.
    """
    draw = partial(_resampled_sums, np.random.default_rng(seed), trials)
    observed, draws = _differences(first, second, form, groups, draw)
    p_value = _share_as_large(draws - draws.mean(), observed)
    return PairedTest(observed, p_value, bootstrap_signature(trials, seed))


def approximate_randomisation(
    first: Runs,
    second: Runs,
    form: Form,
    *,
    groups: Sequence[Hashable] | None = None,
    trials: int = RANDOMISATION_TRIALS,
    seed: int = SEED,
) -> PairedTest:
    r"""Swap the systems' outputs for each example with probability one half.

    .. math:: p = \frac{1 + \#\{t : |\Delta_t| \ge |\Delta|\}}{1 + \text{trials}}

    Arguments and errors are those of :func:`paired_bootstrap`.

    References:
        Riezler & Maxwell (2005), On some pitfalls in automatic evaluation and significance
        testing for MT.
    """
    draw = partial(_swapped_sums, np.random.default_rng(seed), trials)
    observed, draws = _differences(first, second, form, groups, draw)
    p_value = _share_as_large(draws, observed)
    return PairedTest(observed, p_value, randomisation_signature(trials, seed))


def bootstrap_signature(trials: int = BOOTSTRAP_TRIALS, seed: int = SEED) -> str:
    """Method, trials and seed of :func:`paired_bootstrap`."""
    return f"bootstrap|trials:{trials}|seed:{seed}"


def randomisation_signature(trials: int = RANDOMISATION_TRIALS, seed: int = SEED) -> str:
    """Method, trials and seed of :func:`approximate_randomisation`."""
    return f"randomisation|trials:{trials}|seed:{seed}"


def _differences(
    first: Runs,
    second: Runs,
    form: Form,
    groups: Sequence[Hashable] | None,
    draw: Callable[[Array], Array],
) -> tuple[float, Array]:
    """Return the observed difference, and that of each trial, ``(trials,)``.

    Runs of both systems stand side by side as columns, those of the first system first; ``draw``
    maps the examples of a group, ``(n, columns)``, to sums of each trial, ``(trials, columns)``.
    """
    shapes = {np.shape(run) for run in (*first, *second)}
    if len(first) != len(second) or len(shapes) != 1 or len(shape := shapes.pop()) != 2:
        raise ValueError("expected as many runs of both systems, with as many examples and numbers")
    if 0 in shape:
        raise ValueError("expected at least one example with at least one number")
    stacked = np.concatenate([np.asarray(run, np.float64) for run in (*first, *second)], axis=1)
    if not np.isfinite(stacked).all():
        raise ValueError("statistics must be finite")
    parts = [*split_groups(stacked, groups).values()]

    def difference(sums: Sequence[Array]) -> Array:
        """Compute differences ``(...)`` from sums of every group, ``(..., columns)``."""
        each = [form(one.reshape(*one.shape[:-1], 2, len(first), shape[1])) for one in sums]
        values: Array = np.mean(each, axis=0).mean(-1)
        return values[..., 0] - values[..., 1]

    observed = float(difference([part.sum(0) for part in parts]))
    return observed, difference([draw(part) for part in parts])


def _resampled_sums(generator: np.random.Generator, trials: int, rows: Array) -> Array:
    """Sums over as many examples as there are, drawn with replacement."""
    examples, sums = len(rows), []
    for size in _portions(trials, examples):
        chosen = generator.integers(0, examples, (size, examples))
        chosen += examples * np.arange(size)[:, None]
        counts = np.bincount(chosen.ravel(), minlength=size * examples)
        sums.append(counts.reshape(size, examples).astype(np.float64) @ rows)
    return np.concatenate(sums)


def _swapped_sums(generator: np.random.Generator, trials: int, rows: Array) -> Array:
    """Sums over all examples, each with its two systems swapped by the toss of a coin."""
    half = rows.shape[1] // 2
    change = rows[:, half:] - rows[:, :half]
    change = change[change.any(1)]
    moved = [
        generator.integers(0, 2, (size, len(change)), np.int8).astype(np.float64) @ change
        for size in _portions(trials, len(change))
    ]
    total = np.concatenate(moved)
    return rows.sum(0) + np.concatenate([total, -total], axis=1)


def _portions(trials: int, examples: int) -> Iterator[int]:
    if trials < 1:
        raise ValueError(f"expected at least one trial, not {trials}")
    most = max(1, _CELLS // max(1, examples))
    for start in range(0, trials, most):
        yield min(most, trials - start)


def _share_as_large(draws: Array, observed: float) -> float:
    as_large = np.abs(draws) >= abs(observed) - _ROUNDING
    return float((1 + as_large.sum()) / (1 + len(draws)))
