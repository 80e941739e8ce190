"""Predicates of claims: two numbers to compare in each column, and by how much they differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from repro.config.claims import Bound, Order, Predicate, Spread, Within
from repro.config.experiment import Axis
from repro.evaluation.metrics import metric_of
from repro.report.claims.cells import MeasuredCells, Samples


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
    axes, columns = cells.experiment.rows, {one.name: one for one in cells.experiment.columns}
    match predicate:
        case Order():
            used = [*predicate.better, *predicate.than]
        case Bound():
            used = [*predicate.rows, *([predicate.relative_to] if predicate.relative_to else [])]
        case Within(rows=rows) if rows:
            used = rows
        case _:
            used = cells.experiment.row_labels()
    found = []
    for name in predicate.columns or columns:
        metric = predicate.metric or columns[name].metric
        samples = cells.samples(name, metric)
        if all(row in samples.means for row in used):
            sides = _compare(predicate, axes, metric, {row: samples.means[row] for row in used})
            seeds = min(samples.seeds[row] for row in used)
            # Another metric than the column's own is named with it.
            own = metric == columns[name].metric
            title = name if own else f"{metric.split('/')[1]}, runs of {name}:"
            found.append(Contrast(title, metric, *sides, seeds, samples.freedom > 0))
    return found


def _compare(
    predicate: Predicate, axes: Sequence[Axis], metric: str, means: Mapping[str, Samples]
) -> tuple[Samples, Samples, Samples]:
    """Left side, right side and margin of one column, from the means of the rows that are used."""
    match predicate:
        case Order():
            better = metric_of(metric).higher_is_better
            higher = better if predicate.direction is None else predicate.direction == "higher"
            sign = -1 if higher is False else 1
            # The least favourable row of `better` decides if each is meant, else the best one.
            kept = np.minimum if predicate.every else np.maximum
            left = sign * reduce(kept, [sign * means[row] for row in predicate.better])
            right = sign * reduce(np.maximum, [sign * means[row] for row in predicate.than])
            return left, right, sign * (left - right) - predicate.by
        case Bound():
            # The row and the limit that are closest to being violated, anew in each sample.
            reference = 1.0 if predicate.relative_to is None else means[predicate.relative_to]
            sides = []
            for value in (means[row] / reference for row in predicate.rows):
                for limit, sign in ((predicate.lowest, 1), (predicate.highest, -1)):
                    if limit is not None:
                        sides.append((value, np.full_like(value, limit), sign * (value - limit)))
            left, right, _ = min(sides, key=lambda side: side[2][0])
            return left, right, reduce(np.minimum, [margin for _, _, margin in sides])
        case Within():
            distance = np.ptp(np.stack([*means.values()]), axis=0)
            limits = np.full_like(distance, predicate.distance)
            return distance, limits, limits - distance
        case Spread():
            # The range over the labels of an axis, averaged over the labels of the others.
            grid = np.stack([*means.values()]).reshape(*(len(axis.values) for axis in axes), -1)
            names = [axis.name for axis in axes]
            left, right = (
                np.ptp(grid, axis=names.index(name)).reshape(-1, grid.shape[-1]).mean(0)
                for name in (predicate.axis, predicate.than)
            )
            return left, right, right - left
    raise TypeError(f"no such predicate: {type(predicate).__name__}")
