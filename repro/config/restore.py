"""Restoring the configuration of an earlier run from its file."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, cast, get_type_hints

from omegaconf import DictConfig, OmegaConf

from repro.config import schema
from repro.config.compose import blaming, composed, set_value, to_run_config
from repro.config.errors import ConfigError
from repro.config.explain import unknown_key
from repro.config.identity import NUISANCE, REMOVED, changes_numbers
from repro.config.loading import group_choices, load_yaml
from repro.config.overrides import is_swept
from repro.config.schema.registry import registered_schemas, run_class

RESTORED_CHANGES = ("decoding.", "hardware=", "hardware.", "data_dir=")
"""Prefixes of the overrides that a trained model accepts: search, device and data folder."""


def restore_run(path: Path, overrides: Sequence[str]) -> schema.RunConfig:
    """Restore the configuration of a run; where it is computed and stored is chosen anew.

    Args:
        path: file that :func:`to_yaml` filled.
        overrides: settings of the device and the folders, and values that replace the file's.

    Raises:
        ConfigError: the file is not the configuration of a run of this version, or a value is
            refused.
    """
    anew = [one for one in overrides if not changes_numbers(one)]
    with blaming(path):
        stored = _stored(path)
        named = {
            key: stored[key].name
            for key in ("task", "scale", "mapping", "structure", "loss")
            if OmegaConf.is_dict(stored.get(key))
        }
        chosen = [f"{key}={name}" for key, name in named.items() if name in group_choices(key)]
    found = composed([*chosen, *anew])  # what it refuses was typed, not stored
    cfg = found.config
    with blaming(path):
        wanted = get_type_hints(run_class(OmegaConf.get_type(cfg.task)))
        for key in (str(key) for key in stored if key not in NUISANCE):
            inner = OmegaConf.is_dict(stored[key]) and key in registered_schemas()
            cfg[key] = _typed(key, stored[key], wanted[key], cfg[key]) if inner else stored[key]
        to_run_config(cfg)
    for text in (one for one in overrides if one not in anew):
        if is_swept(text):
            raise ConfigError(f"{text}: expected a single value")
        set_value(found, text)
    return to_run_config(cfg)


def _stored(path: Path) -> DictConfig:
    """Read a file of :func:`to_yaml`, without settings that were removed since."""
    content = load_yaml(path)
    if not isinstance(content, dict) or "task" not in content:
        raise ConfigError("expected the configuration of a run")
    stored = OmegaConf.create(content)
    known = {field.name for field in fields(schema.RunConfig)}
    if unknown := [str(key) for key in stored if key not in known]:
        raise ConfigError(unknown_key(unknown[0], schema.RunConfig))
    for (group, key), value in REMOVED.items():
        if OmegaConf.is_dict(stored.get(group)) and stored[group].get(key) == value:
            del stored[group][key]
    return stored


def _typed(group: str, node: DictConfig, kind: Any, composed: DictConfig) -> DictConfig:
    """Convert a stored group to the smallest schema of a kind that has all its keys.

    A tie goes to the schema of the ``composed`` group.
    """
    schemas = registered_schemas().get(group, {}).values()
    sizes = {one: {field.name for field in fields(one)} for one in schemas if issubclass(one, kind)}
    fitting = [one for one, names in sizes.items() if {*node} <= names]
    if not fitting:
        known = set().union(*sizes.values())
        raise ConfigError(f"{group}: unknown {', '.join(map(str, {*node} - known))}")
    likely = OmegaConf.get_type(composed)
    best = min(fitting, key=lambda one: (len(sizes[one]), one is not likely))
    found = OmegaConf.structured(best)
    found.merge_with(getattr(best, "added", {}))  # what a run from before the setting computed
    found.merge_with(node)
    return cast(DictConfig, found)
