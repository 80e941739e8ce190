"""The identity of a run: a hash of everything that may change its numbers."""

import json
from collections.abc import Collection
from dataclasses import MISSING, Field, fields, is_dataclass
from hashlib import sha256
from typing import Any

from repro import NUMERIC_EPOCH
from repro.config.schema import RunConfig
from repro.config.schema.checks import LATE

NUISANCE = frozenset({"hardware", "logger", "data_dir", "results_dir", "fail_fast"})
"""Top-level keys that say where a run is computed and stored, not what it computes."""

_LENGTH = 12


def run_id(run: RunConfig, fingerprint: str) -> str:
    """Name a run by its resolved configuration, its corpus and the package's numeric epoch.

    Args:
        run: the resolved configuration.
        fingerprint: of the corpus that it reads.

    Returns:
        Twelve hexadecimal digits.
    """
    return _digest({"config": _settings(run), "corpus": fingerprint, "epoch": NUMERIC_EPOCH})


def training_id(run: RunConfig, fingerprint: str, unread: Collection[str]) -> str:
    """Name what a run trains: runs of one name have the same weights.

    Args:
        run: the resolved configuration.
        fingerprint: of the corpus that it reads.
        unread: settings that training does not read, ``<group>.<field>`` each.
    """
    content = _settings(run)
    for setting in unread:
        group, key = setting.split(".")
        content[group].pop(key, None)
    return _digest({"training": content, "corpus": fingerprint, "epoch": NUMERIC_EPOCH})


def ensemble_id(members: list[str]) -> str:
    """Name an ensemble by its members, whatever their order."""
    return _digest({"ensemble": sorted(members), "epoch": NUMERIC_EPOCH})


def _settings(run: RunConfig) -> dict[str, Any]:
    """All that may change a run's numbers."""
    content = {key: value for key, value in _content(run).items() if key not in NUISANCE}
    content["training"].pop("checkpoint_minutes")
    return content


def _content(node: Any) -> Any:
    """The settings as plain values, without late fields that hold their default."""
    if is_dataclass(node):
        kept = [f for f in fields(node) if not _is_late_default(f, getattr(node, f.name))]
        return {f.name: _content(getattr(node, f.name)) for f in kept}
    if isinstance(node, dict):
        return {key: _content(value) for key, value in node.items()}
    return [_content(value) for value in node] if isinstance(node, list) else node


def _is_late_default(field: Field[Any], value: object) -> bool:
    if not field.metadata.get(LATE, False):
        return False
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return bool(value == default)


def _digest(content: dict[str, object]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return sha256(text.encode()).hexdigest()[:_LENGTH]
