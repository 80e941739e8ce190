"""Overrides as a user types them: read, quoted for Hydra, and split into the runs of a sweep."""

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, Override, Sweep
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from repro.config.errors import ConfigError
from repro.config.explain import no_text, takes_text, unreadable
from repro.config.identity import SEARCH_PATH
from repro.config.schema.registry import schema_choices

_FOLDER = re.compile(r"\+{0,2}(results_dir|data_dir|data\.folder)=.+", re.DOTALL)
_ONE_FOLDER = "several folders; a sweep has one, results_dir=FOLDER"
_PLAIN = re.compile(r"[A-Za-z_./][\w./-]*", re.ASCII)
"""Texts that Hydra reads as they are."""


def quote_folders(overrides: Sequence[str], sweep: bool = False) -> list[str]:
    """Quote folders that Hydra would not read as they are, and expand ``~``.

    Args:
        overrides: as typed; a folder in quotes stays as it is.
        sweep: whether commas separate folders of data, unless there is one of this name.

    Raises:
        ConfigError: a sweep has several results folders.
    """
    found = []
    for item in overrides:
        key, _, value = item.partition("=")
        listed = sweep and "," in value and not os.path.exists(value)
        several = listed and key.endswith(("data.folder", "data_dir"))
        if _FOLDER.fullmatch(item) and not several and not re.fullmatch(r"(['\"]).*\1", value):
            if listed:
                quoted = f"'{key}=\"{value}\"'"
                raise ConfigError(f"{item}: {_ONE_FOLDER}; write a name with a comma as {quoted}")
            folder = os.path.expanduser(value)
            item = f"{key}={folder if _PLAIN.fullmatch(folder) else in_quotes(folder)}"
        found.append(item)
    return found


def in_quotes(text: str) -> str:
    """Quote a text so that Hydra reads it literally."""
    escaped = re.sub(r"(\\*)('|\Z)", lambda m: m[1] * 2 + m[2].replace("'", "\\'"), text)
    return f"'{escaped}'"


