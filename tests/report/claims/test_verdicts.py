from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from made_up import record
from scipy import stats

from repro.config.claims import Bound, Claim, Order, Predicate, Spread
from repro.config.experiment import Axis, Column, Experiment, ScalePlan
from repro.report.claims import Judged, Verdict, claims_by_paper, judge
from repro.report.table import MeasuredCells
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


def records_of(values: Values, metric: str = "test/accuracy") -> list[Measurement]:
    return [
        record(row, column, seed, value, metric)
        for (row, column), seeds in values.items()
        for seed, value in enumerate(seeds, start=1)
    ]


def judged(
    predicate: Predicate,
    values: Values | list[Measurement],
    of: Experiment | None = None,
    metric: str = "test/accuracy",
) -> Judged:
    shown = of or experiment()
    kind = {Order: "order", Bound: "bound", Spread: "spread"}[type(predicate)]
    claim = Claim("claim", "A claim.", "§1", "table9", **{kind: predicate})
    records = values if isinstance(values, list) else records_of(values, metric)
    return judge("paper2020", claim, shown, MeasuredCells(shown, "demo", records))


def exact(**means: float) -> Values:
    """Cells of column x whose three seeds agree, so that measured values decide."""
    return {(row, "x"): [mean] * 3 for row, mean in means.items()}


A_BEATS_B = Order(better=["a"], than=["b"])


def expect(result: Judged, p_true: float, margin: float) -> None:
    """Check the p-value of the measured answer and the verdict by a p-value of SciPy."""
    p = p_true if margin > 0 else 1 - p_true
    assert result.p == pytest.approx(p, rel=1e-9)
    assert result.deciding.deciding.margin == pytest.approx(margin)
    decided = Verdict.HOLDS if margin > 0 else Verdict.FAILS
    assert result.verdict is (decided if p < 0.05 else Verdict.UNDECIDED)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([60.0, 61.0, 62.0, 60.5], [61.0, 62.5]),
        ([60.0, 61.0, 62.0, 60.5], [50.0, 51.0, 52.5]),
        ([60.0, 61.0], [59.5, 60.0]),
        ([60.0, 61.0], [66.0, 66.2]),
        ([60.0, 60.2, 60.1], [80.0, 42.0]),
        ([0.0, 0.0, 0.0], [1.0, 1.1]),
    ],
)
def test_rows_without_common_seeds_are_compared_by_welchs_test(
    a: list[float], b: list[float]
) -> None:
    result = judged(A_BEATS_B, {("a", "x"): a, ("b", "x"): b})
    welch = stats.ttest_ind(a, b, equal_var=False, alternative="greater")
    expect(result, float(welch.pvalue), float(np.mean(a) - np.mean(b)))
    low, high = welch.confidence_interval(0.95).low, None
    assert result.deciding.deciding.interval is not None
    assert result.deciding.deciding.interval[0] == pytest.approx(low)
    less = stats.ttest_ind(a, b, equal_var=False, alternative="less")
    high = less.confidence_interval(0.95).high
    assert result.deciding.deciding.interval[1] == pytest.approx(high)


@pytest.mark.parametrize("b", [[59.0, 60.1, 61.2], [63.0, 60.0, 61.0], [60.4, 61.5, 62.3]])
def test_rows_with_common_seeds_are_compared_seed_by_seed(b: list[float]) -> None:
    a = [60.0, 61.0, 62.0]
    paired = stats.ttest_rel(a, b, alternative="greater")
    expect(
        judged(A_BEATS_B, {("a", "x"): a, ("b", "x"): b}),
        float(paired.pvalue),
        float(np.mean(a) - np.mean(b)),
    )


def test_seeds_of_different_versions_are_not_paired() -> None:
    a, b = [60.0, 61.0, 62.0], [59.0, 60.1, 61.2]
    records = records_of({("a", "x"): a, ("b", "x"): b})
    mixed = [replace(one, epoch=int(one.row == "a")) for one in records]
    welch = stats.ttest_ind(a, b, equal_var=False, alternative="greater")
    expect(judged(A_BEATS_B, mixed), float(welch.pvalue), float(np.mean(a) - np.mean(b)))


def test_a_limit_is_tested_by_the_test_of_one_sample() -> None:
    values = [3.0, 5.0, 4.5]
    result = judged(Bound(rows=["a"], lowest=2.5), {("a", "x"): values})
    expected = stats.ttest_1samp(values, 2.5, alternative="greater")
    expect(result, float(expected.pvalue), float(np.mean(values)) - 2.5)


