"""Artefacts of the papers, from their experiment files to the report."""

import logging
import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from repro.config.compose import compose_run
from repro.config.experiment import Experiment, load_experiment
from repro.config.identity import changes_numbers
from repro.config.overrides import is_hydras, parse_override, resolved
from repro.config.planning import (
    PlannedRun,
    naming_rows,
    plan_artefacts,
    plan_of,
    refuse_namesakes,
    refuse_relabelled,
)
from repro.errors import DataError
from repro.results import Archive, Record, RunFolder, require_writable, run_folder
from repro.results.cells import followed, refuse_unknown_metrics
from repro.results.labels import counted
from repro.runs.environment import describe_versions, source_commit, warn_of_extensions
from repro.runs.job import Job, Outcome, corpus_at_hand, is_finished, locate
from repro.runs.launch import distinct, launcher_of, prepare_jobs, run_jobs
from repro.runs.locking import RunBusyError, run_lock
from repro.runs.own_examples import write_own_examples
from repro.runs.summary import print_plan
from repro.version import NUMERIC_EPOCH

_log = logging.getLogger(__name__)


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
    columns: Sequence[str] | None = None,
    fresh: bool = False,
    dry_run: bool = False,
) -> Reproduction:
    """Run what artefacts need and rebuild the report.

    A run that has a record is not repeated, whoever started it. Every configuration is composed
    and checked before the first run starts. Runs start in rounds if a setting is tuned; if the
    launcher detaches, only one round is submitted.

    Args:
        names: artefacts, each as ``<paper>/<artefact>``; at least one.
        scale: ``demo``, ``small``, ``subset`` or ``full``.
        overrides: further overrides, for example ``["data_dir=...", "hardware=cuda"]``, none of
            which changes what labels state; those of ``hydra`` configure the launcher.
        columns: columns whose runs to execute; None for all.
        fresh: repeat runs recorded under an earlier numeric epoch.
        dry_run: only list the runs of the first round.

    Raises:
        ConfigError: no such artefact, scale or column, or a setting is refused.
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
        work = Work([load_experiment(name) for name in names], scale, columns)
        for experiment in work.experiments:  # before composing, which tells of their keys
            refuse_relabelled(experiment, scale, work.plans[experiment.name], extra)
        first = next((run.overrides for run in work.runs), (f"scale={scale}",))
        with naming_rows(work.runs, extra):
            results_dir = compose_run([*first, *extra]).results_path
        for experiment in work.experiments:
            refuse_unknown_metrics(experiment)
            if experiment.drawing is not None:
                figure_kind(experiment.drawing.name)  # refuses an unknown one
        require_writable(results_dir)
        changes = {name: [*map(resolved, extra)] for name in names}  # reports show the values
        corpora = corpora_at_hand(extra)
        outcomes: list[Outcome] = []
        for labels in work.rounds(lambda: Archive(results_dir, scale, changes, fresh, corpora)):
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
        archive = Archive(results_dir, scale, changes, corpus_at_hand=corpora)
        for experiment in work.experiments:
            work.warn_of_records(experiment)
            if experiment.computed:
                origin = Origin(describe_versions(), source_commit())
                export_figure_data(archive, experiment, origin=origin)
            outcomes += _make_ensembles(experiment, work, archive, extra)
        # With the records of the ensembles.
        archive = Archive(results_dir, scale, changes, corpus_at_hand=corpora)
        write_own_examples(archive, names)
        return Reproduction(outcomes, build_report(archive, names))


def _make_ensembles(
    experiment: Experiment, work: "Work", archive: Archive, extra: Sequence[str]
) -> Iterator[Outcome]:
    """Evaluate the ensembles of an artefact that are to be made; yield those that failed."""
    from repro.runs.train import evaluate_ensemble

    typed = [one for one in extra if changes_numbers(one)]
    command = shlex.join(
        ["repro", "reproduce", experiment.name, f"scale={archive.scale}", *map(resolved, typed)]
    )
    for runs in work.ensembles(experiment, archive):
        members = [
            replace(
                locate(compose_run([*run.overrides, *extra])),
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


def corpora_at_hand(extra: Sequence[str]) -> Callable[[PlannedRun, str], str | None]:
    """Return the argument ``corpus_at_hand`` of :class:`Archive`; each corpus is read once.

    ``extra`` are overrides beside those of planned runs, as that of the data folder. A corpus that
    is missing or malformed is not at hand: runs that need it report why.
    """
    known: dict[str, str | None] = {}

    def fingerprint(run: PlannedRun, corpus: str) -> str | None:
        if corpus not in known:
            known[corpus] = None
            with suppress(DataError):
                known[corpus] = corpus_at_hand(compose_run([*run.overrides, *extra]))
        return known[corpus]

    return fingerprint


class Work:
    """Runs that artefacts need at a scale, and the records found of them.

    Args:
        experiments: the artefacts.
        scale: the scale.
        columns: columns whose runs are needed; None for all.

    Raises:
        ConfigError: no artefact has such a column.
    """

    def __init__(
        self, experiments: Sequence[Experiment], scale: str, columns: Sequence[str] | None
    ) -> None:
        self.experiments, self.scale = experiments, scale
        self.plans = plan_artefacts(experiments, scale, columns)
        self.found: dict[PlannedRun, Record | None] = {}

    @property
    def runs(self) -> Iterator[PlannedRun]:
        """All planned runs."""
        return (run for plan in self.plans.values() for run in plan)

    def rounds(self, read_archive: Callable[[], Archive]) -> Iterator[dict[tuple[str, ...], str]]:
        """Yield the overrides of the runs to do next, with their labels.

        A run is asked for once. Where a setting is tuned, further runs depend on the results.
        """
        asked, first = set[tuple[str, ...]](), True
        while True:
            archive = read_archive()
            # Check the files of a run once, even if several artefacts need it.
            self.find(archive, cache(lambda path: is_finished(RunFolder(path))), asked)
            lacking = {run.overrides: run.label for run, one in self.found.items() if one is None}
            new = {one: label for one, label in lacking.items() if one not in asked}
            if not (new or first):
                return
            first, asked = False, asked | new.keys()
            yield new
            archive.plans.save()  # so that no later archive composes them again

    def find(
        self,
        archive: Archive,
        is_whole: Callable[[Path], bool],
        asked: Collection[tuple[str, ...]] = (),
    ) -> None:
        """Find the records of the runs, and of those that follow from them in tuned cells.

        Such a cell waits for its runs without a record, except those with overrides that were
        ``asked`` for: they failed.
        """
        for experiment in self.experiments:
            found = followed(
                experiment,
                self.scale,
                self.plans[experiment.name],
                lambda runs: finished(archive, runs, is_whole),
                lambda run: run.overrides not in asked,
            )
            self.plans[experiment.name] = [*found]
            self.found |= found

    def ensembles(
        self, experiment: Experiment, archive: Archive
    ) -> Iterator[dict[PlannedRun, Record]]:
        """Yield the members of each ensemble to make, if all of them have records."""
        found = {run: self.found[run] for run in self.plans[experiment.name]}
        for runs in _ensembles_to_make(archive, found, lambda path: is_finished(RunFolder(path))):
            members = {run: record for run in runs if (record := found[run]) is not None}
            if len(members) == len(runs):
                yield members

    def warn_of_records(self, experiment: Experiment) -> None:
        """Warn of records that lack the metric of their column, or that of tuning.

        So are those of runs with other code of extensions.
        """
        metrics = {one.name: one.metric for one in experiment.columns}
        lacking = defaultdict[str, set[str]](set)
        for run in self.plans[experiment.name]:
            tune, record = experiment.tuning_of(run.row), self.found[run]
            if record is not None:
                warn_of_extensions(record.commit, "runs are done")
            for metric in {metrics[run.column]} | ({tune.metric} if tune else set()):
                if record is not None and metric not in record.metrics:
                    lacking[metric].add(record.run_id)
        for metric, names in lacking.items():
            _log.warning(
                "%s: %s without %s; a run without DONE in its folder is evaluated again",
                experiment.name,
                counted(len(names), "run"),
                metric,
            )


def finished(
    archive: Archive, runs: Iterable[PlannedRun], is_whole: Callable[[Path], bool]
) -> dict[PlannedRun, Record | None]:
    """Find the recorded runs of an artefact; None where files that it needs are missing.

    A figure without data needs what it reads of its runs, an ensemble without a record the weights
    of its members. The files of a folder that exists must be undamaged.
    """
    found = archive.find_all(runs)
    to_make = _ensembles_to_make(archive, found, is_whole)
    members = {run for ensemble in to_make for run in ensemble}

    @cache
    def drawn(name: str) -> bool:
        return archive.figure_shows(name, {one.run_id for one in found.values() if one is not None})

    def suffices(run: PlannedRun, record: Record) -> bool:
        folder = run_folder(archive.results_dir, archive.scale, record.run_id)
        if run in members and (record.epoch != NUMERIC_EPOCH or not folder.model.exists()):
            return False
        if folder.path.exists():
            return is_whole(folder.path)
        experiment = load_experiment(run.experiment)
        if experiment.drawing is None or drawn(run.experiment):
            return True
        from repro.report.figures import figure_kind  # imports Matplotlib

        return figure_kind(experiment.drawing.name).has_what_it_reads(folder, archive.scale)

    return {
        run: record if record is not None and suffices(run, record) else None
        for run, record in found.items()
    }


def _ensembles_to_make(
    archive: Archive,
    found: Mapping[PlannedRun, Record | None],
    is_whole: Callable[[Path], bool],
) -> list[list[PlannedRun]]:
    """Return the members of each ensemble that an artefact shows and that has no record.

    A record counts without a folder; the files of a folder that exists must be undamaged.
    """
    cells = defaultdict[tuple[str, str], list[PlannedRun]](list)
    for run in found:
        if run.column in load_experiment(run.experiment).ensemble_columns:
            cells[run.row, run.column].append(run)

    def is_made(runs: Sequence[PlannedRun]) -> bool:
        members = [record for run in runs if (record := found[run]) is not None]
        made = archive.ensembles_of(members) if len(members) == len(runs) else []
        folders = (run_folder(archive.results_dir, archive.scale, one.run_id) for one in made)
        return any(not one.path.exists() or is_whole(one.path) for one in folders)

    return [runs for runs in cells.values() if not is_made(runs)]


def _reopen_without_weights(jobs: Sequence[Job]) -> None:
    """Withdraw ``DONE`` of runs whose weights were removed, so that they are trained again."""
    for job in jobs:
        if job.folder.status == "done" and not job.folder.model.exists():
            with suppress(RunBusyError), run_lock(job.folder.path):
                if not job.folder.model.exists():  # or another process has trained it meanwhile
                    job.folder.done.unlink(missing_ok=True)
