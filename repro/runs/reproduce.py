"""One artefact of one paper, from its experiment file to its table or figure."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from repro.checksums import DamagedFileError
from repro.config.compose import compose_run
from repro.config.errors import ConfigError
from repro.config.experiment import Experiment, load_experiment
from repro.config.planning import PlannedRun, plan_runs
from repro.evaluation.metrics import metric_of
from repro.evaluation.tuning import TUNED_VALUE
from repro.report import Origin, build_report, compute_figure_data, draw_figure_data
from repro.results import (
    Record,
    RunFolder,
    read_experiment_records,
    require_writable,
    write_comparisons,
    write_experiment_records,
)
from repro.runs.ensemble import evaluate_ensemble, locate_ensemble
from repro.runs.environment import describe_versions, source_commit
from repro.runs.execute import LocatedRun, Outcome, check, command_of, locate
from repro.runs.finished import finished_records
from repro.runs.significance import compare_rows
from repro.runs.sweep import Job, run_jobs
from repro.runs.tuning import Measure, following_runs

_log = logging.getLogger(__name__)

Located = dict[tuple[str, ...], LocatedRun]
"""Runs by the overrides that ask for them."""


@dataclass(frozen=True)
class Reproduction:
    """What a reproduction did: how its runs ended, and the report that shows them.

    ``empty`` names the artefacts that have nothing to show, for none of their runs is done.
    """

    outcomes: list[Outcome]
    report: Path
    empty: tuple[str, ...] = ()


def reproduce(
    names: Sequence[str],
    scale: str,
    extra: Sequence[str] = (),
    collect: bool = False,
    columns: Sequence[str] | None = None,
) -> Reproduction:
    """Run what artefacts need, collect their records and rebuild the report.

    A run that several artefacts share is run once; finished runs are not repeated. Every
    configuration is composed and checked before the first run starts.

    Args:
        names: ``<paper>/<artefact>`` each, at least one.
        scale: ``demo``, ``small`` or ``full``.
        extra: further overrides, for example ``["data_dir=...", "hardware=cuda"]``.
        collect: only collect the runs that are done; start none.
        columns: only these columns; records of the others stay as they are.

    Raises:
        ConfigError: no such artefact or scale, or a setting is refused.
        DataError: the corpus is missing or malformed.
    """
    experiments = [load_experiment(name) for name in names]
    plans = _plans(experiments, scale, columns)
    title = f"{names[0] if len(names) == 1 else f'{len(names)} artefacts'} at scale {scale}"
    located, outcomes = Located(), list[Outcome]()
    while new := _locate_new([run for plan in plans for run in plan], extra, located):
        located |= new
        for run in () if collect else new.values():
            check(run)
        outcomes += [] if collect else run_jobs(_distinct_jobs(new, extra), title)
        for experiment, plan in zip(experiments, plans, strict=True):
            plan += following_runs(experiment, scale, plan, _measure(experiment, located))
    results_dir = _results_dir(located, scale, extra)
    empty = []
    for experiment, plan in zip(experiments, plans, strict=True):
        records = _collect(experiment, plan, located, extra, collect)
        records += _records_of_others(results_dir, scale, experiment, columns)
        _store(results_dir, scale, experiment, records)
        empty += [] if records or experiment.computed else [experiment.name]
    return Reproduction(outcomes, build_report(results_dir, scale), tuple(empty))


def _refuse_columns(
    columns: Sequence[str], experiments: Sequence[Experiment], scale: str
) -> NoReturn:
    known = dict.fromkeys(c.name for e in experiments for c in e.columns_at(scale))
    raise ConfigError(f"no column {', '.join(columns)!r}; choose from: {', '.join(known)}")


def _store(results_dir: Path, scale: str, experiment: Experiment, records: list[Record]) -> None:
    """Write the records of an artefact, its comparisons, and the data of its figure."""
    if experiment.computed:
        origin = Origin(describe_versions(), source_commit())
        compute_figure_data(results_dir, scale, experiment, origin)
        return
    write_experiment_records(results_dir, scale, experiment.name, records)
    try:
        compared = compare_rows(experiment, records, results_dir, scale)
        if compared:
            write_comparisons(results_dir, scale, experiment.name, compared)
        if experiment.drawing is not None and records:
            draw_figure_data(results_dir, scale, experiment)
    except DamagedFileError as error:  # of a run that was only collected: others are repeated
        _log.warning("%s: %s", experiment.name, error)


def _results_dir(located: Located, scale: str, extra: Sequence[str]) -> Path:
    """That of the runs; figures of the library have none, but their settings are checked too."""
    configs = [run.config for run in located.values()]
    config = configs[0] if configs else compose_run([f"scale={scale}", *extra])
    assert config.results_dir is not None
    require_writable(Path(config.results_dir))
    return Path(config.results_dir)


def _plans(
    experiments: Sequence[Experiment], scale: str, columns: Sequence[str] | None
) -> list[list[PlannedRun]]:
    """The known runs of each experiment in the chosen columns, of which there is at least one."""
    plans = [
        [run for run in plan_runs(experiment, scale) if columns is None or run.column in columns]
        for experiment in experiments
    ]
    if columns is not None and not any(plans):
        _refuse_columns(columns, experiments, scale)
    return plans


def _records_of_others(
    results_dir: Path, scale: str, experiment: Experiment, columns: Sequence[str] | None
) -> list[Record]:
    """What was recorded before of the columns that are left out."""
    if columns is None:
        return []
    records = read_experiment_records(results_dir, scale, experiment.name)
    return [record for record in records if record.column not in columns]


def _measure(experiment: Experiment, located: Located) -> Measure:
    """The tuning metric of a run that is done."""

    def measure(run: PlannedRun) -> float | None:
        if experiment.tune is None:
            return None
        records = finished_records(located[run.overrides].folder)
        values = {record.metric: record.value for record in records}
        return values.get(experiment.tune.metric)

    return measure


def _distinct_jobs(located: Located, extra: Sequence[str]) -> list[Job]:
    jobs = {
        run.folder.run_id: Job(run.config, (*overrides, *extra))
        for overrides, run in reversed(located.items())  # the first to ask for a run names it
    }
    return list(reversed(jobs.values()))


def _locate_new(planned: Sequence[PlannedRun], extra: Sequence[str], located: Located) -> Located:
    distinct = dict.fromkeys(run.overrides for run in planned if run.overrides not in located)
    configs = {overrides: compose_run([*overrides, *extra]) for overrides in distinct}
    return {overrides: locate(config) for overrides, config in configs.items()}


def _collect(
    experiment: Experiment,
    planned: Sequence[PlannedRun],
    located: Located,
    extra: Sequence[str],
    collect: bool,
) -> list[Record]:
    kinds = {column.name: column.over for column in experiment.columns}
    records = []
    for run in planned:
        if kinds[run.column] == "seeds":
            command = command_of([*run.overrides, *extra])
            records += _labelled(located[run.overrides].folder, run, command)
    for row, column in dict.fromkeys((run.row, run.column) for run in planned):
        if kinds[column] == "ensemble":
            cell = [run for run in planned if (run.row, run.column) == (row, column)]
            members = [located[run.overrides] for run in cell]
            scale = members[0].config.scale.name
            command = f"repro reproduce {experiment.name} scale={scale}"
            records += _labelled(_ensemble_folder(members, collect, command), cell[0], command)
    return records


def _ensemble_folder(members: list[LocatedRun], collect: bool, command: str) -> RunFolder:
    complete = all(member.folder.status == "done" for member in members)
    if collect or not complete:
        return locate_ensemble(members).folder
    return evaluate_ensemble(members, command)


def _labelled(folder: RunFolder, run: PlannedRun, command: str) -> list[Record]:
    """A run's records as those of a cell; the command is the plan's, which names no folder."""
    records = [
        replace(record, experiment=run.experiment, row=run.row, column=run.column, command=command)
        for record in finished_records(folder)
    ]
    if run.value is None or not records:
        return records
    signature = f"setting:{run.setting}|{metric_of(TUNED_VALUE).signature}"
    tuned = replace(records[0], metric=TUNED_VALUE, value=run.value, signature=signature)
    return [*records, tuned]
