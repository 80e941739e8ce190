"""The identity of a run: a hash of everything that may change its numbers."""

import json
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from hashlib import sha256
from typing import Any

from omegaconf import MISSING as UNSET

from repro import NUMERIC_EPOCH
from repro.config.schema import RunConfig
from repro.config.schema.checks import ADDED_LATER, RECORDED_AS

NUISANCE = frozenset({"hardware", "logger", "data_dir", "results_dir", "fail_fast", "name"})
"""Top-level keys that say where a run is computed and stored, not what it computes."""


DISPLAYED = (("training", "checkpoint_minutes"), ("task", "shown"))
"""Settings of other groups that change no number: when to save, what to keep for figures."""


def run_id(run: RunConfig, fingerprint: str) -> str:
    """Name a run by its resolved configuration, its corpus and the package's numeric epoch.

    Args:
        run: the resolved configuration.
        fingerprint: fingerprint of the corpus that it reads.

    Returns:
        Twelve hexadecimal digits.
    """
    content = settings(run, every=False)
    return _digest({"config": content, "corpus": fingerprint, "epoch": NUMERIC_EPOCH})


def training_id(run: RunConfig, fingerprint: str, unread: Collection[str]) -> str:
    """Name what a run trains: runs with the same name train the same weights.

    Args:
        run: the resolved configuration.
        fingerprint: fingerprint of the corpus that it reads.
        unread: settings that training does not read, each as ``<group>.<field>``.
    """
    content, names = settings(run, every=False), recorded_names(run)
    for setting in unread:
        group, key = names.get(setting, setting).split(".")
        content[group].pop(key, None)
    return _digest({"training": content, "corpus": fingerprint, "epoch": NUMERIC_EPOCH})


def ensemble_id(members: list[str]) -> str:
    """Name an ensemble by its members, irrespective of their order."""
    return _digest({"ensemble": sorted(members), "epoch": NUMERIC_EPOCH})


def settings(run: RunConfig, every: bool = True) -> dict[str, Any]:
    """Collect every setting that may change a run's numbers, as nested plain values.

    Args:
        run: the resolved configuration.
        every: include settings added later that hold their default, which no identity covers.
    """
    content = {key: one for key, one in _content(run, every).items() if key not in NUISANCE}
    for group, key in DISPLAYED:
        content[group].pop(key, None)
    return content


def flattened(content: Mapping[str, Any], separator: str = ".") -> dict[str, Any]:
    """Flatten nested values, joining their keys by ``separator``."""
    found: dict[str, Any] = {}
    for key, value in content.items():
        inner = flattened(value, separator) if isinstance(value, dict) else {"": value}
        found |= {f"{key}{separator}{rest}" if rest else key: one for rest, one in inner.items()}
    return found


def schema_defaults(node: Any, prefix: str = "") -> dict[str, Any]:
    """Collect the defaults of the settings of a configuration, with dotted keys."""
    found: dict[str, Any] = {}
    for declared in fields(node):
        # The recorded name and, if values were renamed too, the recorded ones by the current ones.
        name, values = declared.metadata.get(RECORDED_AS, (declared.name, None))
        value, key = getattr(node, declared.name), f"{prefix}{name}"
        if values is not None:
            found[key] = values[declared.default]
        elif is_dataclass(value):
            found |= schema_defaults(value, f"{key}.")
        elif declared.default_factory is not MISSING:
            found[key] = declared.default_factory()
        elif declared.default not in (MISSING, UNSET):
            found[key] = declared.default
    return found


def recorded_names(node: Any, prefix: str = "", recorded: str = "") -> dict[str, str]:
    """Map the dotted keys of renamed settings to the names under which they are recorded."""
    found: dict[str, str] = {}
    for declared in fields(node):
        name, _ = declared.metadata.get(RECORDED_AS, (declared.name, None))
        value = getattr(node, declared.name)
        if is_dataclass(value):
            found |= recorded_names(value, f"{prefix}{declared.name}.", f"{recorded}{name}.")
        elif f"{prefix}{declared.name}" != f"{recorded}{name}":
            found[f"{prefix}{declared.name}"] = f"{recorded}{name}"
    return found


def _content(node: Any, every: bool) -> Any:
    """Convert a configuration, or a part of one, to plain values under their recorded names."""
    if is_dataclass(node):
        found = {}
        for setting in fields(node):
            value = getattr(node, setting.name)
            name, values = setting.metadata.get(RECORDED_AS, (setting.name, None))
            factory = setting.default_factory
            default = setting.default if factory is MISSING else factory()
            if every or not (setting.metadata.get(ADDED_LATER) and value == default):
                found[name] = _content(value if values is None else values[value], every)
        return found
    if isinstance(node, dict):
        return {key: _content(value, every) for key, value in node.items()}
    return [_content(value, every) for value in node] if isinstance(node, list) else node


def _digest(content: dict[str, object]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return sha256(text.encode()).hexdigest()[:12]
