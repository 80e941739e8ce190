"""The runs that an experiment needs, and how recorded runs match them by their configuration."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from repro.atomic import atomic_write_text
from repro.config.compose import compose_run
from repro.config.errors import ConfigError
from repro.config.experiment import Experiment, unread_in_artefacts
from repro.config.identity import flattened, settings
from repro.config.loading import declared_name, groups
from repro.config.overrides import parse_override, value_of
from repro.config.paths import conf_dirs, extension_dirs, files_below
from repro.config.schema import RunConfig
from repro.config.schema.registry import registered_schemas

_NAMED_GROUPS = ("mapping", "structure", "loss")
# Interpolation with a resolver, such as `${oc.env:NAME}`: its value may change although no file
# does. `sweep_dir` names the folder of a sweep, no setting of a run.
_RESOLVER = re.compile(r"\$\{\s*(?!sweep_dir:)[\w.${}]+\s*:")


@dataclass(frozen=True)
class PlannedRun:
    """Run that a cell of an artefact needs.

    Attributes:
        seed: seed of the run.
        value: value of the tuned setting; ``None`` if nothing is tuned.
        cell: the overrides of every run of the cell.
        setting: key of the tuned setting.
    """

    experiment: str
    row: str
    column: str
    seed: int
    cell: tuple[str, ...]
    setting: str = ""
    value: float | None = None

    @property
    def overrides(self) -> tuple[str, ...]:
        """Overrides that compose the run's configuration."""
        tuned = () if self.value is None else (f"{self.setting}={self.value:.12g}",)
        return (*self.cell, *tuned, f"seed={self.seed}")

    @property
    def label(self) -> str:
        """Artefact, row, column, tuned value and seed."""
        tuned = () if self.value is None else (f"{setting_name(self.setting)} {self.value:.12g}",)
        parts = (self.row, self.column, *tuned, f"seed {self.seed}")
        return f"{self.experiment}: {', '.join(filter(None, parts))}"


def setting_name(key: str) -> str:
    """Return the name of a setting for readers: the last part of its key, in words."""
    return key.rpartition(".")[2].replace("_", " ")