def as_override(key: str, value: Any) -> str:
    """Write a value of a YAML file as an override; a text may have several values, as ``1,2``.

    Raises:
        ConfigError: the setting is a text and the value is none.
    """
    if isinstance(value, str):
        (override,) = quote_folders([f"{key}={value}"], sweep=True)
        try:
            parse_override(override)
        except ConfigError:
            return f"{key}={in_quotes(value)}"
        return override
    if problem := no_text(key.lstrip("+"), value):
        raise ConfigError(problem)
    # JSON writes infinity in a way that Hydra takes for a text.
    text = str(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
    return f"{key}={text}"


def resolved(override: str) -> str:
    """Replace an interpolation, such as ``${oc.env:NAME}``, by the text that it reads now.

    One that reads other settings stays: they differ from run to run.
    """
    item = parse_override(override)
    value = item.value()
    if not (isinstance(value, str) and "${" in value):
        return override
    try:
        text = str(OmegaConf.create({"value": value})["value"])
    except OmegaConfBaseException:
        return override
    with suppress(ValueError):  # a number needs no quotes
        float(text)
        return f"{item.get_key_element()}={text}"
    return f"{item.get_key_element()}={in_quotes(text)}"


def combinations(overrides: Sequence[str], loader: ConfigLoader) -> list[tuple[str, ...]]:
    """Split a sweep into the overrides of its runs; the last swept key varies fastest.

    As in a single run, the last value of a key wins, over those of keys inside of it as well.

    Args:
        overrides: in Hydra's syntax of sweeps; every run keeps a ``hydra.searchpath``.
        loader: finds the choices that a ``glob`` matches.

    Raises:
        ConfigError: an override cannot be read, is an interval, or has no values.
    """
    parsed = [parse_override(text) for text in overrides]
    folders = [*filter(is_search_path, overrides)]
    axes: list[tuple[str, list[str]]] = []
    for item, text in zip(parsed, overrides, strict=True):
        key, value = item.get_key_element().removeprefix("++"), item.value()
        if not item.is_sweep_override():
            values = [text]
        elif key == "name":
            raise ConfigError(f"{text}: several names; a sweep has one, name=NAME")
        elif key == "results_dir":
            raise ConfigError(f"{text}: {_ONE_FOLDER}")
        elif isinstance(value, Glob):
            group = item.key_or_group
            # Hydra lists the schemas, which the choices extend, among the choices.
            options = {*loader.get_group_options(group, overrides=folders)}
            known = sorted(options - schema_choices(group).keys())
            values = [f"{key}={name}" for name in value.filter(known)]
            if not values:
                choices = ", ".join(known) or "none: it is no group"
                raise ConfigError(f"{text} matches no choice of {group} ({choices})")
        elif isinstance(value, ChoiceSweep) and any(isinstance(one, Sweep) for one in value.list):
            raise ConfigError(f"{text}: several sweeps of one key; expected KEY=VALUE,VALUE")
        elif item.is_discrete_sweep():
            listed = _plain_texts(item, text) or [*item.sweep_string_iterator()]
            values = [f"{key}={one}" for one in listed]
            if not values:
                raise ConfigError(f"{text} has no values")
        else:
            raise ConfigError(
                f"{text}: an interval has no list of values; expected KEY=VALUE,VALUE, or "
                "hydra/sweeper=optuna"
            )
        # A dictionary keeps the keys that it does not name, and a second +GROUP is refused.
        each = value.list if isinstance(value, ChoiceSweep) else [value]
        if not any(isinstance(one, dict) for one in each):
            if not key.startswith("+"):
                axes = [axis for axis in axes if axis[0] != key]
        elif len(values) > 1 and any(axis[0] == key and len(axis[1]) > 1 for axis in axes):
            expected = f"expected one {{…}}, or {key}.KEY=VALUE"
            raise ConfigError(f"{text}: {key} is swept twice; {expected}")
        axes.append((key, values))
    return list(product(*(values for _, values in axes)))


def effective(overrides: Sequence[str]) -> list[str]:
    """Drop the values of one run that later ones of the same key replace.

    A dictionary keeps the keys that it does not name, and so replaces none.
    """
    kept = dict[str, list[str]]()
    for text in overrides:
        item, key = parse_override(text), text.partition("=")[0].lstrip("+")
        kept[key] = [*kept.get(key, []), text] if isinstance(item.value(), dict) else [text]
    return [text for text in overrides if text in kept[text.partition("=")[0].lstrip("+")]]


def is_hydras(text: str) -> bool:
    """Return whether an override sets or chooses something of Hydra's own."""
    return parse_override(text).key_or_group.startswith(("hydra.", "hydra/"))


def is_swept(text: str) -> bool:
    """Return whether an override has several values."""
    return parse_override(text).is_sweep_override()


def with_search_path(overrides: Sequence[str], config_dir: str | None) -> list[str]:
    """Add Hydra's ``--config-dir`` to overrides, as an entry of ``hydra.searchpath``.

    Raises:
        ConfigError: the overrides set a search path as well, or there is no such folder.
    """
    if config_dir is None:
        return [*overrides]
    if any(map(is_search_path, overrides)):
        raise ConfigError(f"--config-dir and {SEARCH_PATH}: name all folders in the latter")
    if not Path(config_dir).is_dir():
        raise ConfigError(f"--config-dir {config_dir}: there is no such folder")
    if not any([*Path(config_dir).glob("*/*.yaml"), *Path(config_dir).glob("hydra/*/*.yaml")]):
        raise ConfigError(f"--config-dir {config_dir}: no choices; expected files GROUP/NAME.yaml")
    path = in_quotes(f"file://{Path(config_dir).resolve()}")
    return [*overrides, f"{SEARCH_PATH}=[{path}]"]


def search_path(overrides: Sequence[str]) -> list[Path]:
    """Return the folders that ``hydra.searchpath`` names.

    Raises:
        ConfigError: the value is no list, an entry is no folder, but a package or an interpolation,
            a folder does not exist, the key has a +, or there are two of them: Hydra would pass
            over them.
    """
    folders = list[Path]()
    texts = [*filter(is_search_path, overrides)]
    if len(texts) > 1:
        raise ConfigError(f"{SEARCH_PATH} is given twice; name all folders in {SEARCH_PATH}=[A,B]")
    for text in texts:
        if text.startswith("+"):
            raise ConfigError(f"{text}: the key exists; leave out the +")
        found = parse_override(text).value()
        if not isinstance(found, list):
            raise ConfigError(f"{text}: expected a list of folders, {SEARCH_PATH}=[FOLDER]")
        for entry in found:
            folder = str(entry).removeprefix("file://")
            if "://" in folder or "${" in folder:
                problem = f"expected a folder, not {entry}; REPRO_EXTENSIONS serves for packages"
                raise ConfigError(f"{text}: {problem}")
            if not Path(folder).is_dir():
                raise ConfigError(f"{text}: there is no folder {folder}")
            folders.append(Path(folder).absolute())
    return folders


def is_search_path(text: str) -> bool:
    """Return whether an override sets ``hydra.searchpath``."""
    return SEARCH_PATH in text and parse_override(text).key_or_group == SEARCH_PATH


def value_of(text: str) -> Any:
    """Return the value of an override as a run has it: of a setting that is a text, a text.

    Raises:
        ConfigError: the override cannot be read, or a part of the value is no text.
    """
    return parse_override(with_text(text)).value()


def with_text(text: str) -> str:
    """Quote the value of an override, or several, if it is a number and the setting is a text.

    Hydra would read the release 2.10 as 2.1.
    """
    item = parse_override(text)
    key, _, value = text.partition("=")
    if isinstance(item.value(), list) and (lost := no_text(item.key_or_group, item.value())):
        raise ConfigError(f"{text}: {lost}")
    if isinstance(item.value(), int | float) and takes_text(item.key_or_group):
        return f"{key}={in_quotes(value.strip())}"
    several = _plain_texts(item, text)
    return f"{key}={','.join(map(in_quotes, several))}" if several else text


def _plain_texts(item: Override, text: str) -> list[str]:
    """Return the values of a sweep over a text as typed; none if they have quotes or brackets.

    Raises:
        ConfigError: within brackets, a value is no text.
    """
    if not (item.is_discrete_sweep() and takes_text(item.key_or_group)):
        return []
    if {*text} & {*"'\"(["}:
        for one in getattr(item.value(), "list", ()):
            if lost := no_text(item.key_or_group, one):
                raise ConfigError(f"{text}: {lost}")
        return []
    return [one.strip() for one in text.partition("=")[2].split(",")]


@lru_cache(maxsize=4096)
def parse_override(text: str) -> Override:
    """Parse an override, cached; raise ConfigError if it cannot be read."""
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException as error:  # lexer and parser raise different subclasses
        raise ConfigError(unreadable(text)) from error
