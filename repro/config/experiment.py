"""Experiments: one table or figure of a paper each, ``experiments/<paper>/<artefact>.yaml``."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from repro.config.errors import ConfigError
from repro.config.paths import experiments_dir

ROW_SEPARATOR = " / "


@dataclass
class Axis:
    """One axis of the rows: a header and, for each label, the overrides that make it."""

    name: str
    values: dict[str, list[str]]


@dataclass
class Column:
    """One column: the overrides of its runs and the metric that it shows.

    Attributes:
        over: ``"seeds"`` shows mean and standard deviation over the seeds; ``"ensemble"`` shows
            the one model that averages the raw probabilities of all seeds.
    """

    name: str
    metric: str
    overrides: list[str] = field(default_factory=list)
    over: str = "seeds"


@dataclass
class Published:
    """Values printed in the paper.

    Attributes:
        source: where they stand, for example ``"Peters et al. (2019), Table 1"``.
        rows: row label (axis labels joined by ``" / "``) to one value per column.
        other_rows: rows of other systems, shown below ours.
    """

    source: str = ""
    rows: dict[str, list[float | None]] = field(default_factory=dict)
    other_rows: dict[str, list[float | None]] = field(default_factory=dict)


@dataclass
class Drawing:
    """How a figure is drawn: the drawing's name and which run of the experiment it shows.

    Attributes:
        name: key in the report's list of drawings, for example ``"lattice"``.
        best: metric whose largest value chooses the run.
        caption: text below the figure.
        published: what the paper's figure shows, in words, with its place.
        prefer: a source text to show if it is among the examples (else a rule chooses).
    """

    name: str
    best: str = "dev/accuracy"
    caption: str = ""
    published: str = ""
    prefer: list[str] = field(default_factory=list)


@dataclass
class ScalePlan:
    """What one scale changes: further overrides and its own seeds."""

    overrides: list[str] = field(default_factory=list)
    seeds: list[int] | None = None


@dataclass
class Experiment:
    """One artefact; ``name`` is ``<paper>/<artefact>``.

    A figure that shows the library itself needs no run: it has no base, rows, columns and seeds.
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
    published: Published = field(default_factory=Published)
    drawing: Drawing | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """``<paper>/<artefact>``."""
        return f"{self.paper}/{self.artefact}"

    @property
    def computed(self) -> bool:
        """Whether it shows what the library computes, without any run."""
        return not self.columns

    def row_labels(self) -> list[str]:
        """Labels of the rows, the last axis varying fastest."""
        return [ROW_SEPARATOR.join(labels) for labels in product(*(a.values for a in self.rows))]

    def seeds_at(self, scale: str) -> list[int]:
        """Seeds that this scale runs."""
        return self.scales[scale].seeds or self.seeds


@dataclass(frozen=True)
class PlannedRun:
    """One run that a cell needs."""

    experiment: str
    row: str
    column: str
    seed: int
    overrides: tuple[str, ...]


def plan_runs(experiment: Experiment, scale: str) -> Iterator[PlannedRun]:
    """List the runs of every cell; cells that share a run name the same overrides.

    Raises:
        ConfigError: the experiment does not exist at this scale.
    """
    if scale not in experiment.scales:
        raise ConfigError(
            f"{experiment.name} has no scale {scale!r}; it has {', '.join(experiment.scales)}"
        )
    extra = experiment.scales[scale].overrides
    for labels, overrides in _row_overrides(experiment.rows):
        for column in experiment.columns:
            for seed in experiment.seeds_at(scale):
                full = (*experiment.base, f"scale={scale}", *extra, *overrides, *column.overrides)
                yield PlannedRun(
                    experiment.name, labels, column.name, seed, (*full, f"seed={seed}")
                )


def _row_overrides(axes: Sequence[Axis]) -> Iterator[tuple[str, list[str]]]:
    for chosen in product(*(axis.values.items() for axis in axes)):
        label = ROW_SEPARATOR.join(name for name, _ in chosen)
        yield label, [override for _, overrides in chosen for override in overrides]


def list_experiments() -> list[str]:
    """Names of every artefact that has an experiment file: by paper, tables first, by number."""
    files = experiments_dir().glob("*/*.yaml")
    return sorted((f"{path.parent.name}/{path.stem}" for path in files), key=_reading_order)


def _reading_order(name: str) -> tuple[str, int, int, str]:
    paper, artefact = name.split("/")
    kind, number = re.fullmatch(r"(.*?)(\d*)", artefact).groups()  # type: ignore[union-attr]
    rank = {"table": 0, "figure": 1}.get(kind, 2)
    return paper, rank, int(number or 0), artefact


def load_experiment(name: str) -> Experiment:
    """Read and check one experiment.

    Args:
        name: ``<paper>/<artefact>``, for example ``"peters2019/table1"``.

    Raises:
        ConfigError: no such artefact, or a key of the file is unknown or of the wrong type.
    """
    path = experiments_dir() / f"{name}.yaml"
    if name not in list_experiments():
        raise ConfigError(f"no experiment {name!r}; choose from: {', '.join(list_experiments())}")
    return _parse(path)


def _parse(path: Path) -> Experiment:
    values: dict[str, Any] = {"paper": path.parent.name, "artefact": path.stem}
    try:
        merged = OmegaConf.merge(OmegaConf.structured(Experiment), values, OmegaConf.load(path))
        experiment = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{path}: {error}") from error
    assert isinstance(experiment, Experiment)
    _check(experiment, path)
    return experiment


def _check(experiment: Experiment, path: Path) -> None:
    if experiment.kind not in ("table", "figure"):
        raise ConfigError(f"{path}: kind is {experiment.kind!r}; expected 'table' or 'figure'")
    if (experiment.kind == "figure") != (experiment.drawing is not None):
        raise ConfigError(f"{path}: a figure needs a 'drawing', a table has none")
    _check_plan(experiment, path)
    width = len(experiment.columns)
    published = experiment.published
    for label, cells in [*published.rows.items(), *published.other_rows.items()]:
        if len(cells) != width:
            raise ConfigError(
                f"{path}: published row {label!r} has {len(cells)} values, not {width}"
            )
    unknown = set(published.rows) - set(experiment.row_labels())
    if unknown:
        raise ConfigError(
            f"{path}: published rows {sorted(unknown)} are not rows of the experiment"
        )


def _check_plan(experiment: Experiment, path: Path) -> None:
    plan = {key: getattr(experiment, key) for key in ("rows", "columns", "seeds")}
    lacking = [key for key, value in plan.items() if not value]
    if experiment.kind == "table" and lacking:
        raise ConfigError(f"{path}: {lacking[0]!r} is missing or empty")
    scales = experiment.scales.values()
    changes = [*experiment.base, *(item for scale in scales for item in scale.overrides)]
    if lacking and (len(lacking) < len(plan) or changes or any(scale.seeds for scale in scales)):
        raise ConfigError(
            f"{path}: {lacking[0]!r} is missing or empty; a figure of the library alone has "
            "no 'base', 'rows', 'columns', 'seeds' and no overrides"
        )
