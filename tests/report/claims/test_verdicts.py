from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from measured import made_up_table, measurement
from scipy import stats
from sections import claim_about

from repro.config.claims import Bound, Order, Predicate, Spread
from repro.config.experiment import Axis, Column, Experiment, ScalePlan
from repro.report.claims import Judged, Verdict, claims_by_paper, judge
from repro.report.table import MeasuredCells
from repro.results import Measurement

Values = dict[tuple[str, str], Sequence[float]]
"""Row and column to one value for each seed."""


def experiment(rows: Sequence[str] = ("a", "b"), columns: Sequence[str] = ("x",)) -> Experiment:
    return made_up_table(
        rows=[Axis("row", {row: [] for row in rows})],
        columns=[Column(name, "test/accuracy") for name in columns],
        seeds=[1, 2, 3, 4],
        scales={"demo": ScalePlan()},
    )


def records_of(values: Values, metric: str = "test/accuracy") -> list[Measurement]:
    return [
        measurement(row=row, column=column, seed=seed, value=value, metric=metric)
        for (row, column), seeds in values.items()
        for seed, value in enumerate(seeds, start=1)
    ]


def judged(
    predicate: Predicate,
    values: Values | list[Measurement],
    of: Experiment | None = None,
    metric: str = "test/accuracy",
) -> Judged:
    """Judge at the only scale of an experiment, whose values are those of one metric or records."""
    shown = of or experiment()
    (scale,) = shown.scales
    records = values if isinstance(values, list) else records_of(values, metric)
    return judge("paper2020", claim_about(predicate), shown, MeasuredCells(shown, scale, records))


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
def test_rows_without_common_seeds_are_compared_by_welchs_test(a, b):
    result = judged(A_BEATS_B, {("a", "x"): a, ("b", "x"): b})
    welch = stats.ttest_ind(a, b, equal_var=False, alternative="greater")
    expect(result, float(welch.pvalue), float(np.mean(a) - np.mean(b)))
    low, high = welch.confidence_interval(0.95).low, None
    assert result.deciding.deciding.interval[0] == pytest.approx(low)
    less = stats.ttest_ind(a, b, equal_var=False, alternative="less")
    high = less.confidence_interval(0.95).high
    assert result.deciding.deciding.interval[1] == pytest.approx(high)


@pytest.mark.parametrize("b", [[59.0, 60.1, 61.2], [63.0, 60.0, 61.0], [60.4, 61.5, 62.3]])
def test_rows_with_common_seeds_are_compared_seed_by_seed(b):
    a = [60.0, 61.0, 62.0]
    paired = stats.ttest_rel(a, b, alternative="greater")
    expect(
        judged(A_BEATS_B, {("a", "x"): a, ("b", "x"): b}),
        float(paired.pvalue),
        float(np.mean(a) - np.mean(b)),
    )


def test_seeds_of_different_versions_are_not_paired():
    a, b = [60.0, 61.0, 62.0], [59.0, 60.1, 61.2]
    records = records_of({("a", "x"): a, ("b", "x"): b})
    mixed = [replace(one, epoch=int(one.row == "a")) for one in records]
    welch = stats.ttest_ind(a, b, equal_var=False, alternative="greater")
    expect(judged(A_BEATS_B, mixed), float(welch.pvalue), float(np.mean(a) - np.mean(b)))


def test_a_limit_is_tested_by_the_test_of_one_sample():
    values = [3.0, 5.0, 4.5]
    result = judged(Bound(rows=["a"], lowest=2.5), {("a", "x"): values})
    expected = stats.ttest_1samp(values, 2.5, alternative="greater")
    expect(result, float(expected.pvalue), float(np.mean(values)) - 2.5)


def test_a_ratio_is_tested_as_a_sum():
    a, b = np.array([3.0, 5.0, 4.5]), np.array([4.0, 5.5, 6.0])
    result = judged(
        Bound(rows=["a"], relative_to="b", lowest=0.5),
        {("a", "x"): a.tolist(), ("b", "x"): b.tolist()},
    )
    expected = stats.ttest_1samp(a - 0.5 * b, 0, alternative="greater")
    expect(result, float(expected.pvalue), float(a.mean() / b.mean() - 0.5))