def test_a_ratio_is_tested_as_a_sum() -> None:
    a, b = np.array([3.0, 5.0, 4.5]), np.array([4.0, 5.5, 6.0])
    result = judged(
        Bound(rows=["a"], relative_to="b", lowest=0.5),
        {("a", "x"): a.tolist(), ("b", "x"): b.tolist()},
    )
    expected = stats.ttest_1samp(a - 0.5 * b, 0, alternative="greater")
    expect(result, float(expected.pvalue), float(a.mean() / b.mean() - 0.5))


def test_a_row_is_compared_with_itself_as_a_ratio_of_one() -> None:
    result = judged(Bound(rows=["a"], relative_to="a", lowest=0.5), {("a", "x"): [3.0, 5.0, 4.5]})
    assert result.deciding is not None
    assert result.deciding.deciding.margin == pytest.approx(0.5)


def test_a_ratio_to_zero_is_not_measured() -> None:
    bound = Bound(rows=["a"], relative_to="b", lowest=0.5)
    assert judged(bound, exact(a=1.0, b=0.0)).verdict is Verdict.NOT_MEASURED


def test_rows_without_variance_leave_the_test_of_the_others_alone() -> None:
    """A column of zeros says nothing about the spread of other rows."""
    rows = experiment(["a", "b", "zero"])
    values: Values = {("a", "x"): [60.0, 61.0, 63.0], ("b", "x"): [59.5, 61.5, 62.0]}
    alone = judged(A_BEATS_B, values, rows)
    beside = judged(A_BEATS_B, {**values, ("zero", "x"): [0.0, 0.0, 0.0]}, rows)
    assert alone.p == beside.p


def test_one_seed_decides_nothing() -> None:
    result = judged(A_BEATS_B, {("a", "x"): [60.0], ("b", "x"): [50.0]})
    assert (result.verdict, result.p, result.seeds) == (Verdict.UNDECIDED, None, 1)
    assert result.reason == "one seed"
    half = judged(A_BEATS_B, {("a", "x"): [60.0, 60.1, 60.2], ("b", "x"): [50.0]})
    assert (half.verdict, half.deciding.deciding.interval) == (Verdict.UNDECIDED, None)


def test_equal_values_are_not_better() -> None:
    assert judged(A_BEATS_B, exact(a=50, b=50)).verdict is Verdict.FAILS


def test_a_tie_is_no_success_among_several_columns() -> None:
    """Two of three columns must be true: one is, one is a tie without spread, one is open."""
    of, a, b = experiment(columns=["x", "y", "z"]), [60.0, 61.0, 62.0], [60.0, 61.5, 61.6]
    values: Values = {("a", "x"): [70.0, 71.0, 72.0], ("b", "x"): [60.0, 61.1, 62.0]}
    values |= {("a", "y"): [50.0] * 3, ("b", "y"): [50.0] * 3, ("a", "z"): a, ("b", "z"): b}
    result = judged(replace(A_BEATS_B, at_least=2), values, of)
    assert [one.deciding.margin > 0 for one in result.columns][:2] == [True, False]
    assert result.columns[0].p_true < 0.01
    assert result.verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("b", [1, 3])
def test_data_that_are_too_small_decide_nothing(b: float) -> None:
    of = experiment()
    of.scales["demo"].too_small = "ten pairs"
    result = judged(A_BEATS_B, exact(a=2, b=b), of)
    assert (result.verdict, result.reason) == (Verdict.UNDECIDED, "ten pairs")


def test_a_missing_cell_leaves_its_column_out() -> None:
    of = experiment(columns=["x", "y"])
    values: Values = {**exact(a=2, b=1), ("a", "y"): [1.0]}
    result = judged(A_BEATS_B, values, of)
    assert result.verdict is Verdict.UNDECIDED
    assert result.reason.startswith("1 of 2 columns measured")
    assert result.p == 0
    assert judged(A_BEATS_B, {("a", "x"): [2.0]}).verdict is Verdict.NOT_MEASURED


