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
    plan = experiment.scales[scale]
    for label, own in experiment.row_overrides_at(scale).items():
        tune = experiment.tuning_of(label)
        for column in experiment.columns_at(scale):
            seeds = experiment.seeds_at(scale, column.name)
            first = PlannedRun(
                experiment=experiment.name,
                row=label,
                column=column.name,
                seed=seeds[0],
                cell=(
                    *experiment.base, f"scale={scale}", *plan.overrides, *own, *column.overrides
                ),
                setting="" if tune is None else tune.key,
                superseded=tuple(plan.superseded),
            )  # fmt: skip
            if tune is None:
                yield from (replace(first, seed=seed) for seed in seeds)
            else:
                grid = experiment.grid_at(scale, column.name)
                yield from (replace(first, value=value) for value in grid)
