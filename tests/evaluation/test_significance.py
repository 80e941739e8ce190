from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from repro.evaluation.significance import PairedTest, approximate_randomisation, paired_bootstrap

MONTE_CARLO = 0.02  # four standard errors of a share estimated from 10,000 trials

FIRST = [1.0, 1.0, 0.0, 1.0, 0.3]
SECOND = [0.0, 1.0, 0.4, 0.0, 0.0]
GROUPS = ["a", "b", "a", "b", "b"]

TESTS = pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomisation])


def macro_difference(differences: np.ndarray, groups: list[str] | None) -> float:
    labels = np.array(groups if groups else ["all"] * len(differences))
    return float(np.mean([differences[labels == label].mean() for label in np.unique(labels)]))


def exact_randomisation(groups: list[str] | None) -> float:
    differences = np.array(FIRST) - np.array(SECOND)
    observed = abs(macro_difference(differences, groups))
    swapped = [
        abs(macro_difference(differences * np.array(signs), groups))
        for signs in product([1, -1], repeat=len(differences))
    ]
    return float(np.mean(np.array(swapped) >= observed - 1e-12))


def exact_bootstrap(groups: list[str] | None) -> float:
    differences = np.array(FIRST) - np.array(SECOND)
    labels = groups if groups else ["all"] * len(differences)
    peers = [[j for j, other in enumerate(labels) if other == label] for label in labels]
    drawn = [macro_difference(differences[list(choice)], groups) for choice in product(*peers)]
    centred = np.abs(np.array(drawn) - np.mean(drawn))
    return float(np.mean(centred >= abs(macro_difference(differences, groups)) - 1e-12))


@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize(
    ("test", "exact"),
    [(approximate_randomisation, exact_randomisation), (paired_bootstrap, exact_bootstrap)],
)
def test_p_value_is_near_the_enumerated_one(
    test: Callable[..., PairedTest],
    exact: Callable[[list[str] | None], float],
    groups: list[str] | None,
) -> None:
    found = test(FIRST, SECOND, groups=groups, trials=10_000)
    differences = np.array(FIRST) - np.array(SECOND)
    assert found.difference == pytest.approx(macro_difference(differences, groups))
    assert abs(found.p_value - exact(groups)) < MONTE_CARLO


@TESTS
def test_equal_systems_do_not_differ(test: Callable[..., PairedTest]) -> None:
    found = test(FIRST, FIRST, trials=100)
    assert (found.difference, found.p_value) == (0.0, 1.0)


@TESTS
def test_clear_difference_is_found_and_signed(test: Callable[..., PairedTest]) -> None:
    better, worse = [1.0] * 80 + [0.0] * 20, [1.0] * 40 + [0.0] * 60
    found = test(better, worse, trials=1000)
    assert found.difference == pytest.approx(0.4)
    assert found.p_value == 1 / 1001
    assert test(worse, better, trials=1000).difference == pytest.approx(-0.4)


@TESTS
def test_seed_decides_everything(test: Callable[..., PairedTest]) -> None:
    first = test(FIRST, SECOND, trials=200, seed=1)
    assert first == test(FIRST, SECOND, trials=200, seed=1)
    assert first.p_value != test(FIRST, SECOND, trials=200, seed=2).p_value


def test_defaults_are_those_of_the_field() -> None:
    bootstrap = paired_bootstrap(FIRST, SECOND)
    assert bootstrap.signature == "bootstrap|trials:1000|seed:12345"
    randomisation = approximate_randomisation(FIRST, SECOND)
    assert randomisation.signature == "randomisation|trials:10000|seed:12345"


@TESTS
@pytest.mark.parametrize(
    ("first", "second", "groups", "trials", "message"),
    [
        ([], [], None, 10, "nonempty"),
        ([1.0], [1.0, 2.0], None, 10, "equally long"),
        ([[1.0]], [[1.0]], None, 10, "equally long"),
        ([1.0], [float("nan")], None, 10, "finite"),
        ([1.0], [1.0], ["a", "b"], 10, "2 groups for 1 examples"),
        ([1.0], [1.0], None, 0, "at least one trial"),
    ],
)
def test_bad_input_is_refused(
    test: Callable[..., PairedTest],
    first: list[float],
    second: list[float],
    groups: list[str] | None,
    trials: int,
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        test(first, second, groups=groups, trials=trials)
