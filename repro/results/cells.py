"""Assignment of recorded runs to the cells of an artefact, by their planned configurations."""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from repro.config.errors import ConfigError
from repro.config.experiment import Experiment, list_experiments, load_experiment
from repro.config.identity import changes_numbers, flattened, without_nuisance
from repro.config.planning import (
    PlannedRun,
    Plans,
    choices_in,
    is_refused,
    naming_rows,
    plan_runs,
    refuse_namesakes,
)
from repro.evaluation.metrics import best_value, is_current, is_metric, metric_of, without_versions
from repro.results.files import read_object
from repro.results.labels import corpus_label
from repro.results.layout import figure_path, plans_path, record_path, scale_dir
from repro.results.record import CLOCKED, Record
from repro.results.store import RunFolder, list_runs, read_config, run_folder, survey_records
from repro.version import NUMERIC_EPOCH

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Measurement:
    """Metric of a run in a cell of an artefact; :class:`Record` describes the other fields."""

    row: str  # label of the row
    column: str  # name of the column
    metric: str  # full name
    value: float
    signature: str  # how the metric was computed
    run_id: str = ""
    kind: str = "run"
    seed: int | None = None
    scale: str = ""
    corpus: str = ""
    fingerprint: str = ""
    epoch: int = NUMERIC_EPOCH
    commit: str = ""
    device: str = ""
    versions: str = ""
    wall_time: float = 0.0
    finished: str = ""
    tuned: float | None = None  # value of the setting that is tuned in this cell; None if none is
    diverged: bool = False  # whether the training of the run diverged

    @classmethod
    def of(cls, record: Record, metric: str, run: PlannedRun | None = None) -> Self:
        """Create the measurement of one metric of a record; ``run`` supplies its cell, if any."""
        return cls(
            row="" if run is None else run.row,
            column="" if run is None else run.column,
            metric=metric,
            value=float(record.metrics[metric]),
            signature=record.signatures[metric],
            tuned=None if run is None else run.value,
            diverged=record.diverged,
            **{name: getattr(record, name) for name in _OF_RUN},
        )

    @classmethod
    def alone(
        cls, cell: tuple[str, str, str], value: float, scale: str, seed: int, device: str = ""
    ) -> Self:
        """Create a measurement that no record holds: a speed, or a published value."""
        text = metric_of(cell[2]).signature
        return cls(*cell, value, text, seed=seed, scale=scale, device=device)

    @property
    def earlier(self) -> bool:
        """Return whether the run is of another numeric epoch."""
        return self.epoch != NUMERIC_EPOCH


def may_stand_together(values: Iterable[Measurement], *, any_epoch: bool = False) -> bool:
    """Return whether values of a metric may be averaged, tested or divided by each other.

    They need one content of the corpus, one signature apart from versions, and one numeric epoch,
    unless ``any_epoch``, for values that a mark of their epoch accompanies; what a clock measured
    also needs one device.
    """
    known = [*values]
    texts = ((one, without_versions(one.signature)) for one in known)
    devices = {one.device for one in known if one.metric.startswith(CLOCKED)}
    alike = {(one.fingerprint, text, any_epoch or one.epoch) for one, text in texts}
    return len(alike) < 2 and len(devices) < 2


def averaged(values: Iterable[Measurement]) -> list[Measurement]:
    """Keep the values of each cell that may stand together; all are of one corpus content.

    Of the runs of a row, column and kind those of the newest numeric epoch remain, and of a metric
    then those with the signature that it has today, or else with that of the newest run. Of what a
    clock measured, those of the device of the newest run remain.
    """
    cell, place = attrgetter("row", "column", "kind"), attrgetter("row", "column", "kind", "metric")
    epochs, signatures, chosen = dict[Any, int](), dict[Any, tuple[bool, str, str]](), [*values]
    for one in chosen:
        epochs[cell(one)] = max(epochs.get(cell(one), one.epoch), one.epoch)
    chosen = [one for one in chosen if one.epoch == epochs[cell(one)]]
    for one in chosen:
        today, text = is_current(one.metric, one.signature), without_versions(one.signature)
        best = today, one.finished, text
        signatures[place(one)] = max(signatures.get(place(one), best), best)
    chosen = [o for o in chosen if without_versions(o.signature) == signatures[place(o)][-1]]
    newest = dict[Any, Measurement]()
    for one in (one for one in chosen if one.metric.startswith(CLOCKED)):
        newest[place(one)] = max(newest.get(place(one), one), one, key=attrgetter("finished"))
    return [one for one in chosen if one.device == newest.get(place(one), one).device]


