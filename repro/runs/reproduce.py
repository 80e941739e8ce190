"""Artefacts of the papers, from their experiment files to the report."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from repro.config.compose import compose_run
from repro.config.experiment import Experiment
from repro.config.identity import changes_numbers
from repro.config.overrides import is_hydras, parse_override, resolved
from repro.config.planning import EVERY_CELL, Cells, naming_rows, plan_of, refuse_namesakes
from repro.results import Archive, require_writable, run_folder
from repro.runs.environment import describe_versions, source_commit
from repro.runs.job import Job, Outcome, locate
from repro.runs.launch import distinct, launcher_of, prepare_jobs, run_jobs
from repro.runs.locking import RunBusyError, run_lock
from repro.runs.own_examples import write_own_examples
from repro.runs.summary import print_plan
from repro.runs.work import Work


@dataclass(frozen=True)
class Reproduction:
    """Outcome of a reproduction: the outcomes of its runs, and the report that shows them.

    Of ensembles, only those that failed have an outcome. There is no report if runs were only
    listed or submitted.
    """

    outcomes: list[Outcome]
    report: Path | None = None


def reproduce(
    names: Sequence[str],
    scale: str,
    overrides: Sequence[str] = (),
    *,
    cells: Cells = EVERY_CELL,
    fresh: bool = False,
    dry_run: bool = False,
) -> Reproduction:
    """Run what artefacts need and rebuild the report.

    A run that has a record is not repeated, whoever started it. Every configuration is composed
    and checked before the first run starts. Runs start in rounds if a setting is tuned; if the
    launcher detaches, only one round is submitted.

    Args:
        names: artefacts, each as ``<paper>/<artefact>``; at least one.
        scale: scale of the runs.
        overrides: further overrides, none of which changes what labels state; those of ``hydra``
            configure the launcher.
        cells: cells whose runs to execute.
        fresh: repeat runs recorded under an earlier numeric epoch.
        dry_run: only list the runs of the first round.

    Raises:
        ConfigError: no such artefact, scale, row or column, or a setting is refused.
        DataError: the corpus is missing or malformed.
    """
    # Imported before the runs, so that a long sweep does not pick up code edited meanwhile; not at
    # module level, since `repro plan` does not need it.
    from repro.report import Origin, build_report, export_figure_data
    from repro.report.figures import figure_kind

    sweep = [item for item in overrides if is_hydras(item)]
    extra = [item for item in overrides if item not in sweep]
    folders = [item for item in extra if parse_override(item).key_or_group == "results_dir"]
    with launcher_of([f"scale={scale}", *folders, *sweep], dry_run) as (launcher, master):
        work = Work(names, scale, extra, cells)
        for experiment in work.experiments:
            if experiment.drawing is not None:
                figure_kind(experiment.drawing.name)  # refuses an unknown one
        require_writable(work.results_dir)
        outcomes: list[Outcome] = []
        for labels in work.rounds(fresh):
            with naming_rows(work.runs, extra):
                prepared = prepare_jobs([[*one, *extra] for one in labels])
            named = zip(prepared, labels.values(), strict=True)
            jobs = [replace(job, label=label) for job, label in named]
            refuse_namesakes((job.label, plan_of(job.config)) for job in jobs)
            jobs = distinct(jobs)
            if dry_run:
                found = {one.run_id for one in work.found.values() if one is not None}
                print_plan(jobs, recorded=len(found - {job.run_id for job in jobs}))
                return Reproduction([])
            _reopen_without_weights(jobs)
            outcomes += run_jobs(jobs, launcher, master)
            left = any(outcome.status == "open" for outcome in outcomes)
            if left and master.hydra.launcher.get("detach", False):
                return Reproduction(outcomes)
        archive = work.archive()
        for experiment in work.experiments:
            work.warn_of_records(experiment)
            if experiment.computed:
                origin = Origin(describe_versions(), source_commit())
                export_figure_data(archive, experiment, origin=origin)
            outcomes += _make_ensembles(experiment, work, archive)
        # With the records of the ensembles.
        archive = work.archive()
        write_own_examples(archive, names)
        return Reproduction(outcomes, build_report(archive, names))


def _make_ensembles(experiment: Experiment, work: Work, archive: Archive) -> Iterator[Outcome]:
    """Evaluate the ensembles of an artefact that are to be made; yield those that failed."""
    from repro.runs.train import evaluate_ensemble

    typed = [one for one in work.extra if changes_numbers(one)]
    command = shlex.join(
        ["repro", "reproduce", experiment.name, f"scale={archive.scale}", *map(resolved, typed)]
    )
    for runs in work.ensembles(experiment, archive):
        members = [
            replace(
                locate(compose_run([*run.overrides, *work.extra])),
                # That of the record may have a name of an earlier version.
                folder=run_folder(archive.results_dir, archive.scale, record.run_id),
            )
            for run, record in runs.items()
        ]
        if all(member.folder.status == "done" for member in members):
            outcome = evaluate_ensemble(members, command)
            if outcome.status == "failed":
                member = next(iter(runs))
                cell = f"{experiment.name}: {member.row}, {member.column}"
                yield replace(outcome, label=cell)


def _reopen_without_weights(jobs: Sequence[Job]) -> None:
    """Withdraw ``DONE`` of runs whose weights were removed, so that they are trained again."""
    for job in jobs:
        if job.folder.status == "done" and not job.folder.model.exists():
            with suppress(RunBusyError), run_lock(job.folder.path):
                if not job.folder.model.exists():  # or another process has trained it meanwhile
                    job.folder.done.unlink(missing_ok=True)
