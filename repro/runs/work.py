"""Runs that artefacts need: those that are recorded, those to do, and those that follow."""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from repro.config.compose import compose_run
from repro.config.experiment import Experiment, load_experiment
from repro.config.overrides import resolved
from repro.config.planning import (
    Cells,
    PlannedRun,
    naming_rows,
    plan_artefacts,
    refuse_relabelled,
)
from repro.errors import DataError
from repro.results import Archive, Record, RunFolder, run_folder
from repro.results.cells import followed, refuse_unknown_metrics
from repro.results.labels import counted
from repro.runs.environment import warn_of_extensions
from repro.runs.job import corpus_at_hand, is_finished
from repro.version import NUMERIC_EPOCH

_log = logging.getLogger(__name__)


class Work:
    """Runs that artefacts need at a scale, of some cells or all, and the records found of them.

    ``extra`` are overrides beside those of the artefacts, as that of the data folder.

    Raises:
        ConfigError: no such artefact, scale, row or column, or a setting is refused.
    """

    def __init__(
        self, names: Sequence[str], scale: str, extra: Sequence[str], cells: Cells
    ) -> None:
        self.experiments = [load_experiment(name) for name in names]
        self.scale, self.extra = scale, extra
        self.plans = plan_artefacts(self.experiments, scale, cells)
        self.found: dict[PlannedRun, Record | None] = {}
        for experiment in self.experiments:  # before composing, which tells of their keys
            refuse_relabelled(experiment, scale, self.plans[experiment.name], extra)
        first = next((run.overrides for run in self.runs), (f"scale={scale}",))
        with naming_rows(self.runs, extra):
            self.results_dir = compose_run([*first, *extra]).results_path
        for experiment in self.experiments:
            refuse_unknown_metrics(experiment)
        self._corpora: dict[str, str | None] = {}

    def _corpus_at_hand(self, run: PlannedRun, corpus: str) -> str | None:
        """Return the fingerprint of a corpus, which is read once; see :class:`Archive`.

        One that is missing or malformed is not at hand: runs that need it report why.
        """
        if corpus not in self._corpora:
            self._corpora[corpus] = None
            with suppress(DataError):
                composed = compose_run([*run.overrides, *self.extra])
                self._corpora[corpus] = corpus_at_hand(composed)
        return self._corpora[corpus]

    def archive(self, fresh: bool = False, any_corpus: bool = False) -> Archive:
        """Read the records as they are now.

        Args:
            fresh: ignore those of other numeric epochs.
            any_corpus: find also runs of other contents of their corpora than those at hand.
        """
        # Reports show the values of what was typed, not the names of environment variables.
        changes = {one.name: [*map(resolved, self.extra)] for one in self.experiments}
        corpora = (lambda run, corpus: None) if any_corpus else self._corpus_at_hand
        return Archive(self.results_dir, self.scale, changes, fresh, corpora)

    @property
    def runs(self) -> Iterator[PlannedRun]:
        """All planned runs."""
        return (run for plan in self.plans.values() for run in plan)

    def rounds(self, fresh: bool) -> Iterator[dict[tuple[str, ...], str]]:
        """Yield the overrides of the runs to do next, with their labels; see :meth:`archive`.

        A run is asked for once. Where a setting is tuned, further runs depend on the results.
        """
        asked, first = set[tuple[str, ...]](), True
        while True:
            archive = self.archive(fresh)
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
        """Warn of records without the metric of their column, or that of tuning.

        It also warns of those of runs with other code of extensions.
        """
        records = (self.found[run] for run in self.plans[experiment.name])
        for commit in dict.fromkeys(one.commit for one in records if one is not None):
            warn_of_extensions(commit, "runs are done")
        metrics = {one.name: one.metric for one in experiment.columns}
        lacking = defaultdict[str, set[str]](set)
        for run in self.plans[experiment.name]:
            tune, record = experiment.tuning_of(run.row), self.found[run]
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
