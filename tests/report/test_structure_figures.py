"""Figures of structured inference: by hand, and by what the paper says about them."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from repro.report.figures.kinds import NO_RUNS
from repro.report.figures.library import DIGITS, polytopes, solver_race
from repro.report.figures.library.polytopes import Polytopes
from repro.report.figures.library.solver_race import SolverRace

ROUNDED = 2 * 10.0**-DIGITS
"""Tolerance: a value and the corner that it is compared with are both rounded."""
CONDITIONAL = ("vanilla", "away", "pairwise")


@pytest.fixture(scope="module")
def places() -> dict:
    return Polytopes().gather(NO_RUNS)


@pytest.fixture(scope="module")
def race() -> dict:
    return SolverRace().gather(NO_RUNS)


def test_choices_by_hand(places):
    """Scores (1, .7, -.2): the threshold of sparsemax is (1.7 - 1) / 2 = .35."""
    shares = places["choices"]["shares"]
    assert shares["argmax"] == [1, 0, 0]
    np.testing.assert_allclose(shares["sparsemax"], [0.65, 0.35, 0], atol=ROUNDED)
    weights = np.exp([1.0, 0.7, -0.2])
    np.testing.assert_allclose(shares["softmax"], weights / weights.sum(), atol=ROUNDED)
    corners = np.array(places["choices"]["corners"])
    for name, share in shares.items():
        np.testing.assert_allclose(
            places["choices"]["solutions"][name], share @ corners, atol=ROUNDED
        )


def test_trees_by_hand(places):
    """There are 3² rooted trees of three words.

    Two trees differ in the head of the third word, with scores 1.2 and .9. All others are left
    out, so that its marginals are the sparsemax of these: .65 and .35.
    """
    trees = places["trees"]
    assert len({tuple(heads) for heads in trees["heads"]}) == 9
    assert all(heads.count(0) == 1 for heads in trees["heads"])
    mixed = {tuple(tree["heads"]): tree["weight"] for tree in trees["mixed"]}
    assert mixed == {(0, 1, 2): 0.65, (0, 1, 1): 0.35}
    at = {tuple(h): np.array(c) for h, c in zip(trees["heads"], trees["corners"], strict=True)}
    solutions = trees["solutions"]
    np.testing.assert_allclose(solutions["MAP"], at[0, 1, 2], atol=1e-9)
    between = 0.65 * at[0, 1, 2] + 0.35 * at[0, 1, 1]
    np.testing.assert_allclose(solutions["SparseMAP"], between, atol=ROUNDED)


def test_marginals_by_enumeration(places):
    trees = places["trees"]
    scores = [
        sum(polytopes.ARCS[head][word] for word, head in enumerate(heads, start=1))
        for heads in trees["heads"]
    ]
    weights = np.exp(scores)
    expected = weights / weights.sum() @ np.array(trees["corners"])
    np.testing.assert_allclose(trees["solutions"]["marginal"], expected, atol=ROUNDED)


def texts(figure: Figure) -> set[str]:
    return {text.get_text() for axes in figure.axes for text in axes.texts}


def test_every_solution_is_named(places):
    named = {"argmax", "sparsemax", "softmax", "MAP", "SparseMAP", "marginal"}
    assert texts(Polytopes().draw(places)) == named


def test_the_active_set_is_exact_and_sparse(race):
    """Figure 2: it converges much faster, and to a much sparser solution."""
    solvers = race["solvers"]
    active = solvers["active set"]
    assert active["distance"][-1] == 0
    assert len(active["distance"]) < 100
    for name in CONDITIONAL:
        other = solvers[name]
        assert len(other["distance"]) == solver_race.ITERATIONS
        assert other["distance"][len(active["distance"])] > 1e-3
        assert other["trees"][-1] > 3 * active["trees"][-1]
    assert min(solvers[name]["distance"][-1] for name in CONDITIONAL) > 0


def test_all_solvers_start_from_the_best_tree_and_never_get_worse(race):
    starts = {history["distance"][0] for history in race["solvers"].values()}
    assert len(starts) == 1
    for history in race["solvers"].values():
        assert history["trees"][0] == 1
        assert (np.diff(history["distance"]) <= 1e-11).all()
        assert (np.diff(history["trees"]) <= 1).all()


def test_vanilla_is_slowest(race):
    last = {name: race["solvers"][name]["distance"][-1] for name in CONDITIONAL}
    assert last["pairwise"] < last["away"] < last["vanilla"]


def test_every_solver_is_drawn_in_every_panel(race):
    figure = SolverRace().draw(race)
    for axes in figure.axes:
        labels = {line.get_label() for line in axes.lines}
        assert {"active set", "vanilla CG", "away-step CG", "pairwise CG"} <= labels
        assert axes.get_xscale() == axes.get_yscale() == "log"
    lowest = min(min(line.get_ydata()) for line in figure.axes[0].lines)
    assert lowest == solver_race.FLOOR
