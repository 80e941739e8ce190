"""Experiments: one table or figure of a paper each, ``experiments/<paper>/<artefact>.yaml``."""

import fnmatch
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeVar

from repro.config.errors import ConfigError
from repro.config.hydra_settings import why_unread
from repro.config.identity import changes_numbers, flattened
from repro.config.loading import load_structured
from repro.config.paths import experiments_dirs
from repro.errors import meant

T = TypeVar("T")
ROW_SEPARATOR = " / "
CLAIMS_FILE = "claims.yaml"
"""File with the claims of a paper, beside its artefacts (:mod:`repro.config.claims`)."""
_MOST_DEPARTURES = 8
"""Largest number of departures: a table has no more marks for them."""
OWN_SCALES = ("small", "subset")
"""Scales whose figures show the texts of ``experiments/examples``: their corpora must not be
redistributed. Figures at demo scale show synthetic ones, at full scale those of the papers."""
_AGGREGATES = ("mean", "ensemble")
_NOT_TAKEN = re.compile(r"\s*[+~]*(name(?=[=.])|hydra[./][\w./]*)")
"""Keys that no override of an artefact sets; to parse those of all files takes seconds."""
_PLANNED = re.compile(r"\s*[+~]*(scale|seed)(?=[=.])")
"""Keys that the plan of an artefact sets."""


def unread_in_artefacts(override: str) -> str | None:
    """Describe what the file of an artefact does not state: names of sweeps, settings of Hydra."""
    if (found := _NOT_TAKEN.match(override)) is None:
        return None
    if found[1] == "name":
        return f"{override} names a sweep, which artefacts are not; leave it out"
    expected = f"has no effect here; type `repro reproduce ARTEFACT {override}`"
    return f"{override} {why_unread(found[1], 'an artefact') or expected}"


@dataclass
class Axis:
    """Axis of the rows or columns: its header, and the overrides of each label.

    Labels of columns may also set ``metric=...`` (the parts from several axes are joined),
    ``aggregate=ensemble`` and ``relative_to=ROW``.
    """

    name: str
    values: dict[str, list[str]]


@dataclass
class Column:
    """Column of an artefact: the overrides of its runs and the metric that it shows."""

    name: str  # the labels, one of each axis, joined by spaces
    metric: str
    overrides: list[str] = field(default_factory=list)
    # `"mean"` shows mean and standard deviation over the seeds; `"ensemble"` shows the ensemble
    # that averages the raw probabilities of all seeds.
    aggregate: str = "mean"
    # Label of a row; each value is divided by that of this row with the same seed.
    relative_to: str | None = None
    labels: list[str] = field(default_factory=list)

    def chosen(self, keys: Collection[str]) -> list[str]:
        """Return the keys, names or labels of columns, that select this column."""
        return [key for key in keys if key == self.name or key in self.labels]


@dataclass
class Published:
    """Values printed in the paper."""

    source: str = ""  # where they are printed, for example `"Peters et al. (2019), Table 1"`
    # Row label (axis labels joined by `" / "`) to values by name of the column; in a file, the
    # labels of several column axes nest.
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Rows of other systems, shown below ours.
    other_rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Row label to printed standard deviations by name of the column.
    deviations: dict[str, dict[str, Any]] = field(default_factory=dict)

    def problems(self, rows: Collection[str], columns: Collection[str]) -> Iterator[str]:
        """Describe values that are no numbers, or of no row or column."""
        printed = (self.rows, self.deviations, self.other_rows)
        for label, cells in (item for part in printed for item in part.items()):
            if unknown := sorted({*cells}.difference(columns)):
                yield f"published row {label!r} names {unknown}, no columns"
            if wrong := [name for name, value in cells.items() if type(value) not in (int, float)]:
                yield f"published row {label!r}: {wrong} are not numbers"
        if unknown := sorted({*self.rows, *self.deviations}.difference(rows)):
            yield f"published rows {unknown} are not rows of the experiment"


