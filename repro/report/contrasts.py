"""Contrasts between cells of an artefact, their t-tests, and how several are joined."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, sqrt
from statistics import fmean, stdev, variance
from typing import Any, NamedTuple

import numpy as np

from repro.config.claims import Bound, Order, Predicate, Spread
from repro.config.experiment import Column, Experiment
from repro.evaluation.metrics import best_value, metric_of
from repro.report.cell import LEVEL, number_text
from repro.report.table import MeasuredCells
from repro.results import Measurement

RATIO_DIGITS = 3
LEAST_PAIRS = 3
"""Least number of seeds for a paired test: two differences leave one degree of freedom."""

Runs = Sequence[Measurement]


class Side(NamedTuple):
    """Side of a comparison: text with a ``{}`` for the value, measured and published value."""

    words: str
    value: float
    published: float | None = None


@dataclass(frozen=True)
class Contrast:
    """Comparison of two sides, which agrees with the claim if ``margin`` is above zero.

    Attributes:
        title: what is compared: a column, or a metric of its runs.
        left: the side that the claim is about.
        right: another side, or a limit.
        digits: decimals of the values.
        margin: measured distance from the limit of the claim, in the unit of the values.
        error: standard error of the margin; ``None`` if a cell has a single value.
        freedom: degrees of freedom of the error.
        seeds: smallest number of values behind a cell that is used.
        note: remark on how the rows were chosen.
    """

    title: str
    left: Side
    right: Side
    digits: int
    margin: float
    error: float | None
    freedom: float
    seeds: int
    note: str = ""

    @property
    def p_true(self) -> float:
        """p-value of the margin under the hypothesis that the true one is at most zero.

        It is 1 if the standard error is unknown.
        """
        # A tie without spread is not true: it must not count as true among several parts.
        return self._tail(self.margin) if self.error or self.margin else 1.0

    @property
    def p_false(self) -> float:
        """p-value of the margin under the hypothesis that the true one is at least zero.

        It is 1 if the standard error is unknown.
        """
        return self._tail(-self.margin)

    def _tail(self, margin: float) -> float:
        from scipy.special import stdtr  # slow to import

        if self.error is None:
            return 1.0
        return float(stdtr(self.freedom, -margin / self.error)) if self.error else float(margin < 0)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Lower and upper bound of the margin, 95 % confidence each; ``None`` without an error."""
        from scipy.special import stdtrit  # slow to import

        if self.error is None:
            return None
        reach = float(stdtrit(self.freedom, 1 - LEVEL)) * self.error
        return self.margin - reach, self.margin + reach

    @property
    def sentence(self) -> str:
        """Sentence with the measured values of both sides, and the published ones if printed."""

        def text(value: float) -> str:
            return number_text(value, self.digits)

        sides = (self.left, self.right)
        values = "".join(one.words.replace("{}", text(one.value), 1) for one in sides)
        known = [text(one.published) for one in sides if one.published is not None]
        published = f" (published: {' and '.join(known)})" if known else ""
        return f"{self.title} is {values}{published}"


class Outcome(NamedTuple):
    """Test of a statement about several contrasts: p-values of both answers.

    Attributes:
        p_true: p-value of the measured values if the statement is false.
        p_false: p-value of the measured values if it is true.
        seeds: smallest number of values behind a cell that is used.
        deciding: the contrast on whose sign the measured answer depends.
    """

    p_true: float
    p_false: float
    seeds: int
    deciding: Contrast

    @property
    def true(self) -> bool:
        """Whether the measured values agree with the statement."""
        return self.deciding.margin > 0

    @property
    def p(self) -> float | None:
        """p-value of the measured answer; ``None`` if it needs the spread of a single value."""
        p = self.p_true if self.true else self.p_false
        return None if self.seeds < 2 and p == 1 else p


def at_least(needed: int, parts: Sequence[Outcome], of: int | None = None) -> Outcome:
    """Test that at least ``needed`` of ``of`` parts are true, some of which may be unmeasured.

    That ``m`` of ``n`` parts are true has the p-value ``(n - m + 1) p(m)`` with the ``m``-th
    smallest p-value of a part: the largest for all of them; ``n`` times the smallest, Bonferroni's
    correction, for any of them. It holds whatever the dependence between parts. Unmeasured parts
    may be true or false; if the statement depends on them, both p-values are 1.

    Args:
        needed: number of parts that must be true.
        parts: the measured ones, one at least.
        of: number of all parts; ``None`` if all are measured.

    References:
        Benjamini & Heller (2008), Screening for partial conjunction hypotheses.
    """
    count = len(parts) if of is None else of

    def joint(number: int, values: Iterable[float]) -> float:
        ordered = sorted(values)
        if number > len(ordered):
            return 1.0
        return min(1.0, (len(ordered) - number + 1) * ordered[number - 1])

    ranked = sorted((one.deciding for one in parts), key=lambda one: -one.margin)
    return Outcome(
        joint(needed, (one.p_true for one in parts)),
        joint(count - needed + 1, (one.p_false for one in parts)),
        min(one.seeds for one in parts),
        ranked[min(needed, len(ranked)) - 1],
    )