_OF_RUN = sorted({one.name for one in fields(Measurement)} & {one.name for one in fields(Record)})


def with_known_metrics(results_dir: Path, records: Iterable[Record]) -> list[Record]:
    """Leave metrics that are not registered out of records, and records without any other.

    A warning names each file with such a metric, which is not among those of ``REPRO_EXTENSIONS``.
    """
    found = []
    for record in records:
        known = {name: value for name, value in record.metrics.items() if is_metric(name)}
        if len(known) < len(record.metrics):
            published = record_path(results_dir, record.scale, record.run_id)
            own = run_folder(results_dir, record.scale, record.run_id).record
            unknown = tuple(name for name in record.metrics if name not in known)
            _warn_of_metrics(published if published.exists() else own, unknown)
            record = replace(record, metrics=known)
        if known:
            found.append(record)
    return found


@cache
def _warn_of_metrics(path: Path, names: tuple[str, ...]) -> None:
    """Warn once of metrics in a record that no module declares."""
    _log.warning("%s: unknown metric %s, left out", path, ", ".join(map(repr, names)))


class Archive:
    """Records of one scale, searchable by configuration.

    Args:
        results_dir: the results folder.
        scale: the scale.
        extra: by artefact, overrides to add to its planned configurations.
        fresh: ignore runs of other numeric epochs.
        corpus_at_hand: returns the fingerprint of the corpus that a planned run reads, or None if
            it is not at hand; the second argument is equal for runs that read the same. Runs of
            other fingerprints are not found.
    """

    def __init__(
        self,
        results_dir: Path,
        scale: str,
        extra: Mapping[str, Sequence[str]] | None = None,
        fresh: bool = False,
        corpus_at_hand: Callable[[PlannedRun, str], str | None] = lambda run, corpus: None,
    ) -> None:
        self.results_dir, self.scale, self.fresh = results_dir, scale, fresh
        self._corpus_at_hand = corpus_at_hand
        self.changed = {
            name: [item for item in overrides if changes_numbers(item)]
            for name, overrides in (extra or {}).items()
        }
        self.plans = Plans(plans_path(results_dir, scale))
        self._matching: dict[tuple[str, ...], list[Record]] = {}
        self._choices = cache(choices_in)
        self._measured: dict[str, list[Measurement]] = {}

    @cached_property
    def records(self) -> list[Record]:
        """All records, sorted by name of the run, with the metrics that are registered."""
        return with_known_metrics(self.results_dir, self._surveyed[0])

    @property
    def left_out(self) -> tuple[str, ...]:
        """Reasons why records are left out, each with the path of its file below the scale."""
        above = f"{scale_dir(self.results_dir, self.scale)}/"
        return tuple(text.replace(above, "") for text in self._surveyed[1])

    @cached_property
    def _surveyed(self) -> tuple[list[Record], list[str]]:
        return survey_records(self.results_dir, self.scale)

    @cached_property
    def failures(self) -> list[tuple[RunFolder, dict[str, Any]]]:
        """Folders of failed runs with their configurations, empty if unreadable, by name."""
        failed = (one for one in list_runs(self.results_dir, self.scale) if one.status == "failed")
        return [(folder, read_config(folder)) for folder in failed]

    @cached_property
    def _by_seed(self) -> dict[int | None, list[Record]]:
        found = defaultdict(list)
        for record in self.records:
            if record.kind == "run" and not (self.fresh and record.epoch != NUMERIC_EPOCH):
                found[record.seed].append(record)
        return found

    def find(self, run: PlannedRun) -> Record | None:
        """Find the recorded run of a planned configuration."""
        return self.find_all([run])[run]

    def find_all(self, runs: Iterable[PlannedRun]) -> dict[PlannedRun, Record | None]:
        """Find the recorded runs of planned configurations that are compared with each other.

        Of several runs of a configuration, one of the newest epoch is preferred, then the one that
        finished last. If the content of a corpus has changed, only runs of one content are found:
        of that at hand, else of that which the preferred run has read.

        Raises:
            ConfigError: runs read folders of one name in different places.
        """
        matching = {run: self._of_corpus_at_hand(run) for run in runs}
        every = {run: self.overrides_of(run) for run in matching}
        recorded = ((run, one) for run, one in every.items() if self._matching[one])
        refuse_namesakes((run.label, self.plans[one]) for run, one in recorded)
        preferred: dict[str, Record] = {}
        for corpus, records in matching.values():
            for one in records:
                preferred[corpus] = max(preferred.get(corpus, one), one, key=_preference)
        return {
            run: max(
                (one for one in records if one.fingerprint == preferred[corpus].fingerprint),
                key=_preference,
                default=None,
            )
            for run, (corpus, records) in matching.items()
        }

    def _of_corpus_at_hand(self, run: PlannedRun) -> tuple[str, list[Record]]:
        """Return which corpus a planned run reads, and its recorded runs; see the class."""
        overrides = self.overrides_of(run)
        with naming_rows([run]):
            if overrides not in self._matching:  # artefacts share many configurations
                runs = self._by_seed[run.seed]
                self._matching[overrides] = [o for o in runs if self._matches(overrides, o.config)]
            found = self._matching[overrides]
            if not found:  # and nothing need be composed
                return "", found
            corpus = self.plans[overrides].corpus
        at_hand = self._corpus_at_hand(run, corpus)
        return corpus, [one for one in found if at_hand in (None, one.fingerprint)]

    def overrides_of(self, run: PlannedRun) -> tuple[str, ...]:
        """Return the overrides of a planned run, those that change its artefact among them."""
        return (*run.overrides, *self.changed.get(run.experiment, ()))

    def _matches(self, overrides: tuple[str, ...], content: Mapping[str, Any]) -> bool:
        """Return whether the configuration of a run, nested, is the one that overrides compose."""
        # Composing takes milliseconds, and most runs differ in a choice already.
        for key, name in self._choices(overrides).items():
            chosen = content.get(key)
            if isinstance(chosen, Mapping) and chosen.get("name", name) != name:
                return False
        return self.plans[overrides].settings == flattened(without_nuisance(content))

    def measurements(self, experiment: Experiment) -> list[Measurement]:
        """Return every metric of every recorded run of an artefact, including tuning runs."""
        if experiment.name in self._measured:
            return self._measured[experiment.name]
        found = self._found(experiment)
        other = {
            corpus_label(record.corpus, record.fingerprint)
            for run, chosen in found.items()
            if chosen is None
            for record in self._matching[self.overrides_of(run)]
        }
        if other:
            _log.warning(
                "%s: runs of another content of their corpus are left out (%s)",
                experiment.name,
                ", ".join(sorted(other)),
            )
        known = [(run, record) for run, record in found.items() if record is not None]
        # A cell that shows an ensemble needs the one whose members are exactly its runs.
        members = defaultdict[tuple[str, str], list[tuple[PlannedRun, Record]]](list)
        for one in known:
            if one[0].column in experiment.ensemble_columns:
                members[one[0].row, one[0].column].append(one)
        for runs in members.values():
            ensembles = self.ensembles_of(record for _, record in runs)
            known += [(runs[0][0], ensemble) for ensemble in ensembles]
        measured = [
            Measurement.of(record, metric, run)
            for run, record in known
            for metric in sorted(record.metrics)
        ]
        self._measured[experiment.name] = measured
        return measured

    def ensembles_of(self, members: Iterable[Record]) -> list[Record]:
        """Return the records of ensembles of exactly these members, none trained anew since."""
        finished = {member.run_id: member.finished for member in members}
        return [
            record
            for record in self.records
            if record.kind == "ensemble"
            and sorted(record.members) == sorted(finished)
            and record.members_finished in ({}, finished)
        ]

    def figure_shows(self, name: str, runs: Collection[str]) -> bool:
        """Return whether an artefact has figure data, of one of some runs if of any.

        There is one file for all settings of an artefact.

        Raises:
            ResultsError: the file is malformed.
        """
        shown = self.figure_run(name)
        return shown is not None and (not shown or shown in runs)

    def figure_run(self, name: str) -> str | None:
        """Return the best run in the data of a figure: blank if it needs none, None without data.

        Raises:
            ResultsError: the file is malformed.
        """
        path = figure_path(self.results_dir, self.scale, name, "json")
        if not path.exists():
            return None
        record = read_object(path).get("record")
        return str(record.get("run_id", "")) if isinstance(record, dict) else ""

    def _found(self, experiment: Experiment) -> dict[PlannedRun, Record | None]:
        """Return the runs of an artefact with their records; outcomes decide on tuned ones."""
        return followed(experiment, self.scale, [*plan_runs(experiment, self.scale)], self.find_all)

    def failed_cells(self, experiment: Experiment) -> dict[tuple[str, str], list[RunFolder]]:
        """Return the failed runs of an artefact by row and column; a repeated one is no failure."""
        found = defaultdict[tuple[str, str], list[RunFolder]](list)
        planned = self._found(experiment) if self.failures and not experiment.computed else {}
        for run, record in planned.items():
            overrides = self.overrides_of(run)
            if record is None:
                found[run.row, run.column] += [
                    folder for folder, known in self.failures if self._matches(overrides, known)
                ]
        return {cell: folders for cell, folders in found.items() if folders}

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
                same = replace(run, seed=record.seed).overrides
                if self._matches(same, record.config):
                    found.append(name)
                    break
        return found