def plan_runs(experiment: Experiment, scale: str) -> Iterator[PlannedRun]:
    """Yield the runs that are known before any has run.

    Without tuning, these are all runs; with tuning, those of the first seed with every value of
    the grid. Cells that share a run have the same overrides.

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
            )  # fmt: skip
            if tune is None:
                yield from (replace(first, seed=seed) for seed in seeds)
            else:
                grid = experiment.grid_at(scale, column.name)
                yield from (replace(first, value=value) for value in grid)


@contextmanager
def naming_rows(runs: Iterable[PlannedRun], extra: Sequence[str] = ()) -> Iterator[None]:
    """Name the artefact, row and column in a ConfigError of the block that their file causes.

    The block composes the runs in this order, with further overrides ``extra``.

    Raises:
        ConfigError: ``extra`` chooses a file for all groups, as ``+experiment=mine``.
    """
    files = groups() - registered_schemas().keys()
    for text in extra:
        if parse_override(text).key_or_group.partition("/")[0] in files:
            expected = "the values of an artefact win over those of a file; type KEY=VALUE"
            raise ConfigError(f"{text}: {expected}")
    try:
        yield
    except ConfigError as error:
        refused = next((run for run in runs if is_refused([*run.overrides, *extra])), None)
        if refused is None or not is_refused(refused.overrides):  # what was typed is to blame
            raise
        raise ConfigError(f"{refused.label}: {error}") from error


def is_refused(overrides: Sequence[str]) -> bool:
    """Return whether no run can be composed with these overrides."""
    try:
        compose_run(overrides)
    except ConfigError:
        return True
    return False


class Cells(NamedTuple):
    """Cells of artefacts, by the labels of their rows and columns; ``None`` for all of them."""

    rows: Collection[str] | None = None
    columns: Collection[str] | None = None


EVERY_CELL = Cells()


def plan_artefacts(
    experiments: Collection[Experiment], scale: str, cells: Cells = EVERY_CELL
) -> dict[str, list[PlannedRun]]:
    """Return the runs of some cells of artefacts that are known before any has run.

    Raises:
        ConfigError: no artefact has such a row or column, or one does not exist at this scale.
    """
    plans = {one.name: [*plan_runs(one, scale)] for one in experiments}
    for kind, chosen in (("row", cells.rows), ("column", cells.columns)):
        if chosen is None:
            continue
        known = dict.fromkeys(getattr(run, kind) for runs in plans.values() for run in runs)
        if unknown := [name for name in chosen if name not in known]:
            raise ConfigError(f"no {kind} {', '.join(unknown)!r}; choose from: {', '.join(known)}")
        plans = {
            name: [run for run in runs if getattr(run, kind) in chosen]
            for name, runs in plans.items()
        }
    return plans


def refuse_relabelled(
    experiment: Experiment, scale: str, runs: Sequence[PlannedRun], extra: Sequence[str]
) -> None:
    """Refuse further overrides that change what the labels of planned runs state.

    Labels state the settings of rows, columns, tuned values and seeds. Those of the base and the
    scale may be changed; an override that every run states already changes nothing. ``runs`` are
    some of those known before any has run (:func:`plan_runs`).

    Raises:
        ConfigError: an override contradicts a label, or names a sweep.
    """
    rows = experiment.row_overrides()
    columns = {one.name: one.overrides for one in experiment.columns}
    places = {"seed": "itself"}
    for run in runs:
        places |= dict.fromkeys(_typed(rows[run.row]), "in its rows")
        places |= dict.fromkeys(_typed(columns[run.column]), "in its columns")
        places |= {run.setting: "by tuning"} if run.setting else {}
    # Runs of a tuned cell with other seeds than the first are planned later.
    every = [
        {**_typed(run.overrides), "seed": seed}
        for run in runs
        for seed in experiment.seeds_at(scale, run.column)
    ]
    for text in extra:
        if problem := unread_in_artefacts(text):
            raise ConfigError(problem)
        for key, value in _typed([text]).items():
            stated = all(key in one and _agree(value, one[key]) for one in every)
            # Another value of a group replaces those of the keys below as well, and a choice of a
            # mapping or task what they mean; those of the labels win over other choices.
            keeps = key in groups() - {*_NAMED_GROUPS, "task"} and value is not None
            touched = [
                one for one in places if one == key or (not keeps and one.startswith(f"{key}."))
            ]
            if touched and not stated:
                place = places[touched[0]]
                choice = "choose --columns, or " if place == "in its columns" else ""
                sets = f"{experiment.name} sets {touched[0]} {place}"
                raise ConfigError(f"{text}: {sets}; {choice}use `repro run`")


def _typed(overrides: Sequence[str]) -> dict[str, Any]:
    """Return the values of overrides by key or group; the last one of a key wins.

    A dictionary sets the keys below its own.
    """
    typed = ({parse_override(text).key_or_group: value_of(text)} for text in overrides)
    return {key: value for one in typed for key, value in flattened(one).items()}


class Plan(NamedTuple):
    """Configuration that a planned run has."""

    settings: dict[str, Any]  # every setting that may change the numbers, with dotted keys
    corpus: str  # equal for runs that read the same corpus, whatever its content


def plan_of(run: RunConfig) -> Plan:
    """Return what recorded runs are compared with."""
    known = flattened(settings(run))
    corpus = {key: known[key] for key in known if key.startswith(run.corpus_settings)}
    return Plan(known, json.dumps(corpus | {"data.folder": run.data.folder}))


def refuse_namesakes(plans: Iterable[tuple[str, Plan]]) -> None:
    """Refuse runs of an artefact that read folders of one name in different places.

    Records state the name of a folder, so that all cells would show the runs of one folder.
    ``plans`` are beside the labels of their runs.
    """
    first: dict[str, tuple[str, Plan]] = {}
    for label, plan in plans:
        of = json.dumps(plan.settings, sort_keys=True)
        other, known = first.setdefault(of, (label, plan))
        if known.corpus != plan.corpus:
            folders = [json.loads(one.corpus)["data.folder"] for one in (known, plan)]
            raise ConfigError(
                f"{label}: data.folder={folders[1]} has the name of {folders[0]} ({other}), and "
                "records do not state more; rename one of the folders"
            )


def planned(overrides: Sequence[str]) -> Plan:
    """Compose the configuration of a run.

    Raises:
        ConfigError: a setting is refused.
    """
    return plan_of(compose_run(overrides))


class Plans:
    """Settings of planned runs, cached in a file because composing all takes seconds.

    The file is valid only for the configuration files and the code that it was written with; a
    damaged file is replaced. Plans that may read something else, such as an environment variable,
    are not written.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._grown = path, False

    def __getitem__(self, overrides: tuple[str, ...]) -> Plan:
        key = json.dumps(overrides)
        if key not in self._known:
            self._known[key], self._grown = planned(overrides), True
        return self._known[key]

    def save(self) -> None:
        """Write the file if configurations were added and no file reads what may vary."""
        files = (path for folder in conf_dirs() for path in files_below(folder, ".yaml"))
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in files)
        if self._grown and not any(map(_RESOLVER.search, texts)):
            fixed = {key: one for key, one in self._known.items() if not _RESOLVER.search(key)}
            content = {"of": self._source, "plans": fixed}
            atomic_write_text(self._path, json.dumps(content, separators=(",", ":")))
        self._grown = False

    @cached_property
    def _known(self) -> dict[str, Plan]:
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            if content["of"] != self._source:
                return {}
            return {key: Plan(*kept) for key, kept in content["plans"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    @cached_property
    def _source(self) -> str:
        """Digest of everything that a composed configuration depends on."""
        code = [Path(__file__).parent, *(one / "repro" for one in extension_dirs())]
        roots = [(folder, ".py") for folder in code] + [(one, ".yaml") for one in conf_dirs()]
        digest = sha256(f"{version('hydra-core')} {version('omegaconf')}".encode())
        for number, (root, kind) in enumerate(roots):
            for path in files_below(root, kind):
                name = f"\n{number} {path.relative_to(root)}\n"  # its folder decides what it sets
                digest.update(name.encode() + path.read_bytes())
        return digest.hexdigest()


def choices_in(overrides: Sequence[str]) -> dict[str, str]:
    """Return the mapping, structure and loss that overrides choose, without composing anything.

    Values are the names in the files, which are recorded as they stand there:
    ``["loss=cross_entropy"]`` has ``{"loss": "softmax"}``.
    """
    chosen = {key: value for key, value in _typed(overrides).items() if key in _NAMED_GROUPS}
    names = {key: declared_name(key, str(value)) for key, value in chosen.items()}
    return {key: name for key, name in names.items() if name is not None}


def _agree(value: Any, known: Any) -> bool:
    if isinstance(known, float) and isinstance(value, str):
        try:
            return float(value) == known
        except ValueError:
            return False
    return bool(value == known) or str(value) == str(known)