def test_a_row_is_compared_with_itself_as_a_ratio_of_one():
    result = judged(Bound(rows=["a"], relative_to="a", lowest=0.5), {("a", "x"): [3.0, 5.0, 4.5]})
    assert result.deciding.deciding.margin == pytest.approx(0.5)


def test_a_ratio_to_zero_is_not_measured():
    bound = Bound(rows=["a"], relative_to="b", lowest=0.5)
    assert judged(bound, exact(a=1.0, b=0.0)).verdict is Verdict.NOT_MEASURED


def test_rows_without_variance_leave_the_test_of_the_others_alone():
    """A column of zeros says nothing about the spread of other rows."""
    rows = experiment(["a", "b", "zero"])
    values: Values = {("a", "x"): [60.0, 61.0, 63.0], ("b", "x"): [59.5, 61.5, 62.0]}
    alone = judged(A_BEATS_B, values, rows)
    beside = judged(A_BEATS_B, {**values, ("zero", "x"): [0.0, 0.0, 0.0]}, rows)
    assert alone.p == beside.p


def test_one_seed_decides_nothing():
    result = judged(A_BEATS_B, {("a", "x"): [60.0], ("b", "x"): [50.0]})
    assert (result.verdict, result.p, result.seeds) == (Verdict.UNDECIDED, None, 1)
    assert result.reason == "one seed"
    half = judged(A_BEATS_B, {("a", "x"): [60.0, 60.1, 60.2], ("b", "x"): [50.0]})
    assert (half.verdict, half.deciding.deciding.interval) == (Verdict.UNDECIDED, None)


def test_equal_values_are_not_better():
    assert judged(A_BEATS_B, exact(a=50, b=50)).verdict is Verdict.FAILS


@pytest.mark.parametrize(("measured", "decided"), [(44.9, False), (45.1, True), (70.0, True)])
@pytest.mark.parametrize("better", [1.0, -1.0])
def test_a_baseline_far_below_the_papers_decides_neither_way(measured, decided, better):
    of = experiment()
    of.scales, of.baseline = {"small": ScalePlan()}, "b"
    of.published.rows = {"b": {"x": 50.0}}
    result = judged(A_BEATS_B, exact(a=measured + better, b=measured), of)
    answer = Verdict.HOLDS if better > 0 else Verdict.FAILS
    assert result.verdict is (answer if decided else Verdict.UNDECIDED)
    assert bool(result.reason) is not decided


def test_a_missing_cell_leaves_its_column_out():
    of = experiment(columns=["x", "y"])
    values: Values = {**exact(a=2, b=1), ("a", "y"): [1.0]}
    result = judged(A_BEATS_B, values, of)
    assert result.verdict is Verdict.UNDECIDED
    assert result.reason.startswith("1 of 2 columns measured")
    assert result.p == 0
    assert judged(A_BEATS_B, {("a", "x"): [2.0]}).verdict is Verdict.NOT_MEASURED
    each = judged(replace(A_BEATS_B, each=True), values, of)
    assert (each.verdict, each.columns) == (Verdict.HOLDS, (1, 1, 2))


def test_a_scale_is_judged_by_the_columns_that_it_plans():
    of = experiment(columns=["x", "y"])
    of.scales["demo"].columns = {"x": []}
    result = judged(A_BEATS_B, exact(a=2, b=1), of)
    assert (result.verdict, result.columns) == (Verdict.HOLDS, (1, 1, 2))
    assert result.coverage


def test_claims_without_a_predicate_are_not_unmeasured_ones():
    claim, of = claim_about(order=None, as_published="as printed"), experiment()
    result = judge("paper2020", claim, of, MeasuredCells(of, "demo", []))
    assert result.verdict is Verdict.NO_PREDICATE
    (paper,) = claims_by_paper([result])
    assert (paper.measured, paper.unmeasured) == ((), (result,))


