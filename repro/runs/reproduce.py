"""One artefact of one paper, from its experiment file to its table or figure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from repro.config.compose import compose_run
from repro.config.experiment import Experiment, PlannedRun, load_experiment, plan_runs
from repro.report import Origin, build_report, compute_figure_data, draw_figure_data
from repro.results import Record, RunFolder, write_experiment_records
from repro.runs.ensemble import evaluate_ensemble, locate_ensemble
from repro.runs.environment import describe_versions, source_commit
from repro.runs.execute import LocatedRun, Outcome, command_of, locate
from repro.runs.sweep import Job, run_jobs


@dataclass(frozen=True)
class Reproduction:
    """What a reproduction did: how its runs ended, and the report that shows them."""

    outcomes: list[Outcome]
    report: Path


def reproduce(
    names: Sequence[str], scale: str, extra: Sequence[str] = (), collect: bool = False
) -> Reproduction:
    """Run what artefacts need, collect their records and rebuild the report.

    A run that several artefacts share is run once; finished runs are not repeated. Every
    configuration is composed and checked before the first run starts.

    Args:
        names: ``<paper>/<artefact>`` each, at least one.
        scale: ``demo``, ``small`` or ``full``.
        extra: further overrides, for example ``["data_dir=...", "hardware=cuda"]``.
        collect: only collect the runs that are done; start none.

    Raises:
        ConfigError: no such artefact or scale, or a setting is refused.
        DataError: the corpus is missing or malformed.
    """
    experiments = [load_experiment(name) for name in names]
    plans = [list(plan_runs(experiment, scale)) for experiment in experiments]
    located = _locate_all([run for plan in plans for run in plan], extra)
    title = f"{names[0] if len(names) == 1 else f'{len(names)} artefacts'} at scale {scale}"
    outcomes = [] if collect else run_jobs(_distinct_jobs(located, extra), title)
    results_dir = Path(compose_run([f"scale={scale}", *extra]).results_dir or "")
    for experiment, plan in zip(experiments, plans, strict=True):
        if experiment.computed:
            origin = Origin(describe_versions(), source_commit())
            compute_figure_data(results_dir, scale, experiment, origin)
            continue
        records = _collect(experiment, plan, located, extra, collect)
        write_experiment_records(results_dir, scale, experiment.name, records)
        if experiment.drawing is not None and records:
            draw_figure_data(results_dir, scale, experiment)
    return Reproduction(outcomes, build_report(results_dir, scale))


def _distinct_jobs(located: dict[tuple[str, ...], LocatedRun], extra: Sequence[str]) -> list[Job]:
    jobs = {
        run.folder.run_id: Job(run.config, (*overrides, *extra))
        for overrides, run in reversed(located.items())  # the first to ask for a run names it
    }
    return list(reversed(jobs.values()))


def _locate_all(
    planned: Sequence[PlannedRun], extra: Sequence[str]
) -> dict[tuple[str, ...], LocatedRun]:
    distinct = dict.fromkeys(run.overrides for run in planned)
    configs = {overrides: compose_run([*overrides, *extra]) for overrides in distinct}
    return {overrides: locate(config) for overrides, config in configs.items()}


def _collect(
    experiment: Experiment,
    planned: Sequence[PlannedRun],
    located: dict[tuple[str, ...], LocatedRun],
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
    if folder.status != "done":
        return []
    return [
        replace(record, experiment=run.experiment, row=run.row, column=run.column, command=command)
        for record in folder.read_records()
    ]
