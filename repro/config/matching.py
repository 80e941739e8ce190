"""Matching of recorded runs with planned ones by their configuration alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from repro.config.compose import compose_run
from repro.config.identity import flattened, recorded_names, schema_defaults, settings

GROUPS = ("task", "data", "mapping", "loss", "model", "training", "decoding", "scale")


@dataclass(frozen=True)
class Planned:
    """A configuration that is asked for.

    Attributes:
        overrides: what asks for it.
        settings: every setting, with dotted keys.
        defaults: of settings that a run recorded before they existed does not have.
        names: renamed settings to the names by which they are recorded.
    """

    overrides: Sequence[str]
    settings: Mapping[str, Any]
    defaults: Mapping[str, Any]
    names: Mapping[str, str]


def planned(overrides: Sequence[str]) -> Planned:
    """Compose a configuration.

    Raises:
        ConfigError: a setting is refused.
    """
    run = compose_run(overrides)
    content = flattened(settings(run))
    return Planned(overrides, content, schema_defaults(run), recorded_names(run))


def may_match(overrides: Sequence[str], recorded: Mapping[str, Any]) -> bool:
    """Return whether no override contradicts a recorded configuration; quick, composes nothing."""
    for key, text in _stated(overrides).items():
        name = f"{key}.name" if key in ("task", "scale") else key
        if name in recorded and not _says(text, recorded[name]):
            return False
    return True


def differences(
    plan: Planned, recorded: Mapping[str, Any], overrides: Sequence[str]
) -> list[str] | None:
    """Settings in which a recorded run differs from a planned one.

    What either states must be equal. What neither states are the defaults of the code of its day:
    they may have changed since. A setting that did not exist yet had the schema's default.

    Args:
        plan: the planned configuration.
        recorded: settings of the run, with dotted keys.
        overrides: what was typed to run it.

    Returns:
        ``key=value`` of the run for each changed default, none for the same configuration; None
        for a run of another one.
    """
    found = {key: recorded.get(key, plan.defaults.get(key, v)) for key, v in plan.settings.items()}
    changed = [key for key, value in plan.settings.items() if found[key] != value]
    decisive = _decisive(plan, overrides) if changed else set()
    if any(key in decisive for key in changed):
        return None
    return [f"{key}={found[key]}" for key in changed]


def _decisive(plan: Planned, overrides: Sequence[str]) -> set[str]:
    """Keys of the settings that the plan or the run states."""
    sides = [_stated(side) for side in (plan.overrides, overrides)]
    found: set[str] = set()
    for key in {key for side in sides for key in side}:
        if key not in GROUPS or f"{key}.name" in plan.settings:
            found.add(f"{key}.name" if key in GROUPS else plan.names.get(key, key))
        elif sides[0].get(key) != sides[1].get(key):  # another choice of a group without names
            found |= {name for name in plan.settings if name.startswith(f"{key}.")}
    return found


def _stated(overrides: Sequence[str]) -> dict[str, str]:
    """The last value of every key."""
    return dict(item.lstrip("+").split("=", 1) for item in overrides if "=" in item)


def _says(text: str, value: Any) -> bool:
    """Return whether an override's text may mean a value; true where that is not easily told."""
    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError:
        return True
    if isinstance(value, float) and not isinstance(parsed, int | float):
        try:
            parsed = float(parsed)
        except (TypeError, ValueError):
            return False
    if isinstance(parsed, str | int | float | bool | None):
        return bool(parsed == value) or str(parsed) == str(value)
    return True