def test_columns_of_a_metric_are_averaged_and_counted():
    of = experiment(columns=["x", "y", "z"])
    a, b = (9.0, 2.0, 1.0), (1.0, 1.0, 2.0)
    values: Values = {}
    for column, left, right in zip("xyz", a, b, strict=True):
        values |= {("a", column): [left] * 3, ("b", column): [right] * 3}
    mean = judged(A_BEATS_B, values, of)
    assert (mean.verdict, mean.deciding.deciding.margin) == (Verdict.HOLDS, pytest.approx(8 / 3))
    assert mean.columns == (2, 3, 3)
    del values["a", "z"]
    partial = judged(A_BEATS_B, values, of)
    assert partial.verdict is Verdict.UNDECIDED
    assert partial.reason.startswith("2 of 3 columns measured")
    contrary = Order(better=["b"], than=["a"])
    assert judged(contrary, values, of).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("second", "verdict"),
    [([2.0] * 3, Verdict.HOLDS), ([-2.0] * 3, Verdict.FAILS), ([], Verdict.UNDECIDED)],
)
def test_a_claim_about_two_metrics_needs_both(second, verdict):
    of = experiment(columns=["x", "y"])
    of.columns[1] = replace(of.columns[1], metric="test/uas")
    first = {("a", "x"): [2.0] * 3, ("b", "x"): [1.0] * 3}
    more = {("a", "y"): second, ("b", "y"): [0.0] * 3}
    result = judged(A_BEATS_B, [*records_of(first), *records_of(more, "test/uas")], of)
    assert result.verdict is verdict


def test_parts_are_joined_by_the_largest_p_and_by_bonferronis_correction():
    of = experiment(columns=["x", "y"])
    of.columns[1] = replace(of.columns[1], metric="test/uas")
    noise = np.random.default_rng(0).normal(size=(4, 3))
    for shift, take in ((2.0, max), (-2.0, min)):
        x = {("a", "x"): (noise[0] + shift).tolist(), ("b", "x"): noise[1].tolist()}
        y = {("a", "y"): (noise[2] + shift).tolist(), ("b", "y"): noise[3].tolist()}
        side = "greater" if shift > 0 else "less"
        p = take(
            float(stats.ttest_rel(*cells.values(), alternative=side).pvalue) for cells in (x, y)
        )
        result = judged(A_BEATS_B, [*records_of(x), *records_of(y, "test/uas")], of)
        assert result.p == pytest.approx(p if shift > 0 else 2 * p, rel=1e-6)


def test_several_rows_are_refuted_by_the_largest_deficit():
    """The test is Tukey's of SciPy on residuals of rows and seeds, and exact if all are equal."""
    rows, seeds = [*"abcd"], 3
    of, noise = experiment(rows), np.random.default_rng(3)
    predicate, found = Order(better=rows, than=rows, by=-1.0), 0
    for draw in range(200):
        table = noise.normal(size=(len(rows), seeds))
        table[0] += 1.0  # the others are worse by just as much as they may be
        values = {(row, "x"): one.tolist() for row, one in zip(rows, table, strict=True)}
        result = judged(predicate, values, of)
        found += result.verdict is Verdict.FAILS
        if draw == 0:
            means = table.mean(1)
            residuals = table - means[:, None] - table.mean(0) + table.mean()
            error = ((residuals**2).sum() / 6 / seeds) ** 0.5
            p = stats.studentized_range.sf((np.ptp(means) - 1) / error, 4, 6)
            assert result.deciding.p_false == pytest.approx(p)
    assert found <= 200 * 0.05


def test_the_choice_of_rows_gains_nothing_by_chance():
    """Rows are chosen on validation data, on both sides: one in twenty tables may be wrong."""
    rows = [*"abcdef"]
    of = experiment([*rows, "base", "other"])
    noise, found = np.random.default_rng(1), 0
    predicate = Order(better=rows, than=["base", "other"], choose="dev/accuracy")
    for _ in range(300):
        cells = [(row, "x") for row in of.row_labels()]
        test, dev = ({cell: noise.normal(size=3).tolist() for cell in cells} for _ in range(2))
        records = [*records_of(test), *records_of(dev, "dev/accuracy")]
        found += judged(predicate, records, of).verdict is Verdict.HOLDS
    assert found <= 300 * 0.05 + 3 * (300 * 0.05 * 0.95) ** 0.5


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, Verdict.FAILS),
        ({"mean": True}, Verdict.HOLDS),
        ({"mean": True, "by": 1.4}, Verdict.HOLDS),
        ({"mean": True, "by": 1.6}, Verdict.FAILS),
        ({"by": -1.5}, Verdict.HOLDS),
        ({"by": -0.5}, Verdict.FAILS),
        ({"in_turn": True}, Verdict.HOLDS),
        ({"in_turn": True, "by": 1.5}, Verdict.FAILS),
    ],
)
def test_groups_of_rows_are_compared(options, verdict):
    of = experiment(["a", "b", "c", "d"])
    predicate = Order(better=["a", "b"], than=["c", "d"], **options)  # type: ignore[arg-type]
    assert judged(predicate, exact(a=5, b=2, c=3, d=1), of).verdict is verdict


