"""Predicates of claims: two numbers to compare in each column, and by how much they differ."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np

from repro.config.claims import Bound, Order, Predicate, Spread, Within
from repro.config.experiment import ROW_SEPARATOR, Axis, Column
from repro.evaluation.metrics import metric_of
from repro.report.claims.cells import ColumnSamples, MeasuredCells, Samples


@dataclass(frozen=True)
class Contrast:
    """A predicate in one column: it is true where ``margin`` is above zero.

    All samples have shape ``(1 + DRAWS,)``, the measured value first.

    Attributes:
        column: name of the column.
        metric: metric of the values.
        left: the value that the claim is about: a cell, a ratio of cells, or a range.
        right: what it is compared with: a cell, a limit, or another range.
        margin: how far the predicate is from becoming false, in the unit of the values.
        seeds: fewest values behind a cell that is used.
        tested: whether the spread over seeds is known.
    """

    column: str
    metric: str
    left: Samples
    right: Samples
    margin: Samples
    seeds: int
    tested: bool


def contrasts(predicate: Predicate, cells: MeasuredCells) -> list[Contrast]:
    """One contrast for each column that has a value in every cell that the predicate needs."""
    named = predicate.columns or [column.name for column in cells.experiment.columns]
    columns = {column.name: column for column in cells.experiment.columns}
    found = (_contrast(predicate, cells, columns[name]) for name in named)
    return [one for one in found if one is not None]


def _contrast(predicate: Predicate, cells: MeasuredCells, column: Column) -> Contrast | None:
    metric = predicate.metric or column.metric
    samples = cells.samples(column.name, metric)
    used = _rows_used(predicate, cells.experiment.rows)
    if any(row not in samples.means for row in used):
        return None
    left, right, margin = _compare(predicate, cells.experiment.rows, metric, samples)
    return Contrast(
        column=column.name,
        metric=metric,
        left=left,
        right=right,
        margin=margin,
        seeds=min(samples.seeds[row] for row in used),
        tested=samples.freedom > 0,
    )


def _rows_used(predicate: Predicate, axes: Sequence[Axis]) -> list[str]:
    match predicate:
        case Order():
            return [*predicate.better, *predicate.than]
        case Bound():
            return [*predicate.rows, *([predicate.relative_to] if predicate.relative_to else [])]
        case Within(rows=rows) if rows:
            return rows
    return [ROW_SEPARATOR.join(labels) for labels in product(*(axis.values for axis in axes))]


def _compare(
    predicate: Predicate, axes: Sequence[Axis], metric: str, samples: ColumnSamples
) -> tuple[Samples, Samples, Samples]:
    """Left side, right side and margin of one column."""
    match predicate:
        case Order():
            return _order(predicate, _sign(predicate, metric), samples)
        case Bound():
            return _bound(predicate, samples)
        case Within():
            values = [samples.means[row] for row in _rows_used(predicate, axes)]
            distance = _range(values)
            limit = np.full_like(distance, predicate.distance)
            return distance, limit, limit - distance
        case Spread():
            left, right = (
                _mean_range(name, axes, samples) for name in (predicate.axis, predicate.than)
            )
            return left, right, right - left
    raise TypeError(f"no such predicate: {type(predicate).__name__}")


def _sign(predicate: Order, metric: str) -> int:
    better = metric_of(metric).higher_is_better
    higher = better if predicate.direction is None else predicate.direction == "higher"
    return -1 if higher is False else 1


def _order(predicate: Order, sign: int, samples: ColumnSamples) -> tuple[Samples, Samples, Samples]:
    # The least favourable row of `better` decides if each of them is meant, else the best one.
    kept = np.minimum if predicate.every else np.maximum
    left = sign * reduce(kept, [sign * samples.means[row] for row in predicate.better])
    right = sign * reduce(np.maximum, [sign * samples.means[row] for row in predicate.than])
    return left, right, sign * (left - right) - predicate.by


def _bound(predicate: Bound, samples: ColumnSamples) -> tuple[Samples, Samples, Samples]:
    """Margin of the row and limit that are closest to being violated, anew in each sample."""
    reference = 1.0 if predicate.relative_to is None else samples.means[predicate.relative_to]
    sides = []
    for row in predicate.rows:
        value = samples.means[row] / reference
        for limit, sign in ((predicate.lowest, 1), (predicate.highest, -1)):
            if limit is not None:
                sides.append((value, np.full_like(value, limit), sign * (value - limit)))
    left, right, _ = min(sides, key=lambda side: side[2][0])
    return left, right, reduce(np.minimum, [margin for _, _, margin in sides])


def _range(values: Sequence[Samples]) -> Samples:
    stacked = np.stack(values)
    return stacked.max(0) - stacked.min(0)


def _mean_range(name: str, axes: Sequence[Axis], samples: ColumnSamples) -> Samples:
    """Range over the labels of one axis, averaged over the labels of the others."""
    groups = list(_groups(name, axes))
    return np.mean([_range([samples.means[row] for row in group]) for group in groups], axis=0)


def _groups(name: str, axes: Sequence[Axis]) -> Iterator[list[str]]:
    """Rows that differ in the label of one axis only."""
    others = [[None] if axis.name == name else list(axis.values) for axis in axes]
    own = next(axis for axis in axes if axis.name == name)
    for fixed in product(*others):
        yield [
            ROW_SEPARATOR.join(label if kept is None else kept for kept in fixed)
            for label in own.values
        ]