@pytest.mark.parametrize(
    ("at_least", "true", "false", "verdict"),
    [
        (None, 3, 0, Verdict.HOLDS),
        (None, 2, 0, Verdict.UNDECIDED),
        (None, 1, 0, Verdict.UNDECIDED),
        (None, 0, 1, Verdict.FAILS),
        (2, 2, 0, Verdict.HOLDS),
        (2, 1, 1, Verdict.UNDECIDED),
        (2, 0, 1, Verdict.UNDECIDED),
        (2, 0, 2, Verdict.FAILS),
        (2, 1, 0, Verdict.UNDECIDED),
        (1, 1, 0, Verdict.HOLDS),
        (1, 0, 2, Verdict.UNDECIDED),
        (1, 0, 3, Verdict.FAILS),
    ],
)
def test_unmeasured_columns_count_as_unknown(
    at_least: int | None, true: int, false: int, verdict: Verdict
) -> None:
    """The claim is about three columns."""
    of = experiment(columns=["x", "y", "z"])
    answers = [True] * true + [False] * false
    values: Values = {}
    for column, answer in zip("xyz", answers, strict=False):
        values |= {("a", column): [2.0] * 3, ("b", column): [1.0 if answer else 3.0] * 3}
    predicate = Order(better=["a"], than=["b"], at_least=at_least)
    assert judged(predicate, values, of).verdict is verdict


@pytest.mark.parametrize(("needed", "rank", "factor"), [(3, 2, 1), (2, 1, 2), (1, 0, 3)])
def test_columns_are_joined_by_partial_conjunction(needed: int, rank: int, factor: int) -> None:
    """The p-value of at least m of n is n - m + 1 times the m-th smallest."""
    of = experiment(columns=["x", "y", "z"])
    noise = np.random.default_rng(0).normal(size=(6, 3))
    values: Values = {}
    for n, column in enumerate("xyz"):
        left, right = (noise[n] + 2 + n).tolist(), noise[3 + n].tolist()
        values |= {("a", column): left, ("b", column): right}
    parts = sorted(
        float(stats.ttest_rel(values["a", c], values["b", c], alternative="greater").pvalue)
        for c in "xyz"
    )
    result = judged(Order(better=["a"], than=["b"], at_least=needed), values, of)
    assert result.p == pytest.approx(min(1.0, factor * parts[rank]), rel=1e-6)


def test_the_best_of_several_rows_gains_nothing_by_chance() -> None:
    """With six equal rows and a baseline, one in twenty tables may say that the best is better."""
    rows = [*"abcdef"]
    of = experiment([*rows, "base"])
    noise, found = np.random.default_rng(1), 0
    predicate = Order(better=rows, than=["base"], any=True)
    for _ in range(300):
        values = {(row, "x"): noise.normal(size=3).tolist() for row in [*rows, "base"]}
        found += judged(predicate, values, of).verdict is Verdict.HOLDS
    assert found <= 300 * 0.05 + 3 * (300 * 0.05 * 0.95) ** 0.5


def test_columns_are_counted_or_averaged() -> None:
    of = experiment(columns=["x", "y", "z"])
    a, b = (9.0, 2.0, 1.0), (1.0, 1.0, 2.0)
    values: Values = {}
    for column, left, right in zip("xyz", a, b, strict=True):
        values |= {("a", column): [left] * 3, ("b", column): [right] * 3}
    assert judged(A_BEATS_B, values, of).verdict is Verdict.FAILS
    two = Order(better=["a"], than=["b"], at_least=2)
    assert judged(two, values, of).verdict is Verdict.HOLDS
    average = Order(better=["a"], than=["b"], average=True)
    mean = judged(average, values, of)
    assert (mean.verdict, mean.deciding.deciding.margin) == (Verdict.HOLDS, pytest.approx(8 / 3))
    del values["a", "z"]
    partial = judged(average, values, of)
    assert partial.verdict is Verdict.UNDECIDED
    assert partial.reason.startswith("2 of 3 columns measured")
    contrary = Order(better=["b"], than=["a"], average=True)
    assert judged(contrary, values, of).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, Verdict.FAILS),
        ({"any": True}, Verdict.HOLDS),
        ({"any": True, "by": 1.5}, Verdict.HOLDS),
        ({"any": True, "by": 2.5}, Verdict.FAILS),
        ({"by": -1.5}, Verdict.HOLDS),
        ({"by": -0.5}, Verdict.FAILS),
        ({"in_turn": True}, Verdict.HOLDS),
        ({"in_turn": True, "by": 1.5}, Verdict.FAILS),
    ],
)
def test_groups_of_rows_are_compared(options: dict[str, float], verdict: Verdict) -> None:
    of = experiment(["a", "b", "c", "d"])
    predicate = Order(better=["a", "b"], than=["c", "d"], **options)  # type: ignore[arg-type]
    assert judged(predicate, exact(a=5, b=2, c=3, d=1), of).verdict is verdict