@pytest.mark.parametrize(("distance", "verdict"), [(3.1, Verdict.HOLDS), (2.9, Verdict.FAILS)])
def test_rows_that_may_be_worse_than_each_other_lie_close(distance, verdict):
    of, rows = experiment(["a", "b", "c"]), ["a", "b", "c"]
    predicate = Order(better=rows, than=rows, by=-distance)
    assert judged(predicate, exact(a=1, b=4, c=2), of).verdict is verdict


def test_ensembles_are_compared_language_by_language():
    of = experiment()
    of.columns[0].aggregate = "ensemble"
    a, b = [90.0, 80.0, 71.0, 60.5], [89.5, 79.0, 70.5, 60.0]
    records = []
    for row, values in (("a", a), ("b", b)):
        parts = {f"/{name}": value for name, value in zip("wxyz", values, strict=True)}
        for part, value in {"": float(np.mean(values)), **parts}.items():
            place = {"row": row, "column": "x", "seed": None, "kind": "ensemble"}
            records.append(measurement(**place, value=value, metric=f"test/accuracy{part}"))
    paired = stats.ttest_rel(a, b, alternative="greater")
    result = judged(A_BEATS_B, records, of)
    expect(result, float(paired.pvalue), float(np.mean(a) - np.mean(b)))
    assert result.deciding.deciding.languages


def test_an_undecided_claim_names_what_would_be_seen():
    values = {("a", "x"): [60.0, 61.0, 62.0], ("b", "x"): [59.0, 62.1, 60.2]}
    result = judged(A_BEATS_B, values)
    one = result.deciding.deciding
    assert result.verdict is Verdict.UNDECIDED
    assert one.visible == pytest.approx(one.error * (stats.t.ppf(0.95, 2) + stats.t.ppf(0.8, 2)))
    assert "visible from" in result.certainty


def test_lower_is_better_for_metrics_that_say_so():
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
def test_bounds(predicate, left, verdict):
    result = judged(predicate, exact(a=2.5, b=4.5))
    assert result.verdict is verdict
    assert result.contrasts[0].left.value == pytest.approx(left)


def test_a_row_is_chosen_on_validation_data():
    predicate = Bound(rows=["a", "b"], lowest=2, choose="dev/accuracy")
    records = records_of(exact(a=1, b=3))
    for best, verdict in (("a", Verdict.FAILS), ("b", Verdict.HOLDS)):
        means = {"a": 0.5, "b": 0.5, best: 0.6}
        result = judged(predicate, [*records, *records_of(exact(**means), "dev/accuracy")])
        assert result.verdict is verdict
        assert result.contrasts[0].left.words.endswith(f" {best}")
    assert judged(predicate, records).verdict is Verdict.NOT_MEASURED


def test_spread_compares_main_effects_of_a_two_way_analysis():
    of = experiment()
    of.rows = [Axis("big", {"1": [], "2": [], "3": []}), Axis("small", {"p": [], "q": []})]
    tables = np.random.default_rng(2).normal(np.array([0, 4, 9])[:, None, None], 2.0, (3, 2, 4))
    tables[:, 1] += 1.0
    values = {
        (f"{'123'[i]} / {'pq'[j]}", "x"): tables[i, j].tolist() for i in range(3) for j in range(2)
    }
    noise = float(tables.var(-1, ddof=1).mean())
    big, small = (tables.mean(axis).std(ddof=1) for axis in ((1, 2), (0, 2)))
    error = (noise / 8 / 2 + noise / 12 / 1) ** 0.5
    p = float(stats.t.sf((big - small) / error, 18))
    result = judged(Spread(axis="small", than="big"), values, of)
    expect(result, p, float(big - small))
    expect(judged(Spread(axis="big", than="small"), values, of), 1 - p, float(small - big))
    ratios = [f"F = {big**2 / (noise / 8):.1f} ", f"F = {small**2 / (noise / 12):.1f} "]
    assert all(text in result.evidence for text in ratios)