def _preference(record: Record) -> tuple[int, str, str]:
    return record.epoch, record.finished, record.run_id


def refuse_unknown_metrics(experiment: Experiment) -> None:
    """Raise ConfigError if an artefact names a metric that no module declares."""
    named = {f"column {one.name!r}": one.metric for one in experiment.columns}
    if experiment.tune is not None:
        named["tune.metric"] = experiment.tune.metric
    if experiment.drawing is not None and not experiment.computed:
        named["drawing.best"] = experiment.drawing.best
    for place, metric in named.items():
        try:
            metric_of(metric)
        except ConfigError as error:
            raise ConfigError(f"{experiment.name}: {place}: {error}") from error


def followed(
    experiment: Experiment,
    scale: str,
    runs: Sequence[PlannedRun],
    find: Callable[[Iterable[PlannedRun]], Mapping[PlannedRun, Record | None]],
    to_do: Callable[[PlannedRun], bool] = lambda run: False,
) -> dict[PlannedRun, Record | None]:
    """Find the records of planned runs, and of those that follow from them in tuned cells.

    ``find`` returns None for runs that are not done. The cell of one that is ``to_do`` waits for
    it; others have failed, or count as such.
    """
    planned = [*runs]
    while True:
        found = {**find(planned)}
        waiting = {(one.row, one.column) for one in found if found[one] is None and to_do(one)}
        ended = {run: one for run, one in found.items() if (run.row, run.column) not in waiting}
        more = following_runs(experiment, scale, ended)
        if not more:
            return found
        planned += more


