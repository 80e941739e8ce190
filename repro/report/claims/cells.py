"""Cell means with their uncertainty over seeds, as one measured value and many simulated ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from repro.config.experiment import Experiment
from repro.report.cell import measured
from repro.report.table import chosen_records, index_records
from repro.results import Measurement

DRAWS = 20_000
"""Simulated tables; the standard error of a share near 0.05 is then 0.0015."""

_SEED = 20_191

Samples = NDArray[np.float64]
"""Shape ``(1 + DRAWS,)``: the measured mean of a cell first, then simulated means."""


@dataclass(frozen=True)
class MeasuredCells:
    """The cells of one artefact at one scale.

    A cell's mean over ``n`` seeds has an error of ``σ / √n``. The standard deviation ``σ`` is that
    of one column and metric, pooled over its rows, since two or three seeds say little about the
    spread of one cell alone. Simulated means follow the posterior of the mean under a flat prior:
    ``σ²`` is drawn as ``s² ν / χ²(ν)`` with ``ν`` degrees of freedom, then each mean from a normal
    distribution, so that a single cell's mean follows Student's t.

    Attributes:
        experiment: names rows and columns.
        scale: scale of the records.
        records: of the artefact at this scale.
    """

    experiment: Experiment
    scale: str
    records: Sequence[Measurement]

    @cached_property
    def _by_cell(self) -> dict[tuple[str, str, str], list[Measurement]]:
        return index_records(chosen_records(self.experiment, self.records, self.scale))

    def values(self, row: str, column: str, metric: str) -> list[float]:
        """Measured values, one for each seed found (one for an ensemble)."""
        shown = next(one for one in self.experiment.columns if one.name == column)
        seeds = self.experiment.seeds_at(self.scale, column)
        found = measured(self._by_cell.get((row, column, metric), []), shown, seeds)
        return [one.value for one in found]

    def samples(self, column: str, metric: str) -> "ColumnSamples":
        """Means of every row of one column."""
        rows = self.experiment.row_labels()
        found = {row: self.values(row, column, metric) for row in rows}
        measured = {row: values for row, values in found.items() if values}
        freedom = sum(len(values) - 1 for values in measured.values())
        squares = sum(float(np.var(v)) * len(v) for v in measured.values())
        name = f"{self.experiment.name} {column} {metric}".encode()
        noise = np.random.default_rng([_SEED, *name])
        deviation = np.zeros(DRAWS)
        if freedom:
            deviation = np.sqrt(squares / noise.chisquare(freedom, DRAWS))
        means = {}
        for row, values in measured.items():
            mean = float(np.mean(values))
            drawn = mean + deviation / len(values) ** 0.5 * noise.standard_normal(DRAWS)
            means[row] = np.concatenate([[mean], drawn])
        seeds = {row: len(values) for row, values in measured.items()}
        return ColumnSamples(means, seeds, freedom)


@dataclass(frozen=True)
class ColumnSamples:
    """Means of one column.

    Attributes:
        means: row to samples, shape ``(1 + DRAWS,)``; rows without a run are missing.
        seeds: row to the number of values behind its mean.
        freedom: degrees of freedom of the standard deviation; 0 where every row has one value, so
            that nothing is known about the spread.
    """

    means: dict[str, Samples]
    seeds: dict[str, int]
    freedom: int
