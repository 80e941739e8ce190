"""Assignment of recorded runs to the cells of an artefact, by the configurations that it plans."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from repro import NUMERIC_EPOCH
from repro.config.experiment import Experiment, list_experiments, load_experiment
from repro.config.identity import NUISANCE
from repro.config.matching import Plans, differences, may_match
from repro.config.planning import PlannedRun, plan_runs
from repro.results.layout import plans_path
from repro.results.record import Record, check_types
from repro.results.records import read_records
from repro.results.tuning import following_runs


@dataclass(frozen=True)
class Measurement:
    """One metric of one run in one cell of an artefact; fields of :class:`Record` mean the same.

    Attributes:
        row: label of the row.
        column: name of the column.
        metric: full name.
        value: value of the metric.
        signature: how the metric was computed.
        tuned: value of the setting that is tuned in this cell; None where nothing is.
        departs: ``key=value`` of the settings in which an earlier run differs from the plan.
    """

    row: str
    column: str
    metric: str
    value: float
    signature: str
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
    tuned: float | None
    departs: list[str]

    def __post_init__(self) -> None:
        """Check the type of every field.

        Raises:
            ResultsError: a field has another type.
        """
        check_types(self)

    @property
    def earlier(self) -> bool:
        """Return whether the run is of an earlier numeric epoch or protocol than the code."""
        return self.epoch != NUMERIC_EPOCH or bool(self.departs)


@dataclass(frozen=True)
class CellRun:
    """A recorded run, the place that it fills, and the changed defaults in which it differs."""

    planned: PlannedRun
    record: Record
    departs: tuple[str, ...] = ()

    def measurements(self) -> Iterator[Measurement]:
        """Every metric of the run, as one of this cell."""
        record, plan = self.record, self.planned
        for metric, value in sorted(record.metrics.items()):
            yield Measurement(
                row=plan.row,
                column=plan.column,
                metric=metric,
                value=float(value),
                signature=record.signatures[metric],
                run_id=record.run_id,
                kind=record.kind,
                seed=record.seed,
                scale=record.scale,
                corpus=record.corpus,
                fingerprint=record.fingerprint,
                epoch=record.epoch,
                commit=record.commit,
                device=record.device,
                versions=record.versions,
                wall_time=record.wall_time,
                tuned=plan.value,
                departs=list(self.departs),
            )


class Archive:
    """The records of one scale, found by configuration.

    Args:
        results_dir: the results folder.
        scale: ``"demo"``, ``"small"`` or ``"full"``.
        extra: by artefact, overrides of its plan for this occasion.
        fresh: pass over runs of earlier numeric epochs and protocols.
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
        self._cells: dict[str, list[CellRun]] = {}
        self._measured: dict[str, list[Measurement]] = {}

    @cached_property
    def records(self) -> list[Record]:
        """Every record, by name of the run."""
        return read_records(self.results_dir, self.scale)

    @cached_property
    def _by_seed(self) -> dict[int | None, list[Record]]:
        found: dict[int | None, list[Record]] = defaultdict(list)
        for record in self.records:
            if record.kind == "run" and not (self.fresh and record.epoch != NUMERIC_EPOCH):
                found[record.seed].append(record)
        return found

    def find(self, run: PlannedRun) -> CellRun | None:
        """The recorded run of a planned configuration.

        Of several, one without changed defaults comes first, then the newest epoch, then the last
        that ended.
        """
        overrides = (*run.overrides, *self._extra.get(run.experiment, ()))
        key = overrides, run.seed, run.superseded
        if key not in self._found:  # most configurations serve cells of several artefacts
            candidates = [
                CellRun(run, record, (*protocol, *changed))
                for protocol in dict.fromkeys([(), () if self.fresh else run.superseded])
                for record in self._by_seed[run.seed]
                if (changed := self._changed((*overrides, *protocol), record)) is not None
            ]
            self._found[key] = max(candidates, key=_preference, default=None)
        found = self._found[key]
        return None if found is None else replace(found, planned=run)

    def _changed(self, overrides: tuple[str, ...], record: Record) -> list[str] | None:
        """Changed defaults of a recorded run of a configuration; None for a run of another one."""
        if not may_match(overrides, record.settings):
            return None
        changed = differences(self.plans[overrides], record.settings, record.overrides)
        return None if self.fresh and changed else changed

    def runs_of(self, experiment: Experiment) -> list[CellRun]:
        """Every recorded run of an artefact, cell by cell, and of every tuned value."""
        if experiment.name not in self._cells:
            found = list(self._find_all(experiment))
            self._cells[experiment.name] = found + list(self._ensembles(experiment, found))
        return self._cells[experiment.name]

    def measurements(self, experiment: Experiment) -> list[Measurement]:
        """Every metric of every recorded run of an artefact."""
        if experiment.name not in self._measured:
            runs = self.runs_of(experiment)
            self._measured[experiment.name] = [one for run in runs for one in run.measurements()]
        return self._measured[experiment.name]

    def artefacts_of(self, record: Record) -> list[str]:
        """Names of the artefacts that plan the run of a record."""
        names = (name for name in list_experiments() if self._plans_run(name, record))
        return list(names)

    def _plans_run(self, name: str, record: Record) -> bool:
        experiment = load_experiment(name)
        if experiment.computed or self.scale not in experiment.scales:
            return False
        for run in plan_runs(experiment, self.scale):
            if record.seed not in experiment.seeds_at(self.scale, run.column):
                continue
            tuned = None if run.value is None else record.settings.get(run.setting)
            same = run.repeated(seed=record.seed, value=tuned).overrides
            if self._changed(same, record) is not None:
                return True
        return False

    def _find_all(self, experiment: Experiment) -> Iterator[CellRun]:
        new = plan = list(plan_runs(experiment, self.scale))
        known: dict[PlannedRun, CellRun | None] = {}
        while new:
            known |= {run: self.find(run) for run in new}
            new = following_cell_runs(experiment, self.scale, plan, known)
            plan += new
        yield from (found for found in known.values() if found is not None)

    def _ensembles(self, experiment: Experiment, found: Sequence[CellRun]) -> Iterator[CellRun]:
        """The ensemble of each cell that shows one, if just its runs have been combined."""
        shown = {column.name for column in experiment.columns if column.aggregate == "ensemble"}
        members: dict[tuple[str, str], list[CellRun]] = defaultdict(list)
        for run in found:
            if run.planned.column in shown:
                members[run.planned.row, run.planned.column].append(run)
        for runs in members.values():
            names = sorted(run.record.run_id for run in runs)
            for record in self.records:
                if record.kind == "ensemble" and sorted(record.members) == names:
                    yield CellRun(runs[0].planned, record, runs[0].departs)


def following_cell_runs(
    experiment: Experiment,
    scale: str,
    plan: Sequence[PlannedRun],
    found: Mapping[PlannedRun, CellRun | None],
) -> list[PlannedRun]:
    """Runs that the recorded ones ask for, where a setting is tuned; see :func:`following_runs`."""

    def measure(run: PlannedRun) -> float | None:
        one = found[run]
        if one is None or experiment.tune is None:
            return None
        return one.record.metrics.get(experiment.tune.metric)

    return following_runs(experiment, scale, plan, measure)


def _preference(run: CellRun) -> tuple[bool, int, str, str]:
    record = run.record
    return not run.departs, record.epoch, record.finished, record.run_id