def every(contrasts: Iterable[Contrast]) -> Outcome:
    """Test that all contrasts are true."""
    parts = [Outcome(one.p_true, one.p_false, one.seeds, one) for one in contrasts]
    return at_least(len(parts), parts)


def _by_seed(runs: Runs) -> dict[tuple[int | None, int], float]:
    """Return the values by seed and epoch: runs of several cells that share them are paired."""
    return {(one.seed, one.epoch): one.value for one in runs}


def estimate(weighted: Sequence[tuple[float, Runs]]) -> tuple[float, float | None, float]:
    """Estimate a weighted sum of the means of cells.

    With the same seeds, at least three, of the same version of the code in every cell, the sum is
    computed for each seed (the paired t-test for two cells). Otherwise every cell has a variance
    of its own, and the degrees of freedom are those of Welch and Satterthwaite.

    Returns:
        The sum, its standard error (``None`` if a cell has a single value), degrees of freedom.
    """
    found = [_by_seed(runs) for _, runs in weighted]
    weights = [weight for weight, _ in weighted]
    counts = [len(one) for one in found]
    pairs = list(zip(weights, found, strict=True))
    total = sum(weight * fmean(one.values()) for weight, one in pairs)
    if min(counts) < 2:
        return total, None, 0.0
    if (
        len(found) > 1
        and counts[0] >= LEAST_PAIRS
        and all(one.keys() == found[0].keys() for one in found)
    ):
        sums = [sum(weight * one[key] for weight, one in pairs) for key in found[0]]
        return total, stdev(sums) / sqrt(len(sums)), len(sums) - 1
    parts = [weight**2 * variance(one.values()) / len(one) for weight, one in pairs]
    shares = sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    return total, sqrt(sum(parts)), sum(parts) ** 2 / shares if shares else inf


def tested(
    measured: MeasuredCells, predicate: Predicate, columns: Sequence[Column]
) -> Outcome | None:
    """Test a predicate in a column, or on means over columns.

    Returns:
        None if a cell has no run, or if values are divided by a mean of zero.
    """
    experiment, metric = measured.experiment, predicate.metric or columns[0].metric
    own = metric == columns[0].metric
    rows = rows_of(predicate) or experiment.row_labels()
    runs = {row: [measured.shown(row, one, metric) for one in columns] for row in rows}
    if not all(all(found) for found in runs.values()):
        return None
    title = " and ".join(one.name for one in columns)
    title = f"the mean of {title}" if len(columns) > 1 else title
    published = experiment.published.rows
    printed = {
        row: fmean(published[row][one.name] for one in columns)
        for row in rows
        if own and all(one.name in published.get(row, {}) for one in columns)
    }
    if not own:
        title = f"{metric.split('/')[1].replace('_', ' ')} ({title})"
    cells = _Cells(title, metric, runs, printed)
    match predicate:
        case Bound(relative_to=str(other)) if cells.mean(other) == 0:
            return None
        case Order():
            return cells.order(predicate)
        case Bound(choose=None):
            return cells.bound(predicate, predicate.rows)
        case Bound(choose=str(choice)):
            tried = {row: measured.shown(row, columns[0], choice) for row in predicate.rows}
            if not all(tried.values()):
                return None
            means = {row: fmean(one.value for one in found) for row, found in tried.items()}
            return cells.bound(predicate, [best_value(means, choice)])
        case Spread():
            return cells.spread(predicate, experiment)
    raise TypeError(f"no such predicate: {type(predicate).__name__}")


def rows_of(predicate: Predicate) -> list[str]:
    """List the rows that a predicate names; none if it takes all."""
    match predicate:
        case Order():
            return [*dict.fromkeys([*predicate.better, *predicate.than])]
        case Bound(relative_to=reference):
            return [*predicate.rows, *([] if reference is None else [reference])]
    return []


