"""Contrasts between cells of an artefact, their t-tests, and how several are joined."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, sqrt
from statistics import fmean, harmonic_mean, variance
from typing import NamedTuple

import numpy as np

from repro.config.claims import Bound, Order, Predicate, Spread
from repro.config.experiment import Column, Experiment
from repro.evaluation.metrics import best_value, metric_of, without_versions
from repro.report.cell import LEVEL, number_text, p_text
from repro.report.table import MeasuredCells
from repro.results import Measurement

MARGIN_RATIO_DIGITS = 3
LEAST_PAIRS = 3
"""Least number of seeds for a paired test: two differences leave one degree of freedom."""
POWER = 0.8
"""Probability with which an effect of the size named as visible would be decided."""

Runs = Sequence[Measurement]


class Side(NamedTuple):
    """Side of a comparison: text with a ``{}`` for the value, measured and published value."""

    words: str
    value: float
    published: float | None = None


@dataclass(frozen=True)
class Contrast:
    """Comparison of two sides, which agrees with the claim if ``margin`` is above zero."""

    title: str  # what is compared: a column, or a metric of its runs
    left: Side  # the side that the claim is about
    right: Side  # another side, or a limit
    digits: int  # decimals of the values
    margin: float  # measured distance from the limit of the claim, in the unit of the values
    error: float | None  # standard error of the margin; None if a cell has a single value
    freedom: float  # degrees of freedom of the error
    seeds: int  # smallest number of values behind a cell that is used
    note: str = ""  # remark on how the rows were chosen, or on the analysis of variance
    languages: bool = False  # the values behind a cell are those of languages, not of seeds

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
        reach = self._reach(1 - LEVEL)
        return None if reach is None else (self.margin - reach, self.margin + reach)

    @property
    def visible(self) -> float | None:
        """True margin that would be decided with probability :data:`POWER`."""
        return self._reach(1 - LEVEL, POWER)

    def _reach(self, *levels: float) -> float | None:
        """Return the sum of quantiles of the error, ``None`` if it is unknown."""
        from scipy.special import stdtrit  # slow to import

        if self.error is None:
            return None
        return self.error * sum(float(stdtrit(self.freedom, level)) for level in levels)

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
    """Test of a statement about several contrasts: p-values of both answers."""

    p_true: float  # p-value of the measured values if the statement is false
    p_false: float  # p-value of the measured values if it is true
    seeds: int  # smallest number of values behind a cell that is used
    deciding: Contrast  # the contrast on whose sign the measured answer depends

    @property
    def true(self) -> bool:
        """Whether the measured values agree with the statement."""
        return self.deciding.margin > 0

    @property
    def p(self) -> float | None:
        """p-value of the measured answer; ``None`` if it needs the spread of a single value."""
        p = self.p_true if self.true else self.p_false
        return None if self.seeds < 2 and p == 1 else p


def every(parts: Sequence[Outcome], of: int | None = None) -> Outcome:
    """Test that all of several parts are true, some of which may be unmeasured.

    The p-value of "all" is the largest of the parts; that of "not all" is the smallest one, times
    their number (Bonferroni's correction).

    Args:
        parts: the measured ones, one at least.
        of: number of all parts; ``None`` if all are measured.
    """
    whole = of is None or len(parts) == of
    return Outcome(
        max(one.p_true for one in parts) if whole else 1.0,
        min(1.0, len(parts) * min(one.p_false for one in parts)),
        min(one.seeds for one in parts),
        min((one.deciding for one in parts), key=lambda one: one.margin),
    )


def outcome_of(one: Contrast) -> Outcome:
    """Test a single contrast."""
    return Outcome(one.p_true, one.p_false, one.seeds, one)


def _by_seed(runs: Runs) -> dict[tuple[object, ...], float]:
    """Return the values by part (language), seed and epoch: cells that share them are paired."""
    return {(*one.metric.split("/")[2:], one.seed, one.epoch): one.value for one in runs}


def _paired(cells: Sequence[Runs]) -> list[tuple[object, ...]] | None:
    """Return what several cells have in common if it is the same in all, else ``None``."""
    found = [_by_seed(runs) for runs in cells]
    same = all(one.keys() == found[0].keys() for one in found)
    return [*found[0]] if len(found) > 1 and same and len(found[0]) >= LEAST_PAIRS else None


Weighted = Sequence[tuple[float, Runs]]


def estimate(columns: Sequence[Weighted]) -> tuple[float, float | None, float]:
    """Estimate a weighted sum of the means of cells, which are given column by column.

    With the same seeds, at least three, of the same version of the code in every cell, the sum is
    computed for each seed (the paired t-test for two cells); if only the cells of a column share
    them (languages), for each column. Otherwise every cell has a variance of its own. Degrees of
    freedom of several variances are those of Welch and Satterthwaite.

    Returns:
        The sum, its standard error (``None`` if a cell has a single value), degrees of freedom.
    """
    cells = [cell for column in columns for cell in column]
    total = sum(weight * fmean(one.value for one in runs) for weight, runs in cells)
    if min(len(runs) for _, runs in cells) < 2:
        return total, None, 0.0
    parts: list[tuple[float, int]] = []
    shared = _paired([runs for _, runs in cells]) is not None
    for group in [cells] if shared else columns:
        found = [(weight, _by_seed(runs)) for weight, runs in group]
        if (keys := _paired([runs for _, runs in group])) is not None:
            sums = [sum(weight * one[key] for weight, one in found) for key in keys]
            parts.append((variance(sums) / len(sums), len(sums) - 1))
        else:
            parts += [(w**2 * variance(one.values()) / len(one), len(one) - 1) for w, one in found]
    return total, *_pooled(parts)


def _pooled(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the standard error of a sum with independent variances, and degrees of freedom."""
    whole = sum(part for part, _ in parts)
    shares = sum(part**2 / freedom for part, freedom in parts)
    return sqrt(whole), whole**2 / shares if shares else inf


def runs_of(measured: MeasuredCells, row: str, column: Column, metric: str) -> Runs:
    """Return the values behind a cell: one for each seed, or for each language of an ensemble."""
    if column.aggregate != "ensemble":
        return measured.shown(row, column, metric)
    parts = (key for key in measured.by_cell if key[:2] == (row, column.name))
    names = sorted(name for *_, name in parts if name.startswith(f"{metric}/"))
    return [one for name in names for one in measured.shown(row, column, name)]


def tested(
    measured: MeasuredCells, predicate: Predicate, columns: Sequence[Column]
) -> Outcome | None:
    """Test a predicate on means over columns of one metric.

    Returns:
        None if a cell has no run, if values of a metric have several signatures, or if values are
        divided by a mean of zero.
    """
    experiment = measured.experiment
    metrics = [predicate.metric or one.metric for one in columns]
    rows = rows_of(predicate) or experiment.row_labels()

    def found(names: Sequence[str]) -> dict[str, list[Runs]]:
        cells = list(zip(columns, names, strict=True))
        return {row: [runs_of(measured, row, one, name) for one, name in cells] for row in rows}

    runs = found(metrics)
    tried = found([predicate.choose] * len(columns)) if predicate.choose else runs
    if not all(all(cells) for cells in (*runs.values(), *tried.values())):
        return None
    cells_of_rows = [cell for row in (*runs.values(), *tried.values()) for cell in row]
    signatures = {(o.metric, without_versions(o.signature)) for cell in cells_of_rows for o in cell}
    if len(signatures) > len({metric for metric, _ in signatures}):
        return None
    title = " and ".join(one.name for one in columns)
    title = f"the mean of {title}" if len(columns) > 1 else title
    if predicate.metric is not None:
        title = f"{metrics[0].split('/')[1].replace('_', ' ')} ({title})"
    printed = experiment.published.rows if predicate.metric is None else {}
    published = {
        row: [printed.get(row, {}).get(one.name) for one in columns]
        for row in experiment.row_labels()
    }
    cells = _Cells(title, metrics[0], runs, published, tried, predicate.choose)
    match predicate:
        case Bound(relative_to=str(other)) if not all(cells.means(other)):
            return None
        case Order():
            return cells.order(predicate)
        case Bound():
            return cells.bound(predicate)
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


Weights = Mapping[str, float]
"""Rows of a column to the weights of their means."""


@dataclass(frozen=True)
class _Cells:
    """Runs and published values of the cells of columns that are averaged."""

    title: str  # name of the columns
    metric: str  # what the values are
    runs: Mapping[str, Sequence[Runs]]  # by row, the runs of each column
    published: Mapping[str, Sequence[float | None]]  # by row, the published value of each column
    # By row, the runs of each column with the metric that chooses a row.
    tried: Mapping[str, Sequence[Runs]]
    choice: str | None  # the metric that chooses a row, if any

    @property
    def count(self) -> int:
        """Number of columns."""
        return len(next(iter(self.runs.values())))

    def means(self, row: str) -> list[float]:
        """Return the mean over the runs of each column."""
        return [fmean(one.value for one in runs) for runs in self.runs[row]]

    def weighted(self, weights: Sequence[Weights], published: bool = False) -> float | None:
        """Return the mean over columns of a weighted sum of measured or published values."""
        values = self.published if published else {row: self.means(row) for row in self.runs}
        found = [
            (weight, values[row][n]) for n, one in enumerate(weights) for row, weight in one.items()
        ]
        if any(value is None for _, value in found):
            return None
        return sum(weight * (value or 0.0) for weight, value in found) / len(weights)

    def chosen(self, rows: Sequence[str]) -> list[str]:
        """Return, for each column, the row that validation data choose."""
        assert self.choice is not None
        return [
            best_value({r: fmean(one.value for one in self.tried[r][n]) for r in rows}, self.choice)
            for n in range(self.count)
        ]

    def side(self, words: str, weights: Sequence[Weights]) -> Side:
        """Describe the mean of rows, of which each column may have others."""
        names = [*dict.fromkeys(row for one in weights for row in one)]
        label = " or ".join(names) if self.choice else ", ".join(names)
        label = label if self.choice or len(names) == 1 else f"the mean of {label}"
        value = self.weighted(weights)
        assert value is not None
        return Side(words + label, value, self.weighted(weights, published=True))

    def contrast(
        self, left: Side, right: Side, weights: Sequence[Weights], limit: float
    ) -> Contrast:
        """Compare a weighted sum of rows with a limit, which the sum exceeds if it is true."""
        columns = [
            [(weight / self.count, self.runs[row][n]) for row, weight in one.items()]
            for n, one in enumerate(weights)
        ]
        total, error, freedom = estimate(columns)
        runs = [runs for column in columns for _, runs in column]
        return Contrast(
            title=self.title,
            left=left,
            right=right,
            digits=metric_of(self.metric).digits,
            margin=total - limit,
            error=error,
            freedom=freedom,
            seeds=min(map(len, runs)),
            languages=any(one.kind == "ensemble" for one in runs[0]),
        )

    def order(self, predicate: Order) -> Outcome:
        """Test that rows are better than others."""
        better = metric_of(self.metric).higher_is_better
        higher = better if predicate.direction is None else predicate.direction == "higher"
        sign = -1 if higher is False else 1

        def mean(rows: Sequence[str]) -> list[Weights]:
            return [dict.fromkeys(rows, 1 / len(rows))] * self.count

        def compared(these: Sequence[Weights], those: Sequence[Weights]) -> Contrast:
            left, right = self.side("{} with ", these), self.side(" and {} with ", those)
            weights = [
                {row: sign * (this.get(row, 0) - that.get(row, 0)) for row in (*this, *that)}
                for this, that in zip(these, those, strict=True)
            ]
            return self.contrast(left, right, weights, predicate.by)

        if predicate.mean:
            return outcome_of(compared(mean(predicate.better), mean(predicate.than)))
        if predicate.choose:
            sides = (self.chosen(predicate.better), self.chosen(predicate.than))
            one, other = ([{row: 1.0} for row in rows] for rows in sides)
            return outcome_of(compared(one, other))
        pairs = product(predicate.better, predicate.than)
        if predicate.in_turn:
            pairs = zip(predicate.better, predicate.than, strict=True)  # type: ignore[assignment]
        contrasts = [compared(mean([a]), mean([b])) for a, b in pairs if a != b]
        return self.with_omnibus_test(every([outcome_of(one) for one in contrasts]), len(contrasts))

    def with_omnibus_test(self, outcome: Outcome, comparisons: int) -> Outcome:
        """Refute several comparisons of rows by the largest deficit (Tukey's range test).

        Rows and seeds are the two ways of an analysis of variance without interaction, whose
        residuals give the common variance: unlike Bonferroni's correction of paired tests, which
        have two degrees of freedom with three seeds, the test keeps its power with many rows.
        """
        from scipy.stats import studentized_range  # slow to import

        deficit, rows = -outcome.deciding.margin, [*self.runs]
        keys = _paired([runs for row in rows for runs in self.runs[row]])
        if comparisons < 2 or deficit <= 0 or keys is None:
            return outcome
        table = np.mean(
            [[[_by_seed(runs)[key] for key in keys] for runs in self.runs[row]] for row in rows], 1
        )
        centered = table - table.mean(1, keepdims=True)
        residuals = centered - centered.mean(0)
        freedom = (len(rows) - 1) * (len(keys) - 1)
        error = sqrt(float((residuals**2).sum()) / freedom / len(keys))
        p = float(studentized_range.sf(deficit / error, len(rows), freedom)) if error else 0.0
        return outcome._replace(p_false=p)

    def ratio(self, rows: Sequence[str], other: str, published: bool = False) -> float | None:
        """Return the mean over columns of ratios to a row; ``None`` if one is not printed."""
        bases = self.published[other] if published else self.means(other)
        known = [(row, base) for row, base in zip(rows, bases, strict=True) if base is not None]
        weights = [{row: 1 / base} for row, base in known]
        return self.weighted(weights, published) if len(known) == len(bases) else None

    def bound(self, predicate: Bound) -> Outcome:
        """Test that the mean of every row over columns lies between limits."""
        other, contrasts = predicate.relative_to, []
        tried = [[row] * self.count for row in predicate.rows]
        if predicate.choose:
            tried = [self.chosen(predicate.rows)]
        limits = ((predicate.lowest, 1, "above"), (predicate.highest, -1, "below"))
        for rows, (limit, sign, word) in product(tried, limits):
            if limit is None:
                continue
            left = self.side("{} with ", [{row: 1.0} for row in rows])
            weights: list[dict[str, float]] = [{row: float(sign)} for row in rows]
            if other is not None:
                # ``a / b > limit`` is tested as ``a - limit * b > 0``: a weighted sum has a t-test,
                # a ratio has none.
                value = self.ratio(rows, other)
                assert value is not None
                words = left.words.replace("{}", f"{{}} times that of {other}", 1)
                left = Side(words, value, self.ratio(rows, other, published=True))
                weights = []
                for row, base in zip(rows, self.means(other), strict=True):
                    one = {row: sign / base}
                    one[other] = one.get(other, 0.0) - sign * limit / base
                    weights.append(one)
            right = Side(f", to be {word} {{}}", limit)
            found = self.contrast(left, right, weights, 0.0 if other else sign * limit)
            contrasts.append(found if other is None else replace(found, digits=MARGIN_RATIO_DIGITS))
        outcome = every([outcome_of(one) for one in contrasts])
        if predicate.choose is None:
            return outcome
        best = tried[0]
        digits = metric_of(self.metric).digits
        others = ", ".join(
            f"{number_text(fmean(self.means(row)), digits)} ({row})"
            for row in predicate.rows
            if row not in best
        )
        note = f"{' or '.join(dict.fromkeys(best))} has the best mean {predicate.choose}"
        note += f"; the others have {others}" if others else ""
        return outcome._replace(deciding=replace(outcome.deciding, note=note))

    def spread(self, predicate: Spread, experiment: Experiment) -> Outcome:
        """Compare the main effects of two axes of the rows, by a two-way analysis of variance.

        An effect is the standard deviation of the means over the labels of an axis. Its square
        exceeds the true one by the variance of such a mean, alike on both sides: the difference of
        two effects of equal size has no expectation, and at most the standard error of this test.
        """
        from scipy.special import fdtrc  # slow to import

        sides = (predicate.axis, predicate.than)
        axes = [[one.name for one in experiment.rows].index(name) for name in sides]
        shape = [len(axis.values) for axis in experiment.rows]
        labels = [shape[axis] for axis in axes]

        def effects(values: Sequence[float]) -> list[float]:
            grid = np.reshape(values, shape)
            rest = [tuple(n for n in range(grid.ndim) if n != axis) for axis in axes]
            return [float(np.std(grid.mean(axis=others), ddof=1)) for others in rest]

        found, parts, notes = [], [], []
        for n in range(self.count):
            values = [[one.value for one in runs[n]] for runs in self.runs.values()]
            found.append(effects([fmean(one) for one in values]))
            if min(map(len, values)) < 2:
                continue
            freedom = sum(len(one) - 1 for one in values)
            noise = sum(variance(one) * (len(one) - 1) for one in values) / freedom
            # Variance of a mean over a label, each of which has as many cells.
            means = [noise / (harmonic_mean(map(len, values)) * len(values) / k) for k in labels]
            parts.append((sum(m / (k - 1) for m, k in zip(means, labels, strict=True)), freedom))
            for name, effect, k, mean in zip(sides, found[-1], labels, means, strict=True):
                ratio = effect**2 / mean if mean else inf
                p = float(fdtrc(k - 1, freedom, ratio))
                notes.append(f"F = {ratio:.1f} ({p_text(p)}) for {name}")
        low, high = np.mean(found, 0).tolist()
        printed = [[self.published[row][n] for row in self.runs] for n in range(self.count)]
        shown: list[float | None] = [None, None]
        if all(None not in one for one in printed):
            values = [[value or 0.0 for value in one] for one in printed]
            shown = [*np.mean([effects(one) for one in values], 0).tolist()]
        error: float | None = None
        degrees = 0.0
        if len(parts) == self.count:
            error, degrees = _pooled([(one / self.count**2, many) for one, many in parts])
        return outcome_of(
            Contrast(
                title=f"the standard deviation of means of {self.title}",
                left=Side(f"{{}} over {predicate.axis}", low, shown[0]),
                right=Side(f" and {{}} over {predicate.than}", high, shown[1]),
                digits=metric_of(self.metric).digits,
                margin=high - low,
                error=error,
                freedom=degrees,
                seeds=min(len(runs) for cells in self.runs.values() for runs in cells),
                note="; ".join(notes),
            )
        )
