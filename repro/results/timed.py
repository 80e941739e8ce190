"""Updates timed in turn: their speeds in the cells of an artefact, in place of those of runs."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from repro.atomic import atomic_write_json
from repro.config.experiment import Column, Experiment, list_experiments, load_experiment
from repro.config.planning import plan_runs
from repro.errors import ResultsError
from repro.results.cells import Archive, Measurement
from repro.results.files import read_object
from repro.results.layout import speeds_path
from repro.results.record import from_dict

RATES = ("train/tokens_per_second", "train/pairs_per_second")
"""Metrics of speed, of whole runs or of updates timed in turn."""
EPOCH_MINUTES = "train/epoch_minutes"
"""Time of an epoch, of whole runs or at the speed of updates timed in turn."""
SPEED_GAIN = "train/speed_gain"
"""Speed in the last epoch divided by that in the second, measured in either way."""
SPEEDS = frozenset({*RATES, EPOCH_MINUTES, SPEED_GAIN})
"""Metrics that depend on what else a machine does."""


@dataclass
class Speeds:
    """Speeds behind the cells of an artefact."""

    machine: dict[str, str] = field(default_factory=dict)  # date, device, versions by column
    # Column to row to units (words, pairs) per second, or the ratio of the speeds in two epochs,
    # one value for each repetition. Values of different columns, or of different rows at another
    # repetition, are not pairs.
    columns: dict[str, dict[str, list[float]]] = field(default_factory=dict)


def read_speeds(path: Path) -> Speeds:
    """Read the output of :func:`write_speeds`; nothing was measured if there is no file.

    Raises:
        ResultsError: the file is damaged, or rows of a column have different numbers of values.
    """
    if not path.exists():
        return Speeds()
    found = from_dict(Speeds, read_object(path), str(path))
    for column, rows in found.columns.items():
        if len({len(values) for values in rows.values()}) > 1:
            raise ResultsError(f"{path}: rows of {column!r} have different numbers of repetitions")
    return found


def write_speeds(path: Path, machine: str, column: str, rows: dict[str, list[float]]) -> None:
    """Write the speeds of one column, in place of earlier ones of it.

    Raises:
        ResultsError: the file exists and is damaged.
    """
    found = read_speeds(path)
    found.machine[column], found.columns[column] = machine, rows
    atomic_write_json(path, asdict(found))


class TimedUpdates:
    """Recorded speeds of updates that were timed in turn, at the scale of an archive."""

    def __init__(self, archive: Archive) -> None:
        self._archive, self._scale = archive, archive.scale

    def shown(self, experiment: Experiment) -> list[Measurement]:
        """Return the measurements for tables: speeds in turn replace those of whole runs."""
        metrics = {one.name: one.metric for one in experiment.columns}
        timed = [one for one in self.speeds(experiment) if one.metric == metrics[one.column]]
        places = {(one.column, one.metric) for one in timed}
        runs = self._archive.measurements(experiment)
        return [*timed, *(one for one in runs if (one.column, one.metric) not in places)]

    def speeds(self, experiment: Experiment) -> list[Measurement]:
        """Return the speeds of updates timed in turn; a repetition stands in place of a seed.

        Speeds of whole runs depend on what else the machine did then. The time of an epoch is the
        number of its symbols, as the runs of the column tell, divided by the speed.
        """
        found = list[Measurement]()
        for column in experiment.columns_at(self._scale):
            (speeds, machine), metrics = self._timed(experiment, column), [*RATES]
            if column.metric == SPEED_GAIN:
                metrics = [SPEED_GAIN]
            elif speeds and column.metric == EPOCH_MINUTES:
                metrics, runs = [EPOCH_MINUTES], defaultdict[str, dict[str, float]](dict)
                for one in self._archive.measurements(experiment):
                    if one.column == column.name and one.metric in (EPOCH_MINUTES, RATES[0]):
                        runs[one.run_id][one.metric] = one.value
                both = [one.values() for one in runs.values() if len(one) == 2]
                lengths = [rate * minutes for rate, minutes in both]
                speeds = {
                    row: [fmean(lengths) / v for v in of] for row, of in speeds.items() if lengths
                }
            found += [
                Measurement.alone((row, column.name, metric), value, self._scale, seed, machine)
                for row, values in speeds.items()
                for metric in metrics
                for seed, value in enumerate(values, start=1)
            ]
        return found

    def _timed(self, experiment: Experiment, column: Column) -> tuple[dict[str, list[float]], str]:
        """Return the recorded speeds of the rows of a column, and the machine.

        As runs do, they fill cells of equal settings, whatever the artefact.
        """
        recorded, rates = self._recorded_speeds, {*RATES, EPOCH_MINUTES}
        columns = experiment.columns_at(self._scale)
        alike = [o for o in columns if {o.metric, column.metric} <= rates]
        alike = [one for one in alike if one.overrides == column.overrides]
        for one in (column, *alike):
            if found := recorded.get((experiment.name, one.name)):
                return found
        if column.metric not in rates or not recorded:
            return {}, ""
        mine, best = self._settings(experiment, column.name), (dict[str, list[float]](), "")
        for (name, other), (rows, machine) in recorded.items():
            theirs = self._settings(load_experiment(name), other)
            pairs = product(mine.items(), theirs.items())
            same = {row: rows[one] for (row, a), (one, b) in pairs if a == b and one in rows}
            best = max(best, (same, machine), key=lambda found: len(found[0]))
        return best

    @cached_property
    def _recorded_speeds(self) -> dict[tuple[str, str], tuple[dict[str, list[float]], str]]:
        """Speeds by row, and the machine, of every artefact and column that has a record."""
        place = (self._archive.results_dir, self._scale)
        found = {name: read_speeds(speeds_path(*place, name)) for name in list_experiments()}
        return {
            (name, column): (rows, one.machine.get(column, ""))
            for name, one in found.items()
            for column, rows in one.columns.items()
        }

    def _settings(self, experiment: Experiment, column: str) -> dict[str, Mapping[str, Any]]:
        """Return the settings that each row plans in a column of speeds; none if they are tuned."""
        metrics = {one.name: one.metric for one in experiment.columns}
        known = self._scale in experiment.scales and metrics.get(column) in {
            *RATES,
            EPOCH_MINUTES,
        }
        if experiment.tune is not None or not known:
            return {}
        runs = [run for run in plan_runs(experiment, self._scale) if run.column == column]
        return {
            run.row: self._archive.plans[self._archive.overrides_of(run)].settings
            for run in runs
            if run.seed == runs[0].seed
        }
