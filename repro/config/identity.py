"""The identity of a run: a hash of everything that may change its numbers."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import PurePath
from typing import Any

from repro.config.schema import RunConfig
from repro.config.schema.registry import declarations
from repro.version import NUMERIC_EPOCH

NUISANCE = frozenset({"hardware", "logger", "data_dir", "results_dir", "fail_fast", "name"})
"""Top-level keys that say where a run is computed and stored, not what it computes."""

SEARCH_PATH = "hydra.searchpath"
"""Key of further folders of configuration files, which decide what the name of a choice means."""


def changes_numbers(override: str) -> bool:
    """Return whether an override of ``repro run`` may change what the run computes."""
    return re.split(r"[.=]", override.lstrip("+"))[0] not in NUISANCE


REMOVED = {("loss", "label_smoothing"): 0.0}
"""Settings of earlier versions, with the only value that a run of today can have had."""


def run_id(run: RunConfig, fingerprint: str) -> str:
    """Name a run by its resolved configuration, its corpus and the package's numeric epoch.

    Returns:
        Twelve hexadecimal digits.
    """
    return _digest({"config": settings(run), "corpus": fingerprint, "epoch": NUMERIC_EPOCH})


def training_id(run: RunConfig, fingerprint: str, unread: Collection[str]) -> str:
    """Name what a run trains: runs with the same name train the same weights.

    ``unread`` are the settings that training does not read, each as ``<group>.<field>``.
    """
    content = settings(run)
    for group, key in (setting.split(".") for setting in unread):
        content[group].pop(key, None)
    return _digest({"training": content, "corpus": fingerprint, "epoch": NUMERIC_EPOCH})


def ensemble_id(members: list[str]) -> str:
    """Name an ensemble by its members, irrespective of their order."""
    return _digest({"ensemble": sorted(members), "epoch": NUMERIC_EPOCH})


def settings(run: RunConfig) -> dict[str, Any]:
    """Collect every setting that may change a run's numbers, as nested plain values."""
    return without_nuisance(asdict(run))


def without_nuisance(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that may change its numbers, from all or from recorded ones.

    Runs of one seed, epoch and corpus compute the same if and only if these are equal. What a
    schema declares of its settings (:class:`~repro.config.schema.registry.Declarations`) applies to
    groups that have this schema.
    """
    left = {
        key: dict(value) if isinstance(value, Mapping) else value
        for key, value in content.items()
        if key not in NUISANCE
    }
    groups = {key: value for key, value in left.items() if isinstance(value, dict)}
    for group, found in groups.items():
        declared = declarations(group, found.get("name"))
        earlier = declared.added | {key: one for (of, key), one in REMOVED.items() if of == group}
        for key, value in [*found.items()]:
            if key in declared.unread or (key in earlier and earlier[key] == value):
                del found[key]
            elif key in declared.unordered and isinstance(value, list):
                found[key] = sorted(value)
    if isinstance(folder := groups.get("data", {}).get("folder"), str):
        groups["data"]["folder"] = PurePath(folder).name  # the fingerprint tells what is in it
    return left


def canonical(group: str, name: object, key: str, value: Any) -> Any:
    """Return the value that is recorded for a setting of a group with a ``name``."""
    return without_nuisance({group: {"name": name, key: value}}).get(group, {}).get(key, value)


def unidentified(run: RunConfig) -> dict[str, Any]:
    """Collect the settings that are no part of a run's identity."""
    content = asdict(run)
    groups = {key: value for key, value in content.items() if isinstance(value, dict)}
    unread = {
        f"{group}.{key}": value.get(key)
        for group, value in groups.items()
        for key in declarations(group, value.get("name")).unread
    }
    return {key: content[key] for key in NUISANCE} | unread


def flattened(content: Mapping[str, Any], separator: str = ".") -> dict[str, Any]:
    """Flatten nested values, joining their keys by ``separator``."""
    found: dict[str, Any] = {}
    for key, value in content.items():
        inner = flattened(value, separator) if isinstance(value, dict) else {"": value}
        found |= {f"{key}{separator}{rest}" if rest else key: one for rest, one in inner.items()}
    return found


def _digest(content: dict[str, object]) -> str:
    text = json.dumps(_unsigned(content), sort_keys=True, ensure_ascii=True)
    return sha256(text.encode()).hexdigest()[:12]


def _unsigned(value: Any) -> Any:
    """Return nested values with 0.0 in place of -0.0, which is equal to it."""
    if isinstance(value, dict):
        return {key: _unsigned(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_unsigned(one) for one in value]
    return value + 0.0 if isinstance(value, float) else value