@dataclass
class Departure:
    """A departure of the full scale from the paper's protocol."""

    reason: str  # what differs, and why
    rows: list[str] = field(default_factory=list)  # labels of the rows concerned; empty for all
    columns: list[str] = field(default_factory=list)  # names or labels; empty for all
    # Whether a mapping, corpus or metric differs, so that no difference from the published value is
    # printed.
    incomparable: bool = False

    def concerns(self, row: str, column: Column) -> bool:
        """Return whether a cell is among those that this departure concerns."""
        columns = not self.columns or bool(column.chosen(self.columns))
        return row in (self.rows or [row]) and columns

    def problems(self, rows: Collection[str], columns: Collection[str]) -> Iterator[str]:
        """Describe unknown rows and columns."""
        if unknown := sorted({*self.rows}.difference(rows) | {*self.columns}.difference(columns)):
            yield f"a departure names {unknown}, no rows or columns"


@dataclass
class Drawing:
    """Drawing of a figure, and the run of the experiment that it shows."""

    name: str  # key in the report's list of drawings, for example `"lattice"`
    best: str = "dev/accuracy"  # metric; the run with its largest value is shown
    caption: str = ""  # text below the figure
    published: str = ""  # what the paper's figure shows, in words, with its place
    # Source texts, or their digests (repro.data.sentence_search.sentence_digest), to show first; a
    # rule chooses the others.
    prefer: list[str] = field(default_factory=list)


@dataclass
class Tuning:
    """A setting whose value is chosen for each cell on validation data.

    The first seed is run with every value; the other seeds with the chosen one.
    """

    key: str  # the setting, for example `"training.learning_rate"`
    values: list[float]  # the grid
    metric: str  # metric that selects the value, for example `"dev/uas"`
    # While the best value is at an end of the grid, one more value is tried, that end times (or
    # divided by) this factor; `null` keeps the grid as it is.
    grid_factor: float | None = None
    max_extra_values: int = 4  # number of values that may be added for one cell
    rows: list[str] = field(default_factory=list)  # rows whose cells are tuned; empty for all

    def problems(self, rows: Collection[str]) -> Iterator[str]:
        """Describe a grid that cannot be searched, and unknown rows."""
        if not self.values:
            yield "tune.values is empty; expected at least one number"
        if self.grid_factor is not None and not (self.grid_factor > 1 and min(self.values) > 0):
            yield "tune.grid_factor takes a factor > 1, and values > 0"
        if unknown := sorted({*self.rows}.difference(rows)):
            yield f"tune.rows names {unknown}, no rows of the experiment"


@dataclass
class ScalePlan:
    """Settings and seeds that one scale changes."""

    overrides: list[str] = field(default_factory=list)  # further overrides of every run
    seeds: list[int] | None = None  # seeds in place of the experiment's own
    # Names or labels of the columns that this scale runs, with further overrides; `null` runs all.
    columns: dict[str, list[str]] | None = None
    omit: list[str] = field(default_factory=list)  # names or labels of columns that it does not run
    # Patterns (of `fnmatch`) of the labels of the rows that this scale runs, with further
    # overrides; `null` runs all.
    rows: dict[str, list[str]] | None = None
    tuned: list[float] | None = None  # values of the tuned setting in place of the experiment's own
    max_extra_values: int | None = None  # replaces that of `tune`
    # Seeds by names or labels of columns, in place of this scale's.
    column_seeds: dict[str, list[int]] = field(default_factory=dict)
    # Values of the tuned setting by names or labels of columns, in place of this scale's; a single
    # value is used as it is.
    column_tuned: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # remarks for readers on this scale only
    # Why the figure shows nothing of the paper's at this scale, so that reports fold it; blank to
    # show it.
    folded: str = ""

    def problems(
        self, rows: Collection[str], columns: Collection[str], tune: Tuning | None
    ) -> Iterator[str]:
        """Describe unknown rows and columns, and grids that are empty or of no use."""
        if self.rows is not None:
            unknown = sorted(name for name in self.rows if not fnmatch.filter(rows, name))
            if unknown or not self.rows:
                yield f"names no rows, or unknown ones: {unknown}"
        named = {*(self.columns or {}), *self.omit, *self.column_seeds, *self.column_tuned}
        if unknown := sorted(named.difference(columns)):
            yield f"names unknown columns {unknown}"
        yield from _repeated("seeds", self.seeds or [])
        for column, seeds in self.column_seeds.items():
            yield from _repeated(f"column_seeds[{column!r}]", seeds)
        grids = [*self.column_tuned.values(), *([] if self.tuned is None else [self.tuned])]
        if grids and not (tune and all(grids)):
            lack = "it is empty" if tune else "the experiment has no 'tune'"
            yield f"has 'tuned', but {lack}"


