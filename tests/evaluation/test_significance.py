"""The paired test against enumeration."""

import time
from collections.abc import Iterable
from itertools import product

import numpy as np
import pytest

from repro.evaluation.metrics.translation import bleu_of_statistics, token_counts
from repro.evaluation.significance import approximate_randomisation
from repro.evaluation.sufficient_statistics import Formula, mean_of_sums, percentage_of_sums
from repro.evaluation.sufficient_statistics import ratios as ratio_rows

MONTE_CARLO = 0.02  # four standard errors of a share estimated from 10,000 trials

Runs = list[np.ndarray]
FIRST = [[1.0, 0.7, 0.0, 0.35], [0.9, 1.0, 0.1, 0.4]]
SECOND = [[0.0, 0.93, 0.41, 0.13], [0.2, 0.7, 0.0, 0.55]]
LENGTHS = [3.0, 1.1, 4.3, 5.7]
GROUPS = ["a", "b", "a", "b"]


def ratios(runs: Iterable[list[float]]) -> Runs:
    return [ratio_rows(run, LENGTHS) for run in runs]


def bleus(*runs: list[str]) -> Runs:
    gold = ["a b c d e", "b a d c e f", "f e d c", "d e f a b c d"]
    return [token_counts(run, gold) for run in runs]


MEANS = ([ratio_rows(FIRST[0])], [ratio_rows(SECOND[0])], mean_of_sums)
RATIOS = (ratios(FIRST), ratios(SECOND), percentage_of_sums)
BLEUS = (
    bleus(["a b c d e", "b a d c f", "f e d c c", "d e a b c d"]),
    bleus(["a b d c e", "b a c d e f", "f e d c", "d e f b a c d"]),
    bleu_of_statistics,
)
SYSTEMS = pytest.mark.parametrize("systems", [MEANS, RATIOS, BLEUS], ids=["mean", "ratio", "bleu"])
IN_GROUPS = pytest.mark.parametrize("groups", [None, GROUPS])


def by_definition(
    runs: Runs, form: Formula, chosen: Iterable[int], groups: list[str] | None
) -> float:
    """Mean over groups and runs of the metric of the chosen examples, each as often as chosen."""
    labels, picked = groups or ["all"] * len(runs[0]), list(chosen)
    return float(
        np.mean(
            [
                form(sum(run[i] for i in picked if labels[i] == label))
                for label in sorted(set(labels))
                for run in runs
            ]
        )
    )


def observed(first: Runs, second: Runs, form: Formula, groups: list[str] | None) -> float:
    everything = range(len(first[0]))
    return by_definition(first, form, everything, groups) - by_definition(
        second, form, everything, groups
    )


def exact_randomisation(
    first: Runs, second: Runs, form: Formula, groups: list[str] | None
) -> float:
    drawn = []
    for swaps in product([False, True], repeat=len(first[0])):
        mask = np.array(swaps)[:, None]
        ours = [np.where(mask, b, a) for a, b in zip(first, second, strict=True)]
        theirs = [np.where(mask, a, b) for a, b in zip(first, second, strict=True)]
        drawn.append(observed(ours, theirs, form, groups))
    least = abs(observed(first, second, form, groups)) - 1e-9
    return float(np.mean(np.abs(drawn) >= least))


@SYSTEMS
@IN_GROUPS
def test_p_value_is_near_the_enumerated_one(groups, systems):
    found = approximate_randomisation(*systems, groups=groups, trials=10_000)
    assert found.difference == pytest.approx(observed(*systems, groups), abs=1e-12)
    assert abs(found.p_value - exact_randomisation(*systems, groups)) < MONTE_CARLO


def test_equal_systems_do_not_differ():
    found = approximate_randomisation(RATIOS[0], RATIOS[0], percentage_of_sums, trials=100)
    assert (found.difference, found.p_value) == (0.0, 1.0)


def test_clear_difference_is_found_and_signed():
    better = [ratio_rows([1.0] * 80 + [0.0] * 20)]
    worse = [ratio_rows([1.0] * 40 + [0.0] * 60)]
    found = approximate_randomisation(better, worse, mean_of_sums, trials=1000)
    assert found.difference == pytest.approx(0.4)
    assert found.p_value == 1 / 1001
    reverse = approximate_randomisation(worse, better, mean_of_sums, trials=1000)
    assert reverse.difference == pytest.approx(-0.4)


def test_seed_decides_everything():
    first = approximate_randomisation(*RATIOS, trials=200, seed=1)
    assert first == approximate_randomisation(*RATIOS, trials=200, seed=1)
    assert first.p_value != approximate_randomisation(*RATIOS, trials=200, seed=2).p_value


def test_portions_do_not_change_the_draws(monkeypatch):
    whole = approximate_randomisation(*MEANS, trials=100)
    monkeypatch.setattr("repro.evaluation.significance._CELLS", 40)  # eight trials of five
    assert approximate_randomisation(*MEANS, trials=100) == whole


def test_a_thousand_sentences_are_tested_in_a_moment():
    generator = np.random.default_rng(1)
    rows = [generator.integers(1, 20, (1000, 10)) for _ in range(2)]
    started = time.process_time()
    approximate_randomisation(rows[:1], rows[1:], bleu_of_statistics)
    assert time.process_time() - started < 2


def test_defaults_are_those_of_the_field():
    found = approximate_randomisation(*MEANS).signature
    assert found == "randomisation|trials:10000|seed:12345"


ONE, TWO = np.ones((1, 2)), np.ones((2, 2))


@pytest.mark.parametrize(
    ("first", "second", "groups", "trials", "message"),
    [
        ([], [], None, 10, "as many runs"),
        ([np.ones((0, 2))], [np.ones((0, 2))], None, 10, "at least one example"),
        ([ONE], [TWO], None, 10, "as many runs of both systems, with as many examples"),
        ([ONE], [ONE, ONE], None, 10, "as many runs"),
        ([np.ones(3)], [np.ones(3)], None, 10, "as many runs"),
        ([ONE], [np.full((1, 2), np.nan)], None, 10, "finite"),
        ([ONE], [ONE], ["a", "b"], 10, "2 groups for 1 examples"),
        ([ONE], [ONE], None, 0, "one trial"),
    ],
)
def test_bad_input_is_refused(first, second, groups, trials, message):
    with pytest.raises(ValueError, match=message):
        approximate_randomisation(first, second, mean_of_sums, groups=groups, trials=trials)
