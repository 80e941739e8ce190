from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from repro.config.claims import Bound, Claim, Order, Predicate, Spread, Within
from repro.config.experiment import Axis, Column, Experiment, ScalePlan
from repro.report.claims import DRAWS, Judged, MeasuredCells, Verdict, claims_by_paper, judge
from repro.results import Measurement

Values = dict[tuple[str, str], Sequence[float]]
"""Row and column to one value for each seed."""


def experiment(rows: Sequence[str] = ("a", "b"), columns: Sequence[str] = ("x",)) -> Experiment:
    return Experiment(
        paper="paper2020",
        artefact="table9",
        kind="table",
        title="A made-up table",
        place="Table 9",
        rows=[Axis("row", {row: [] for row in rows})],
        columns=[Column(name, "test/accuracy") for name in columns],
        seeds=[1, 2, 3, 4],
        scales={"demo": ScalePlan()},
    )


def record(row: str, column: str, seed: int, value: float, metric: str) -> Measurement:
    return Measurement(
        run_id=f"{row} {column} {seed}",
        kind="run",
        row=row,
        column=column,
        seed=seed,
        scale="demo",
        metric=metric,
        value=value,
        signature="",
        corpus="made-up",
        fingerprint="",
        epoch=0,
        commit="",
        device="",
        versions="",
        wall_time=1.0,
        tuned=None,
        departs=[],
    )


def judged(
    predicate: Predicate,
    values: Values,
    of: Experiment | None = None,
    metric: str = "test/accuracy",
) -> Judged:
    shown = of or experiment()
    kind = {Order: "order", Bound: "bound", Within: "within", Spread: "spread"}[type(predicate)]
    claim = Claim("claim", "A claim.", "§1", "table9", **{kind: predicate})
    records = [
        record(row, column, seed, value, metric)
        for (row, column), seeds in values.items()
        for seed, value in enumerate(seeds, start=1)
    ]
    return judge("paper2020", claim, shown, MeasuredCells(shown, "demo", records))


A_BEATS_B = Order(better=["a"], than=["b"])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([60.0, 61.0, 62.0], [50.0, 51.0, 52.5]),
        ([60.0, 61.0, 62.0], [59.5, 60.0, 61.7]),
        ([60.0, 61.0, 62.0, 60.5], [61.0, 62.5]),
        ([60.0, 61.0, 62.0], [61.2]),
    ],
)
def test_two_rows_are_compared_by_the_t_test_with_pooled_variance(
    a: list[float], b: list[float]
) -> None:
    result = judged(A_BEATS_B, {("a", "x"): a, ("b", "x"): b})
    freedom = len(a) + len(b) - 2
    pooled = (np.var(a) * len(a) + np.var(b) * len(b)) / freedom
    t = (np.mean(a) - np.mean(b)) / np.sqrt(pooled * (1 / len(a) + 1 / len(b)))
    expected = float(stats.t.sf(abs(t), freedom))
    assert result.p == pytest.approx(expected, abs=4 * 0.5 / DRAWS**0.5)
    assert result.effect == pytest.approx(np.mean(a) - np.mean(b))
    decided = Verdict.HOLDS if t > 0 else Verdict.FAILS
    assert result.verdict is (decided if expected < 0.05 else Verdict.UNDECIDED)


def test_a_third_row_adds_degrees_of_freedom() -> None:
    rows = experiment(["a", "b", "c"])
    values = {("a", "x"): [60.0, 61.0], ("b", "x"): [59.0, 60.2], ("c", "x"): [1.0, 2.0]}
    result = judged(A_BEATS_B, values, rows)
    pooled = sum(np.var(v) * 2 for v in values.values()) / 3
    t = (60.5 - 59.6) / np.sqrt(pooled)
    assert result.p == pytest.approx(float(stats.t.sf(t, 3)), abs=0.015)


def test_one_seed_decides_without_a_test() -> None:
    result = judged(A_BEATS_B, {("a", "x"): [60.0], ("b", "x"): [50.0]})
    assert (result.verdict, result.p, result.seeds) == (Verdict.HOLDS, None, 1)
    assert judged(A_BEATS_B, {("a", "x"): [50.0], ("b", "x"): [60.0]}).verdict is Verdict.FAILS


def test_equal_values_are_not_better() -> None:
    assert judged(A_BEATS_B, {("a", "x"): [50.0], ("b", "x"): [50.0]}).verdict is Verdict.FAILS


def test_a_missing_cell_leaves_its_column_out() -> None:
    of = experiment(columns=["x", "y"])
    values = {("a", "x"): [2.0], ("b", "x"): [1.0], ("a", "y"): [1.0]}
    result = judged(A_BEATS_B, values, of)
    assert (result.verdict, result.columns) == (Verdict.HOLDS, (1, 2))
    assert judged(A_BEATS_B, {("a", "x"): [2.0]}).verdict is Verdict.NOT_MEASURED


@pytest.mark.parametrize(
    ("at_least", "measured", "needed"),
    [(None, 3, 3), (2, 3, 2), (2, 2, 2), (1, 3, 1), (1, 2, 1), (2, 1, 1)],
)
def test_fewer_columns_ask_for_the_same_share(
    at_least: int | None, measured: int, needed: int
) -> None:
    of = experiment(columns=["x", "y", "z"])
    values = {(row, column): [1.0] for row in "ab" for column in "xyz"[:measured]}
    predicate = Order(better=["a"], than=["b"], at_least=at_least)
    assert judged(predicate, values, of).needed == needed