@dataclass(frozen=True)
class _Cells:
    """Runs and published values of the cells of one column, or of columns that are averaged."""

    title: str
    metric: str
    runs: Mapping[str, Sequence[Runs]]
    published: Mapping[str, float]

    def mean(self, row: str) -> float:
        return fmean(fmean(one.value for one in runs) for runs in self.runs[row])

    def side(self, words: str, row: str) -> Side:
        return Side(words + row, self.mean(row), self.published.get(row))

    def contrast(
        self, left: Side, right: Side, weights: Mapping[str, float], limit: float
    ) -> Contrast:
        """Compare a weighted sum of rows with a limit, which the sum exceeds if it is true."""
        weighted = [
            (weight / len(self.runs[row]), runs)
            for row, weight in weights.items()
            for runs in self.runs[row]
        ]
        total, error, freedom = estimate(weighted)
        return Contrast(
            title=self.title,
            left=left,
            right=right,
            digits=metric_of(self.metric).digits,
            margin=total - limit,
            error=error,
            freedom=freedom,
            seeds=min(len(runs) for _, runs in weighted),
        )

    def order(self, predicate: Order) -> Outcome:
        """Test that rows are better than others."""
        better = metric_of(self.metric).higher_is_better
        higher = better if predicate.direction is None else predicate.direction == "higher"
        sign = -1 if higher is False else 1

        def compared(row: str, other: str) -> Contrast:
            left, right = self.side("{} with ", row), self.side(" and {} with ", other)
            return self.contrast(left, right, {row: sign, other: -sign}, predicate.by)

        if predicate.in_turn:
            return every(map(compared, predicate.better, predicate.than))
        each = [
            every(compared(row, other) for other in predicate.than if other != row)
            for row in predicate.better
        ]
        return at_least(1 if predicate.any else len(each), each)

    def bound(self, predicate: Bound, rows: Sequence[str]) -> Outcome:
        """Test that values lie between limits."""
        other, contrasts = predicate.relative_to, []
        limits = ((predicate.lowest, 1, "above"), (predicate.highest, -1, "below"))
        for row, (limit, sign, word) in product(rows, limits):
            if limit is None:
                continue
            left, weights, scale = self.side("{} with ", row), {row: float(sign)}, 1.0
            if other is not None:
                # ``a / b > limit`` is tested as ``a - limit * b > 0``: a weighted sum has a t-test,
                # a ratio has none.
                scale = self.mean(other)
                weights = {row: sign / scale}
                weights[other] = weights.get(other, 0.0) - sign * limit / scale
                known = row in self.published and other in self.published
                ratio = self.published[row] / self.published[other] if known else None
                left = Side(f"{{}} times that of {other} with {row}", left.value / scale, ratio)
            right = Side(f", to be {word} {{}}", limit)
            one = self.contrast(left, right, weights, 0.0 if other else sign * limit)
            contrasts.append(one if other is None else replace(one, digits=RATIO_DIGITS))
        outcome = every(contrasts)
        if predicate.choose is None:
            return outcome
        digits = metric_of(self.metric).digits
        others = ", ".join(
            f"{number_text(self.mean(row), digits)} ({row})"
            for row in predicate.rows
            if row not in rows
        )
        note = f"{rows[0]} has the best mean {predicate.choose}; the others have {others}"
        return outcome._replace(deciding=replace(outcome.deciding, note=note))

    def spread(self, predicate: Spread, experiment: Experiment) -> Outcome:
        """Test, seed by seed, that values vary less over one axis of the rows than over another."""
        names = [axis.name for axis in experiment.rows]

        def deviations(values: Mapping[str, float]) -> list[float]:
            grid = np.reshape([*values.values()], [len(axis.values) for axis in experiment.rows])
            axes = (names.index(name) for name in (predicate.axis, predicate.than))
            return [sqrt(np.var(grid, axis=axis, ddof=1).mean()) for axis in axes]

        cells = {row: _by_seed(runs) for row, (runs,) in self.runs.items()}
        shared = set[Any].intersection(*({*one} for one in cells.values()))
        tables = [{row: one[key] for row, one in cells.items()} for key in sorted(shared)]
        measured = [deviations(one) for one in tables or [{row: self.mean(row) for row in cells}]]
        margins = [right - left for left, right in measured]
        printed = deviations(self.published) if len(self.published) == len(cells) else [None, None]
        words = (f"{{}} over {predicate.axis}", f" and {{}} over {predicate.than}")
        left, right = map(Side, words, np.mean(measured, axis=0).tolist(), printed)
        return every(
            [
                Contrast(
                    title=f"the standard deviation of {self.title}",
                    left=left,
                    right=right,
                    digits=metric_of(self.metric).digits,
                    margin=fmean(margins),
                    error=stdev(margins) / sqrt(len(margins)) if len(margins) > 1 else None,
                    freedom=len(margins) - 1,
                    seeds=len(margins),
                )
            ]
        )
