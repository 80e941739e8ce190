"""Sweeps: which runs the overrides of ``repro run -m`` ask for."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException

from repro.config.compose import unreadable
from repro.config.errors import ConfigError
from repro.config.schema.registry import registered_schemas

_SEARCH_PATH = "hydra.searchpath"


def combinations(overrides: Sequence[str], loader: ConfigLoader) -> list[tuple[str, ...]]:
    """Split a sweep into the overrides of its runs; the last swept key varies fastest.

    Args:
        overrides: in Hydra's syntax of sweeps; a ``hydra.searchpath`` is part of every run.
        loader: finds the choices that a ``glob`` matches.

    Raises:
        ConfigError: an override cannot be read, is an interval, or matches no choice.
    """
    parsed = [_parsed(text) for text in overrides]
    folders = [text for text in overrides if text.startswith(_SEARCH_PATH)]
    axes: dict[str, list[str]] = {}
    for item, text in zip(parsed, overrides, strict=True):
        key, value = item.get_key_element(), item.value()
        if not item.is_sweep_override():
            axes[key] = [text]
        elif isinstance(value, Glob):
            group = item.key_or_group
            # Schemas are stored beside the choices that they are the base of.
            schemas = {f"base_{name}" for name in registered_schemas().get(group, {})}
            known = sorted({*loader.get_group_options(group, overrides=folders)} - schemas)
            axes[key] = [f"{key}={name}" for name in value.filter(known)]
            if not axes[key]:
                choices = ", ".join(known) or "none: it is no group"
                raise ConfigError(f"{text} matches no choice of {group} ({choices})")
        elif item.is_discrete_sweep():
            axes[key] = [f"{key}={one}" for one in item.sweep_string_iterator()]
        else:
            raise ConfigError(
                f"{text}: an interval has no list of values; expected KEY=VALUE,VALUE, or "
                "hydra/sweeper=optuna"
            )
    return list(product(*axes.values()))


def with_search_path(overrides: Sequence[str], config_dir: str | None) -> list[str]:
    """Add Hydra's ``--config-dir`` to overrides, as an entry of ``hydra.searchpath``.

    Raises:
        ConfigError: the overrides name a search path as well.
    """
    if config_dir is None:
        return [*overrides]
    if any(_parsed(item).key_or_group == _SEARCH_PATH for item in overrides):
        raise ConfigError(f"--config-dir and {_SEARCH_PATH}: name all folders in the latter")
    path = str(Path(config_dir).resolve()).replace("'", "\\'")
    return [*overrides, f"{_SEARCH_PATH}=['file://{path}']"]


def _parsed(text: str) -> Override:
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException as error:  # the lexer raises another one than the parser
        raise ConfigError(unreadable(text)) from error