def test_columns_are_counted_or_averaged() -> None:
    of = experiment(columns=["x", "y", "z"])
    a, b = (9.0, 2.0, 1.0), (1.0, 1.0, 2.0)
    values: Values = {}
    for column, left, right in zip("xyz", a, b, strict=True):
        values |= {("a", column): [left], ("b", column): [right]}
    assert judged(A_BEATS_B, values, of).verdict is Verdict.FAILS
    two = Order(better=["a"], than=["b"], at_least=2)
    assert judged(two, values, of).verdict is Verdict.HOLDS
    mean = judged(Order(better=["a"], than=["b"], average=True), values, of)
    assert (mean.verdict, mean.effect) == (Verdict.HOLDS, pytest.approx(8 / 3))


@pytest.mark.parametrize(
    ("every", "by", "verdict"),
    [
        (False, 0.0, Verdict.HOLDS),
        (True, 0.0, Verdict.FAILS),
        (False, 1.5, Verdict.HOLDS),
        (False, 2.5, Verdict.FAILS),
    ],
)
def test_groups_are_compared_by_their_best_or_by_every_row(
    every: bool, by: float, verdict: Verdict
) -> None:
    of = experiment(["a", "b", "c", "d"])
    values = {("a", "x"): [5.0], ("b", "x"): [2.0], ("c", "x"): [3.0], ("d", "x"): [1.0]}
    predicate = Order(better=["a", "b"], than=["c", "d"], every=every, by=by)
    assert judged(predicate, values, of).verdict is verdict


def test_lower_is_better_for_metrics_that_say_so() -> None:
    values = {("a", "x"): [1.0], ("b", "x"): [2.0]}
    predicate = Order(better=["a"], than=["b"], metric="test/rep")
    assert judged(predicate, values, metric="test/rep").verdict is Verdict.HOLDS
    higher = Order(better=["a"], than=["b"], metric="test/rep", direction="higher")
    assert judged(higher, values, metric="test/rep").verdict is Verdict.FAILS


@pytest.mark.parametrize(
    ("predicate", "left", "verdict"),
    [
        (Bound(rows=["a", "b"], lowest=2), 2.5, Verdict.HOLDS),
        (Bound(rows=["a", "b"], lowest=3), 2.5, Verdict.FAILS),
        (Bound(rows=["a", "b"], highest=4), 4.5, Verdict.FAILS),
        (Bound(rows=["a", "b"], lowest=2, highest=5), 2.5, Verdict.HOLDS),
        (Bound(rows=["a"], relative_to="b", highest=0.6), 2.5 / 4.5, Verdict.HOLDS),
        (Bound(rows=["a"], relative_to="b", highest=0.5), 2.5 / 4.5, Verdict.FAILS),
    ],
)
def test_bounds(predicate: Bound, left: float, verdict: Verdict) -> None:
    result = judged(predicate, {("a", "x"): [2.5], ("b", "x"): [4.5]})
    assert result.verdict is verdict
    assert result.contrasts[0].left[0] == pytest.approx(left)


def test_bounds_of_several_rows_are_tested_together() -> None:
    """Each row alone is above the limit in 19 of 20 tables, both together in fewer."""
    values = {("a", "x"): [3.0, 5.0], ("b", "x"): [3.0, 5.0]}
    one, two = (judged(Bound(rows=rows, lowest=2), values) for rows in (["a"], ["a", "b"]))
    assert one.p is not None
    assert two.p is not None
    assert two.p > one.p * 1.3


@pytest.mark.parametrize(("distance", "verdict"), [(3.1, Verdict.HOLDS), (2.9, Verdict.FAILS)])
def test_within(distance: float, verdict: Verdict) -> None:
    of = experiment(["a", "b", "c"])
    values = {("a", "x"): [1.0], ("b", "x"): [4.0], ("c", "x"): [2.0]}
    assert judged(Within(distance=distance), values, of).verdict is verdict
    near = judged(Within(distance=1.5, rows=["a", "c"]), values, of)
    assert near.verdict is Verdict.HOLDS


def test_spread_compares_ranges_over_two_axes() -> None:
    of = experiment()
    of.rows = [Axis("big", {"1": [], "2": []}), Axis("small", {"p": [], "q": []})]
    values = {("1 / p", "x"): [0.0], ("1 / q", "x"): [1.0], ("2 / p", "x"): [10.0]}
    values[("2 / q", "x")] = [13.0]
    result = judged(Spread(axis="small", than="big"), values, of)
    assert result.verdict is Verdict.HOLDS
    assert [side[0] for side in (result.contrasts[0].left, result.contrasts[0].right)] == [2, 11]
    assert judged(Spread(axis="big", than="small"), values, of).verdict is Verdict.FAILS


def test_the_same_records_give_the_same_p() -> None:
    values = {("a", "x"): [60.0, 61.0], ("b", "x"): [59.0, 60.2]}
    assert judged(A_BEATS_B, values).p == judged(A_BEATS_B, values).p


def test_claims_are_laid_out_by_paper() -> None:
    measured = judged(A_BEATS_B, {("a", "x"): [2.0], ("b", "x"): [1.0]})
    unmeasured = judged(A_BEATS_B, {})
    (paper,) = claims_by_paper([measured, unmeasured])
    assert (len(paper.measured), len(paper.unmeasured)) == (1, 1)
    assert paper.measured[0].verdict.css == "holds"
    assert paper.measured[0].experiment.anchor == "paper2020-table9"