@pytest.mark.parametrize("size", [0.0, 0.3, 1.0, 5.0])
def test_equal_main_effects_are_seldom_told_apart(size):
    of, noise, found = experiment(), np.random.default_rng(5), 0
    of.rows = [Axis(name, {label: [] for label in "123"}) for name in ("first", "second")]
    steps = size * np.array([-1.0, 0.0, 1.0])
    for _ in range(200):
        tables = noise.normal(steps[:, None, None] + steps[None, :, None], 1.0, (3, 3, 3))
        values = {
            (f"{i + 1} / {j + 1}", "x"): tables[i, j].tolist() for i in range(3) for j in range(3)
        }
        result = judged(Spread(axis="first", than="second"), values, of)
        found += result.verdict is Verdict.HOLDS
    assert found <= 200 * 0.05 + 2 * (200 * 0.05 * 0.95) ** 0.5


def test_the_evidence_has_measured_and_published_values_of_both_sides():
    of = experiment()
    of.published.rows = {"a": {"x": 2.5}, "b": {"x": 1.25}}
    (contrast,) = judged(A_BEATS_B, exact(a=2, b=1), of).contrasts
    assert [(one.value, one.published) for one in (contrast.left, contrast.right)] == [
        (2.0, 2.5),
        (1.0, 1.25),
    ]
    assert contrast.sentence == "x is 2.00 with a and 1.00 with b (published: 2.50 and 1.25)"


def test_claims_are_laid_out_by_paper():
    measured = judged(A_BEATS_B, exact(a=2, b=1))
    unmeasured = judged(A_BEATS_B, {})
    (paper,) = claims_by_paper([measured, unmeasured])
    assert (len(paper.measured), len(paper.unmeasured)) == (1, 1)
    assert paper.measured[0].verdict.css == "holds"
    assert paper.measured[0].experiment.anchor == "paper2020-table9"


def test_claims_without_a_verdict_say_why_in_different_words():
    of, noise = experiment(columns=["x", "y"]), [60.0, 61.0, 65.0]
    of.scales, of.baseline = {"small": ScalePlan()}, "b"
    of.published.rows = {"b": {"x": 61.0}}

    def word(values: Values, claim: Predicate = A_BEATS_B) -> str:
        result = judged(claim, values, of)
        assert result.verdict is (Verdict.UNDECIDED if values else Verdict.NOT_MEASURED)
        return result.word

    both = {("a", "y"): noise, ("b", "y"): noise[::-1]}
    words = [
        word({("a", "x"): noise, ("b", "x"): noise[::-1], **both}),
        word({("a", "x"): [62.0], ("b", "x"): [61.0], ("a", "y"): [62.0], ("b", "y"): [61.0]}),
        word({("a", "x"): noise, ("b", "x"): [50.0, 51.0, 52.0], **both}),  # a low baseline
        word({("a", "x"): [66.0] * 3, ("b", "x"): [60.0] * 3}),
        word({("a", "x"): [58.0] * 3, ("b", "x"): [60.0] * 3}),
        word({}),
        word({("b", "x"): noise, ("b", "y"): noise}, Bound(rows=["b"], lowest=61.0)),
    ]
    assert len({*words}) == len(words)


def test_rows_of_two_signatures_are_not_compared():
    records = records_of({("a", "x"): [60.0, 61.0, 62.0], ("b", "x"): [9.0, 9.5, 10.0]})
    for text, verdict in (("acc|scorer:own", Verdict.NOT_MEASURED), ("v:9", Verdict.HOLDS)):
        mixed = [
            replace(one, signature=f"{one.signature}|{text}") if one.row == "b" else one
            for one in records
        ]
        assert judged(A_BEATS_B, mixed).verdict is verdict
