"""The runs that an experiment needs, and how recorded runs match them by their configuration."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from repro.atomic import atomic_write_text
from repro.config.compose import compose_run
from repro.config.errors import ConfigError
from repro.config.experiment import Experiment
from repro.config.identity import flattened, recorded_names, schema_defaults, settings
from repro.config.paths import conf_dirs, extension_dirs

GROUPS = ("task", "data", "mapping", "loss", "model", "training", "decoding", "scale")


@dataclass(frozen=True)
class PlannedRun:
    """Run that a cell of an artefact needs.

    Attributes:
        seed: seed of the run.
        value: value of the tuned setting; ``None`` if nothing is tuned.
        cell: the overrides of every run of the cell.
        setting: key of the tuned setting.
        superseded: overrides of the scale's earlier protocol.
    """

    experiment: str
    row: str
    column: str
    seed: int
    cell: tuple[str, ...]
    setting: str = ""
    value: float | None = None
    superseded: tuple[str, ...] = ()

    @property
    def overrides(self) -> tuple[str, ...]:
        """Overrides that compose the run's configuration."""
        tuned = () if self.value is None else (f"{self.setting}={self.value:.12g}",)
        return (*self.cell, *tuned, f"seed={self.seed}")


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
                superseded=tuple(plan.superseded),
            )  # fmt: skip
            if tune is None:
                yield from (replace(first, seed=seed) for seed in seeds)
            else:
                grid = experiment.grid_at(scale, column.name)
                yield from (replace(first, value=value) for value in grid)


@dataclass(frozen=True)
class Planned:
    """Composed configuration of a planned run.

    Attributes:
        overrides: overrides that compose it.
        settings: every setting, with dotted keys.
        defaults: defaults of settings, for runs that were recorded before a setting existed.
        names: renamed settings to the names under which they are recorded.
    """

    overrides: Sequence[str]
    settings: Mapping[str, Any]
    defaults: Mapping[str, Any]
    names: Mapping[str, str]


def planned(overrides: Sequence[str]) -> Planned:
    """Compose a configuration from overrides.

    Raises:
        ConfigError: a setting is refused.
    """
    run = compose_run(overrides)
    content = flattened(settings(run))
    return Planned(overrides, content, schema_defaults(run), recorded_names(run))


class Plans:
    """Planned configurations, cached in a file because Hydra takes a fifth of a second for each.

    The file is valid only for the configuration files and the code that it was written with; a
    damaged file is replaced.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._grown = path, False

    def __getitem__(self, overrides: tuple[str, ...]) -> Planned:
        key = json.dumps(overrides)
        if key not in self._known:
            self._known[key], self._grown = planned(overrides), True
        return self._known[key]

    def save(self) -> None:
        """Write the file if configurations were added."""
        if self._grown:
            plans = {key: vars(plan) for key, plan in self._known.items()}
            content = {"of": self._source, "plans": plans}
            atomic_write_text(self._path, json.dumps(content, separators=(",", ":")))
            self._grown = False

    @cached_property
    def _known(self) -> dict[str, Planned]:
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            if content["of"] != self._source:
                return {}
            return {key: Planned(**plan) for key, plan in content["plans"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    @cached_property
    def _source(self) -> str:
        """Digest of everything that a composed configuration depends on."""
        folders = [Path(__file__).parent, *(one / "repro" for one in extension_dirs())]
        code = (path for folder in folders for path in sorted(folder.rglob("*.py")))
        conf = (path for folder in conf_dirs() for path in sorted(folder.rglob("*.yaml")))
        digest = sha256(f"{version('hydra-core')} {version('omegaconf')}".encode())
        for path in (*code, *conf):
            digest.update(f"\n{path.name}\n".encode() + path.read_bytes())
        return digest.hexdigest()


def may_match(overrides: Sequence[str], recorded: Mapping[str, Any]) -> bool:
    """Return whether no override contradicts a recorded configuration, without composing one."""
    for key, text in _stated(overrides).items():
        name = f"{key}.name" if key in ("task", "scale") else key
        if name not in recorded:
            continue
        value = recorded[name]
        try:
            parsed = _parsed(text)
        except yaml.YAMLError:  # undecided without composing
            continue
        if isinstance(value, float) and not isinstance(parsed, int | float):
            try:
                parsed = float(parsed)
            except (TypeError, ValueError):
                return False
        simple = isinstance(parsed, str | int | float | bool | None)
        if simple and parsed != value and str(parsed) != str(value):
            return False
    return True


def differences(
    plan: Planned, recorded: Mapping[str, Any], overrides: Sequence[str]
) -> list[str] | None:
    """List the changed defaults by which a recorded run differs from a planned one.

    Settings that the overrides of either state must be equal. The others are defaults, which may
    have changed since. A setting that did not exist yet had the default of the schema.

    Args:
        plan: the planned configuration.
        recorded: settings of the run, with dotted keys.
        overrides: overrides with which it was run.

    Returns:
        ``key=value`` of the run for each changed default, empty if no setting differs; None if a
        setting differs that must be equal.
    """
    found = {key: recorded.get(key, plan.defaults.get(key, v)) for key, v in plan.settings.items()}
    changed = [key for key, value in plan.settings.items() if found[key] != value]
    if not changed:
        return []
    planned, typed = _stated(plan.overrides), _stated(overrides)
    decisive = {"data.corpus"}  # a different corpus makes a different run, not a changed default
    for key in {*planned, *typed}:
        if key not in GROUPS or f"{key}.name" in plan.settings:
            decisive.add(f"{key}.name" if key in GROUPS else plan.names.get(key, key))
        elif planned.get(key) != typed.get(key):  # another option of a group without a `name`
            decisive |= {name for name in plan.settings if name.startswith(f"{key}.")}
    return None if decisive & {*changed} else [f"{key}={found[key]}" for key in changed]


def _stated(overrides: Sequence[str]) -> dict[str, str]:
    """Return the last value of every key in overrides."""
    return dict(item.lstrip("+").split("=", 1) for item in overrides if "=" in item)


_parsed = lru_cache(maxsize=4096)(yaml.safe_load)