@dataclass
class Experiment:
    """Artefact, that is, a table or figure of a paper, and the runs that it needs.

    A figure that shows the library itself needs no run: it has no base, rows, columns and seeds.
    ``baseline`` is the label of the row with which the others are compared by paired tests.
    ``departures`` mark the cells whose protocol at full scale is not the paper's.
    """

    paper: str
    artefact: str
    kind: str
    title: str
    place: str
    scales: dict[str, ScalePlan]
    base: list[str] = field(default_factory=list)
    rows: list[Axis] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    baseline: str | None = None
    tune: Tuning | None = None
    published: Published = field(default_factory=Published)
    departures: list[Departure] = field(default_factory=list)
    drawing: Drawing | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the experiment, ``<paper>/<artefact>``."""
        return f"{self.paper}/{self.artefact}"

    @property
    def anchor(self) -> str:
        """Anchor for links to this artefact in a page."""
        return self.name.replace("/", "-")

    @property
    def short_place(self) -> str:
        """Name that the paper gives to the artefact, for example ``"Table 1"``."""
        return self.place.split(",")[0]

    @property
    def computed(self) -> bool:
        """Whether the artefact shows what the library computes, without any run."""
        return not self.columns

    def row_labels(self) -> list[str]:
        """List the labels of the rows, the last axis varying fastest."""
        return [ROW_SEPARATOR.join(labels) for labels in product(*(a.values for a in self.rows))]

    def row_overrides(self) -> dict[str, list[str]]:
        """Map each row to its own overrides, without those of a scale."""
        cells = product(*(axis.values.values() for axis in self.rows))
        rows = zip(self.row_labels(), cells, strict=True)
        return {label: [*chain(*lists)] for label, lists in rows}

    def rows_at(self, scale: str) -> list[str]:
        """List the labels of the rows that a scale runs, in the order of all rows."""
        return list(self.row_overrides_at(scale))

    def row_overrides_at(self, scale: str) -> dict[str, list[str]]:
        """Map each row that a scale runs to its overrides, those of the scale last."""
        every, patterns = self.row_overrides(), self.scales[scale].rows
        if patterns is None:
            return every
        return {
            label: [*own, *chain(*(patterns[one] for one in found))]
            for label, own in every.items()
            if (found := [one for one in patterns if fnmatch.fnmatchcase(label, one)])
        }

    def seeds_at(self, scale: str, column: str = "") -> list[int]:
        """List the seeds that a scale runs in a column."""
        plan = self.scales[scale]
        return self._value_of(column, plan.column_seeds) or plan.seeds or self.seeds

    def _value_of(self, column: str, values: Mapping[str, list[T]]) -> list[T]:
        """Return the value for a column, by its name or a label; the last match wins."""
        found = [key for one in self.columns if one.name == column for key in one.chosen(values)]
        return values[found[-1]] if found else []

    @property
    def ensemble_columns(self) -> set[str]:
        """Names of the columns whose cells show an ensemble of their runs."""
        return {column.name for column in self.columns if column.aggregate == "ensemble"}

    def columns_at(self, scale: str) -> list[Column]:
        """List the columns that a scale runs, with its further overrides."""
        plan = self.scales[scale]
        found = [column for column in self.columns if not column.chosen(plan.omit)]
        if (further := plan.columns) is None:
            return found
        return [
            replace(one, overrides=[*one.overrides, *chain(*(further[key] for key in keys))])
            for one in found
            if (keys := one.chosen(further))
        ]

    def tuning_of(self, row: str) -> Tuning | None:
        """Return the tuning of the cells of a row; ``None`` if they are not tuned."""
        return self.tune if self.tune and row in (self.tune.rows or [row]) else None

    def grid_at(self, scale: str, column: str = "") -> list[float]:
        """List the values of the tuned setting that a scale tries in a column, ascending."""
        assert self.tune is not None
        plan = self.scales[scale]
        return sorted(self._value_of(column, plan.column_tuned) or plan.tuned or self.tune.values)

    def max_extra_values(self, scale: str) -> int:
        """Return how many values a scale may add to the grid of a cell."""
        assert self.tune is not None
        own = self.scales[scale].max_extra_values
        return self.tune.max_extra_values if own is None else own

    def problems(self) -> Iterator[str]:
        """Describe what is wrong with the experiment and its parts."""
        if self.kind not in ("table", "figure"):
            yield f"kind is {self.kind!r}; expected 'table' or 'figure'"
        if (self.kind == "figure") != (self.drawing is not None):
            yield "a figure needs a 'drawing', a table has none"
        # A table needs runs; a figure has rows, columns and seeds, or none of them.
        plan = {"rows": self.rows, "columns": self.columns, "seeds": self.seeds}
        lacking = [key for key, value in plan.items() if not value]
        if self.kind == "table" and lacking:
            yield f"{lacking[0]!r} is missing or empty"
        scales = self.scales.values()
        changes = [*self.base, *(item for scale in scales for item in scale.overrides)]
        if lacking and (len(lacking) < len(plan) or changes or any(one.seeds for one in scales)):
            yield (
                f"{lacking[0]!r} is missing or empty; a figure of the library alone has no 'base', "
                "'rows', 'columns', 'seeds' and no overrides"
            )
        rows = self.row_labels() if self.rows else []
        names = {name for one in self.columns for name in (one.name, *one.labels)}
        for scale, one in self.scales.items():
            yield from (f"scale {scale!r} {text}" for text in one.problems(rows, names, self.tune))
        yield from _repeated("seeds", self.seeds)
        if self.tune is not None:
            yield from self.tune.problems(rows)
            if self.ensemble_columns:
                yield "a tuned experiment has no columns 'aggregate: ensemble'"
        yield from self.published.problems(rows, {column.name for column in self.columns})
        for place, overrides, of_cells in self._stated():
            for text in overrides:
                if problem := unread_in_artefacts(text):
                    yield f"{place}: {problem}"
                elif found := _PLANNED.match(text):
                    yield f"{place}: {text} has no effect; expected it in `{found[1]}s`"
                elif of_cells and not changes_numbers(text):
                    expected = "no part of what identifies a run, so that cells would share one"
                    yield f"{place}: {text} is {expected}; type it, or state it in `base`"
        if self.baseline not in (None, *rows):
            yield f"baseline {self.baseline!r} is not a row of the experiment"
        if unknown := [one.name for one in self.columns if one.relative_to not in (None, *rows)]:
            yield f"relative_to of {unknown} is not a row of the experiment"
        if len(self.departures) > _MOST_DEPARTURES:
            yield f"more than {_MOST_DEPARTURES} departures; join some"
        for departure in self.departures:
            yield from departure.problems(rows, names)

    def _stated(self) -> Iterator[tuple[str, Sequence[str], bool]]:
        """Yield the overrides that the file states, their place before, whether of some cells."""
        yield "base", self.base, False
        for label, overrides in chain(*(axis.values.items() for axis in self.rows)):
            yield f"row {label!r}", overrides, True
        for column in self.columns:
            yield f"column {column.name!r}", column.overrides, True
        if self.tune is not None:
            yield "tune.key", [f"{self.tune.key}={value}" for value in self.tune.values], True
        for name, plan in self.scales.items():
            yield f"scale {name!r}", plan.overrides, False
            for further in (plan.rows or {}), (plan.columns or {}):
                yield f"scale {name!r}", [*chain(*further.values())], True


def _repeated(key: str, seeds: Sequence[int]) -> Iterator[str]:
    """Describe seeds that are listed twice: they share a run, and the spread would be zero."""
    if len({*seeds}) < len(seeds):
        yield f"{key} is {seeds}; expected each seed once"


@dataclass
class _File(Experiment):
    """Experiment as stated in its file."""

    # Axes whose product gives the columns.
    columns: list[Axis] = field(default_factory=list)  # type: ignore[assignment]
    metric: str = ""  # metric of columns whose labels set none
    # Names of columns in the product of the axes that the artefact does not have.
    omit: list[str] = field(default_factory=list)


def list_experiments(task: str = "") -> list[str]:
    """List the artefacts that have an experiment file: by paper, tables first, by number.

    With a ``task``, files that name other tasks only are left out, unparsed.
    """

    def reading_order(name: str) -> tuple[str, int, int, str]:
        paper, artefact = name.split("/")
        kind, number = re.fullmatch(r"(.*?)(\d*)", artefact).groups()  # type: ignore[union-attr]
        return paper, {"table": 0, "figure": 1}.get(kind, 2), int(number or 0), artefact

    def may_run(path: Path) -> bool:
        text = path.read_text(encoding="utf-8", errors="replace") if task else ""
        return bool(re.search(rf"task=[\"']*{task}\b", text)) or "task=" not in text

    files = _experiment_files()
    return sorted((name for name in files if may_run(files[name])), key=reading_order)


def _experiment_files() -> dict[str, Path]:
    files: dict[str, Path] = {}
    found = (path for folder in experiments_dirs() for path in folder.glob("*/*.yaml"))
    for path in (path for path in found if path.name != CLAIMS_FILE):
        name = f"{path.parent.name}/{path.stem}"
        if name in files:
            raise ConfigError(f"{path}: {name} is defined in {files[name]} already")
        files[name] = path
    return files


def chosen_artefacts(names: Sequence[str], scale: str) -> list[str]:
    """Select artefacts by their names or those of their papers; without names, all.

    Those that have no such ``scale`` are left out unless named themselves.

    Raises:
        ConfigError: there is no such artefact or paper, or none is left.
    """
    known = list_experiments()
    named, found = list[str](), list[str]()
    for name in names or ["*"]:
        matches = [one for one in known if name in ("*", one, one.partition("/")[0])]
        if not matches:
            papers = {one.partition("/")[0] for one in known}
            hint = meant(name, [*papers, *known]) or (
                f"; expected {', '.join(sorted(papers))}, or an artefact of one, as {known[-1]}; "
                "a setting is written KEY=VALUE"
            )
            raise ConfigError(f"no experiment {name!r}{hint}")
        named += matches
        found += [one for one in matches if one == name or scale in load_experiment(one).scales]
    if not found:
        where = f" of {', '.join(names)}" if names else ""
        scales = dict.fromkeys(one for name in named for one in load_experiment(name).scales)
        hint = meant(scale, scales) or f"; choose from: {', '.join(scales)}"
        raise ConfigError(f"no artefact{where} has a scale {scale!r}{hint}")
    return [*dict.fromkeys(found)]


def load_experiment(name: str) -> Experiment:
    """Read and check one experiment, named as ``"peters2019/table1"``.

    Raises:
        ConfigError: no such artefact, or a key of the file is unknown or of the wrong type.
    """
    files = _experiment_files()
    if name not in files:
        raise ConfigError(f"no experiment {name!r}; choose from: {', '.join(list_experiments())}")
    status = files[name].stat()
    return deepcopy(_parse(files[name], (status.st_mtime_ns, status.st_size)))


@cache
def _parse(path: Path, stamp: tuple[int, int]) -> Experiment:
    content = load_structured(_File, path, paper=path.parent.name, artefact=path.stem)
    # The last axis varies fastest. The product of no axes would be one column, not none.
    columns, axes = [], content.columns
    for chosen in product(*(axis.values.items() for axis in axes)) if axes else ():
        column = Column(" ".join(label for label, _ in chosen), "")
        for label, settings in chosen:
            column.labels.append(label)
            for setting in settings:
                key, _, value = setting.partition("=")
                if key == "metric":
                    column.metric += value
                elif key in ("aggregate", "relative_to"):
                    setattr(column, key, value)
                else:
                    column.overrides.append(setting)
        column.metric = column.metric or content.metric
        columns.append(column)
        if not (column.metric and column.aggregate in _AGGREGATES):
            raise ConfigError(
                f"{path}: column {column.name!r} needs metric=SPLIT/NAME, and aggregate is one of "
                f"{', '.join(_AGGREGATES)}"
            )
    if unknown := sorted({*content.omit} - {one.name for one in columns}):
        raise ConfigError(f"{path}: omit names unknown columns {unknown}")
    columns = [one for one in columns if one.name not in content.omit]
    published = content.published
    for printed in (published.rows, published.other_rows, published.deviations):
        printed |= {label: flattened(cells, separator=" ") for label, cells in printed.items()}
    values = {one.name: getattr(content, one.name) for one in fields(Experiment)}
    experiment = Experiment(**values | {"columns": columns})
    for problem in experiment.problems():
        raise ConfigError(f"{path}: {problem}")
    return experiment
