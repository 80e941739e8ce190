"""Assignment of recorded runs to the cells of an artefact, by their planned configurations."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from repro import NUMERIC_EPOCH
from repro.config.experiment import Experiment, list_experiments, load_experiment
from repro.config.identity import NUISANCE
from repro.config.planning import PlannedRun, Plans, differences, may_match, plan_runs
from repro.evaluation.metrics import best_value
from repro.results.layout import plans_path
from repro.results.record import Record, check_types
from repro.results.store import read_records

Measure = Callable[[PlannedRun], float | None]
"""Function that returns the tuning metric of a run, ``None`` if the run is not done."""


@dataclass(frozen=True)
class Measurement:
    """Metric of a run in a cell of an artefact; see :class:`Record` for fields without a comment.

    Raises:
        ResultsError: a field has the wrong type.
    """

    row: str  # label of the row
    column: str  # name of the column
    metric: str  # full name
    value: float
    signature: str  # how the metric was computed
    run_id: str
    kind: str
    seed: int | None
    scale: str
    corpus: str
    fingerprint: str
    epoch: int
    commit: str
    device: str
    versions: str
    wall_time: float
    tuned: float | None  # value of the setting that is tuned in this cell; None if none is
    departs: list[str]  # key=value of the settings in which an earlier run differs from the plan
    diverged: bool = False  # whether the training of the run diverged

    def __post_init__(self) -> None:
        check_types(Measurement, vars(self))

    @property
    def earlier(self) -> bool:
        """Return whether the run is of another numeric epoch or protocol than the current one."""
        return self.epoch != NUMERIC_EPOCH or bool(self.departs)


_OF_RUN = {one.name for one in fields(Measurement)} & {one.name for one in fields(Record)}


@dataclass(frozen=True)
class CellRun:
    """Recorded run with its place in an artefact and the defaults that have changed since."""

    planned: PlannedRun
    record: Record
    departs: tuple[str, ...] = ()

    def measurements(self) -> Iterator[Measurement]:
        """Yield every metric of the run as a measurement of its cell."""
        record, plan = self.record, self.planned
        of_run = {name: value for name, value in vars(record).items() if name in _OF_RUN}
        for metric, value in sorted(record.metrics.items()):
            yield Measurement(
                row=plan.row,
                column=plan.column,
                metric=metric,
                value=float(value),
                signature=record.signatures[metric],
                tuned=plan.value,
                departs=list(self.departs),
                diverged=record.diverged,
                **of_run,
            )


class Archive:
    """Records of one scale, searchable by configuration.

    Args:
        results_dir: the results folder.
        scale: name of the scale.
        extra: by artefact, overrides to add to its planned configurations.
        fresh: ignore runs of other numeric epochs, earlier protocols or changed defaults.
    """

    def __init__(
        self,
        results_dir: Path,
        scale: str,
        extra: Mapping[str, Sequence[str]] | None = None,
        fresh: bool = False,
    ) -> None:
        self.results_dir, self.scale, self.fresh = results_dir, scale, fresh
        self._extra = {
            name: [item for item in overrides if item.split("=")[0].split(".")[0] not in NUISANCE]
            for name, overrides in (extra or {}).items()
        }
        self.plans = Plans(plans_path(results_dir, scale))
        self._found: dict[tuple[Any, ...], CellRun | None] = {}
        self._measured: dict[str, list[Measurement]] = {}

    @cached_property
    def records(self) -> list[Record]:
        """All records, sorted by name of the run."""
        return read_records(self.results_dir, self.scale)

    @cached_property
    def _by_seed(self) -> dict[int | None, list[Record]]:
        found = defaultdict(list)
        for record in self.records:
            if record.kind == "run" and not (self.fresh and record.epoch != NUMERIC_EPOCH):
                found[record.seed].append(record)
        return found

    def find(self, run: PlannedRun) -> CellRun | None:
        """Find the recorded run of a planned configuration.

        Of several, one without changed defaults is preferred, then one of the newest epoch, then
        the one that finished last.
        """
        overrides = (*run.overrides, *self._extra.get(run.experiment, ()))
        key = overrides, run.seed, run.superseded

        def preference(one: CellRun) -> tuple[bool, int, str, str]:
            return not one.departs, one.record.epoch, one.record.finished, one.record.run_id

        if key not in self._found:  # artefacts share many configurations
            candidates = [
                CellRun(run, record, (*protocol, *changed))
                for protocol in dict.fromkeys([(), () if self.fresh else run.superseded])
                for record in self._by_seed[run.seed]
                if (changed := self._changed((*overrides, *protocol), record)) is not None
            ]
            self._found[key] = max(candidates, key=preference, default=None)
        found = self._found[key]
        return None if found is None else replace(found, planned=run)

    def _changed(self, overrides: tuple[str, ...], record: Record) -> list[str] | None:
        """List the changed defaults of a run; None if it is not a run of this configuration."""
        if not may_match(overrides, record.settings):
            return None
        changed = differences(self.plans[overrides], record.settings, record.overrides)
        return None if self.fresh and changed else changed

    def measurements(self, experiment: Experiment) -> list[Measurement]:
        """Return every metric of every recorded run of an artefact, including tuning runs."""
        if experiment.name in self._measured:
            return self._measured[experiment.name]
        # If a setting is tuned, the plan depends on the outcomes of earlier runs.
        new = plan = list(plan_runs(experiment, self.scale))
        known: dict[PlannedRun, CellRun | None] = {}
        while new:
            known |= {run: self.find(run) for run in new}
            new = following_cell_runs(experiment, self.scale, plan, known)
            plan += new
        found = [one for one in known.values() if one is not None]
        # A cell that shows an ensemble needs the one whose members are exactly its runs.
        shown = {column.name for column in experiment.columns if column.aggregate == "ensemble"}
        members: dict[tuple[str, str], list[CellRun]] = defaultdict(list)
        for run in found:
            if run.planned.column in shown:
                members[run.planned.row, run.planned.column].append(run)
        for runs in members.values():
            names = sorted(run.record.run_id for run in runs)
            found += [
                CellRun(runs[0].planned, record, runs[0].departs)
                for record in self.records
                if record.kind == "ensemble" and sorted(record.members) == names
            ]
        measured = [one for run in found for one in run.measurements()]
        self._measured[experiment.name] = measured
        return measured

    def artefacts_of(self, record: Record) -> list[str]:
        """Return the names of the artefacts that plan the run of a record."""
        found: list[str] = []
        for name in list_experiments(task=record.settings["task.name"]):
            experiment = load_experiment(name)
            if experiment.computed or self.scale not in experiment.scales:
                continue
            for run in plan_runs(experiment, self.scale):
                if record.seed not in experiment.seeds_at(self.scale, run.column):
                    continue
                tuned = record.settings.get(run.setting, run.value)
                same = replace(run, seed=record.seed, value=tuned).overrides
                if self._changed(same, record) is not None:
                    found.append(name)
                    break
        return found


def following_cell_runs(
    experiment: Experiment,
    scale: str,
    plan: Sequence[PlannedRun],
    found: Mapping[PlannedRun, CellRun | None],
) -> list[PlannedRun]:
    """Plan further runs of tuned cells from the recorded ones; see :func:`following_runs`."""
    metric = "" if experiment.tune is None else experiment.tune.metric

    def measure(run: PlannedRun) -> float | None:
        one = found[run]
        return None if one is None else one.record.metrics.get(metric)

    return following_runs(experiment, scale, plan, measure)


def following_runs(
    experiment: Experiment, scale: str, planned: Sequence[PlannedRun], measure: Measure
) -> list[PlannedRun]:
    """Plan further runs of tuned cells from the outcomes of the runs planned so far.

    If the best value lies at an end of the grid, the next value beyond it is tried, up to a limit;
    else the other seeds of the best value are run. Runs that failed or are not done are ignored.

    Returns:
        The further runs; none once every cell is complete.
    """
    found: list[PlannedRun] = []
    cells = sorted(planned, key=lambda run: (run.row, run.column))
    for (row, column), group in groupby(cells, key=lambda run: (run.row, run.column)):
        if (tune := experiment.tuning_of(row)) is None:
            continue
        runs, seeds = [*group], experiment.seeds_at(scale, column)
        tried = {run.value: run for run in runs if run.seed == seeds[0] and run.value is not None}
        scores = {value: measure(run) for value, run in tried.items()}
        measured = {value: score for value, score in scores.items() if score is not None}
        if not measured:
            continue
        best, factor = best_value(measured, tune.metric), tune.grid_factor
        grid = experiment.grid_at(scale, column)
        most = len(grid) + experiment.max_extra_values(scale) if len(grid) > 1 else 1
        if factor is not None and len(tried) < most and best in (min(tried), max(tried)):
            wider = best * factor if best == max(tried) else best / factor
            found.append(replace(tried[best], value=wider))
        else:
            done = {(run.seed, run.value) for run in runs}
            found += [replace(tried[best], seed=s) for s in seeds if (s, best) not in done]
    return found