@pytest.mark.parametrize(("distance", "verdict"), [(3.1, Verdict.HOLDS), (2.9, Verdict.FAILS)])
def test_rows_that_may_be_worse_than_each_other_lie_close(
    distance: float, verdict: Verdict
) -> None:
    of, rows = experiment(["a", "b", "c"]), ["a", "b", "c"]
    predicate = Order(better=rows, than=rows, by=-distance)
    assert judged(predicate, exact(a=1, b=4, c=2), of).verdict is verdict


def test_lower_is_better_for_metrics_that_say_so() -> None:
    predicate = Order(better=["a"], than=["b"], metric="test/rep")
    values = exact(a=1, b=2)
    assert judged(predicate, values, metric="test/rep").verdict is Verdict.HOLDS
    higher = Order(better=["a"], than=["b"], metric="test/rep", direction="higher")
    assert judged(higher, values, metric="test/rep").verdict is Verdict.FAILS


@pytest.mark.parametrize(
    ("predicate", "left", "verdict"),
    [
        (Bound(rows=["a", "b"], lowest=2), 2.5, Verdict.HOLDS),
        (Bound(rows=["a", "b"], lowest=3), 2.5, Verdict.FAILS),
        (Bound(rows=["a", "b"], highest=4), 4.5, Verdict.FAILS),
        (Bound(rows=["a", "b"], lowest=2, highest=6), 2.5, Verdict.HOLDS),
        (Bound(rows=["a"], relative_to="b", highest=0.6), 2.5 / 4.5, Verdict.HOLDS),
        (Bound(rows=["a"], relative_to="b", highest=0.5), 2.5 / 4.5, Verdict.FAILS),
    ],
)
def test_bounds(predicate: Bound, left: float, verdict: Verdict) -> None:
    result = judged(predicate, exact(a=2.5, b=4.5))
    assert result.verdict is verdict
    assert result.contrasts[0].left.value == pytest.approx(left)


def test_a_row_is_chosen_on_validation_data() -> None:
    predicate = Bound(rows=["a", "b"], lowest=2, choose="dev/accuracy")
    records = records_of(exact(a=1, b=3))
    for best, verdict in (("a", Verdict.FAILS), ("b", Verdict.HOLDS)):
        means = {"a": 0.5, "b": 0.5, best: 0.6}
        result = judged(predicate, [*records, *records_of(exact(**means), "dev/accuracy")])
        assert result.verdict is verdict
        assert result.contrasts[0].left.words.endswith(f" {best}")
    assert judged(predicate, records).verdict is Verdict.NOT_MEASURED


def test_spread_compares_deviations_over_two_axes_seed_by_seed() -> None:
    of = experiment()
    of.rows = [Axis("big", {"1": [], "2": []}), Axis("small", {"p": [], "q": []})]
    tables = np.random.default_rng(2).normal([[0, 1], [10, 13]], 2.0, size=(3, 2, 2))
    cells = {("1 / p", 0, 0), ("1 / q", 0, 1), ("2 / p", 1, 0), ("2 / q", 1, 1)}
    values: Values = {(row, "x"): tables[:, i, j].tolist() for row, i, j in cells}
    small, big = (np.var(tables, axis=n, ddof=1).mean(axis=1) ** 0.5 for n in (2, 1))
    paired = stats.ttest_rel(big, small, alternative="greater")
    result = judged(Spread(axis="small", than="big"), values, of)
    expect(result, float(paired.pvalue), float((big - small).mean()))
    expect(
        judged(Spread(axis="big", than="small"), values, of),
        1 - float(paired.pvalue),
        float((small - big).mean()),
    )


def test_the_evidence_has_measured_and_published_values_of_both_sides() -> None:
    of = experiment()
    of.published.rows = {"a": {"x": 2.5}, "b": {"x": 1.25}}
    (contrast,) = judged(A_BEATS_B, exact(a=2, b=1), of).contrasts
    assert [(one.value, one.published) for one in (contrast.left, contrast.right)] == [
        (2.0, 2.5),
        (1.0, 1.25),
    ]
    assert contrast.sentence == "x is 2.00 with a and 1.00 with b (published: 2.50 and 1.25)"


def test_claims_are_laid_out_by_paper() -> None:
    measured = judged(A_BEATS_B, exact(a=2, b=1))
    unmeasured = judged(A_BEATS_B, {})
    (paper,) = claims_by_paper([measured, unmeasured])
    assert (len(paper.measured), len(paper.unmeasured)) == (1, 1)
    assert paper.measured[0].verdict.css == "holds"
    assert paper.measured[0].experiment.anchor == "paper2020-table9"