def following_runs(
    experiment: Experiment, scale: str, found: Mapping[PlannedRun, Record | None]
) -> list[PlannedRun]:
    """Plan further runs of tuned cells from the outcomes of the runs planned so far.

    If the best value lies at an end of the grid, the next value beyond it is tried, up to a limit;
    else the other seeds of the best value are run. Runs that failed or are not done are ignored.
    Once every cell is complete, there are no further runs.
    """
    more: list[PlannedRun] = []
    cells = sorted(found, key=lambda run: (run.row, run.column))
    for (row, column), group in groupby(cells, key=lambda run: (run.row, run.column)):
        if (tune := experiment.tuning_of(row)) is None:
            continue
        runs, seeds = [*group], experiment.seeds_at(scale, column)
        tried = {run.value: run for run in runs if run.seed == seeds[0] and run.value is not None}
        done = {value: record for value, run in tried.items() if (record := found[run]) is not None}
        measured = {
            value: record.metrics[tune.metric]
            for value, record in done.items()
            if tune.metric in record.metrics
        }
        if not measured:
            continue
        best = best_value(measured, tune.metric)
        if (beyond := run_beyond(experiment, scale, tried[best], tried)) is not None:
            more.append(beyond)
        else:
            planned = {(run.seed, run.value) for run in runs}
            more += [replace(tried[best], seed=s) for s in seeds if (s, best) not in planned]
    return more


def run_beyond(
    experiment: Experiment, scale: str, best: PlannedRun, tried: Collection[float]
) -> PlannedRun | None:
    """Return the run of a cell with the next value of the tuned setting, beyond the best so far.

    It is None if the best of the values that were ``tried`` is inside of the grid, which has grown
    to its limit, or ends at the range of the setting.
    """
    assert experiment.tune is not None
    assert best.value is not None
    factor, grid = experiment.tune.grid_factor, experiment.grid_at(scale, best.column)
    most = len(grid) + experiment.max_extra_values(scale) if len(grid) > 1 else 1
    if factor is None or len(tried) >= most or best.value not in (min(tried), max(tried)):
        return None
    value = best.value * factor if best.value == max(tried) else best.value / factor
    beyond = replace(best, value=value)
    return None if is_refused(beyond.overrides) else beyond
