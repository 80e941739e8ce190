"""Sweeps: which runs the overrides of ``repro run -m`` ask for."""

from collections.abc import Sequence
from pathlib import Path

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException

from repro.config.compose import group_choices, unreadable
from repro.config.errors import ConfigError

_SEARCH_PATH = "hydra.searchpath"


def expand_globs(arguments: Sequence[str]) -> list[str]:
    """Replace overrides such as ``mapping=glob(*max)`` by the choices that they match.

    Hydra's own expansion would take the schemas for choices.

    Args:
        arguments: overrides and options; the latter stay as they are.

    Raises:
        ConfigError: an override cannot be read, matches nothing, or names an interval.
    """
    return [item if item.startswith("-") else _expanded(item) for item in arguments]


def combinations(overrides: Sequence[str], config_dir: str | None) -> list[list[str]]:
    """Split a sweep into the overrides of its runs, as Hydra's own sweeper does.

    Args:
        overrides: without globs.
        config_dir: a further folder of configuration files, Hydra's ``--config-dir``.

    Raises:
        ConfigError: an override cannot be read, or further folders are named in two ways.
    """
    parsed = [_parsed(item) for item in overrides]
    folders = [item.input_line for item in parsed if item.key_or_group == _SEARCH_PATH]
    if config_dir is not None:
        if folders:
            raise ConfigError(f"--config-dir and {_SEARCH_PATH}: name all folders in the latter")
        path = str(Path(config_dir).resolve()).replace("'", "\\'")
        folders = [f"{_SEARCH_PATH}=['file://{path}']"]
    plain = [item for item in parsed if not item.is_hydra_override()]
    split = BasicSweeper.split_arguments(plain, max_batch_size=None)
    return [[*combination, *map(str, folders)] for batch in split for combination in batch]


def _expanded(text: str) -> str:
    override = _parsed(text)
    if override.is_interval_sweep():
        raise ConfigError(f"{text}: an interval has no list of values; expected KEY=VALUE,VALUE")
    value = override.value()
    if not isinstance(value, Glob):
        return text
    names = value.filter(group_choices(override.key_or_group))
    if not names:
        choices = ", ".join(group_choices(override.key_or_group)) or "none: it is no group"
        raise ConfigError(f"{text} matches no choice of {override.key_or_group} ({choices})")
    return f"{override.get_key_element()}={','.join(names)}"


def _parsed(text: str) -> Override:
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException as error:  # the lexer raises another one than the parser
        raise ConfigError(unreadable(text)) from error
