"""The runs that an experiment needs: rows × columns × seeds, and the values of what is tuned."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from repro.config.errors import ConfigError
from repro.config.experiment import Experiment


@dataclass(frozen=True)
class PlannedRun:
    """One run that a cell needs.

    Attributes:
        seed: the run's.
        value: value of the tuned setting; ``None`` where nothing is tuned.
        cell: the overrides of every run of the cell.
        setting: key of the tuned setting.
        superseded: overrides of the scale's earlier protocol.
    """

    experiment: str
    row: str
    column: str
    seed: int
    cell: tuple[str, ...]
    setting: str = ""
    value: float | None = None
    superseded: tuple[str, ...] = ()

    @property
    def overrides(self) -> tuple[str, ...]:
        """Overrides that compose the run's configuration."""
        tuned = () if self.value is None else (f"{self.setting}={self.value:.12g}",)
        return (*self.cell, *tuned, f"seed={self.seed}")

    def repeated(self, *, seed: int | None = None, value: float | None = None) -> "PlannedRun":
        """Return a copy of this run with another seed or another tuned value."""
        return replace(
            self,
            seed=self.seed if seed is None else seed,
            value=self.value if value is None else value,
        )


def plan_runs(experiment: Experiment, scale: str) -> Iterator[PlannedRun]:
    """List the runs that are known before any has run.

    Without tuning these are all; with tuning those of the first seed and of every value of the
    grid. Cells that share a run name the same overrides.

    Raises:
        ConfigError: the experiment does not exist at this scale.
    """
    if scale not in experiment.scales:
        raise ConfigError(
            f"{experiment.name} has no scale {scale!r}; it has {', '.join(experiment.scales)}"
        )
    for first in _cells(experiment, scale):
        if experiment.tuning_of(first.row) is None:
            seeds = experiment.seeds_at(scale, first.column)
            yield from (first.repeated(seed=seed) for seed in seeds)
        else:
            grid = experiment.grid_at(scale, first.column)
            yield from (first.repeated(value=value) for value in grid)


def _cells(experiment: Experiment, scale: str) -> Iterator[PlannedRun]:
    """The first seed's run of every cell."""
    extra = experiment.scales[scale].overrides
    for label, overrides in experiment.row_overrides_at(scale).items():
        tune = experiment.tuning_of(label)
        setting = "" if tune is None else tune.key
        for column in experiment.columns_at(scale):
            cell = (*experiment.base, f"scale={scale}", *extra, *overrides, *column.overrides)
            first = experiment.seeds_at(scale, column.name)[0]
            earlier = tuple(experiment.scales[scale].superseded)
            yield PlannedRun(
                experiment.name, label, column.name, first, cell, setting, superseded=earlier
            )
