"""Compose the configurations of runs with Hydra into typed objects, refusing bad settings."""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Any, cast, get_type_hints

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, OverrideType
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf._utils import get_yaml_loader
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from yaml import YAMLError

from repro.config import schema
from repro.config.errors import ConfigError, require_extra
from repro.config.identity import NUISANCE, changes_numbers
from repro.config.loading import yaml_problem
from repro.config.paths import (
    conf_dir,
    conf_dirs,
    default_data_dir,
    default_results_dir,
    extension_dirs,
)
from repro.config.schema.registry import registered_schemas, run_class
from repro.errors import meant, require_utf8

CONFIG_ERRORS = (HydraException, OmegaConfBaseException, YAMLError)
"""Errors that Hydra raises for refused overrides and configuration files."""
_SEARCH_PATH = "hydra.searchpath"


class ExtensionSearchPath(SearchPathPlugin):
    """Hydra plugin that adds the configuration groups of extensions after the package's own."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the folders of extensions."""
        for folder in conf_dirs()[1:]:
            search_path.append("extension", f"file://{folder}")


@cache
def register_schemas() -> None:
    """Register the schemas under the names that the defaults lists of YAML files use."""
    Plugins.instance().register(ExtensionSearchPath)
    store = ConfigStore.instance()
    store.store(name="schema", node=schema.RunConfig)
    for group, options in registered_schemas().items():
        for name, node in options.items():
            store.store(group=group, name=f"base_{name}", node=node)


# Folder of the files of one sweep, named by time and process ID.
OmegaConf.register_new_resolver(
    "sweep_dir",
    lambda results_dir, scale: str(
        Path(results_dir or default_results_dir()).resolve()
        / f"{scale}/sweeps/{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"
    ),
    use_cache=True,
    replace=True,
)


def groups() -> set[str]:
    """Return the names of the configuration groups, each of which is a folder."""
    return {path.name for conf in conf_dirs() for path in conf.iterdir() if path.is_dir()}


def group_choices(group: str) -> list[str]:
    """List the names of the options of a configuration group."""
    return sorted({path.stem for conf in conf_dirs() for path in (conf / group).glob("*.yaml")})


def compose_run(overrides: Sequence[str]) -> schema.RunConfig:
    """Compose the configuration of one run from Hydra overrides.

    Args:
        overrides: for example ``["mapping=entmax", "mapping.alpha=1.5", "seed=2"]``.

    Raises:
        ConfigError: a key or choice is unknown, or a value is out of range.
    """
    return to_run_config(
        composed(lambda items: _from_choices(items) or _through_hydra(items), overrides)
    )


def composed(
    compose: Callable[[Sequence[str]], DictConfig], overrides: Sequence[str]
) -> DictConfig:
    """Return the configuration that a function of Hydra composes from overrides.

    Raises:
        ConfigError: Hydra refuses an override, by whatever error.
    """
    try:
        return compose(overrides)
    except ConfigError:
        raise
    except CONFIG_ERRORS as error:
        raise ConfigError(explain(error)) from error
    except AssertionError:  # raised for a key of a group that is null
        keys = {item: item.partition("=")[0] for item in overrides}
        nested = [item for item, key in keys.items() if "." in key and not key.startswith("hydra")]
        if nested:
            rest = [item for item in overrides if item not in nested]
            _refuse_unused(composed(compose, rest), nested)
        raise
    except ValueError as error:  # raised if a choice is not a string, as in task=3
        wrong = [item for item in overrides if _chooses_no_name(_parsed(item))]
        raise ConfigError(f"{' '.join(wrong or overrides)}: {error}") from error


def _chooses_no_name(item: Override) -> bool:
    """Return whether the choice of a group is something else than text."""
    is_group = "/" in item.key_or_group or item.key_or_group in groups()
    return is_group and not (item.is_sweep_override() or isinstance(item.value(), str | list))


def _refuse_unused(cfg: DictConfig, overrides: Sequence[str]) -> None:
    """Refuse overrides of keys of groups that are null in a configuration."""
    names = {item: item.lstrip("+~").partition(".")[0] for item in overrides}
    unused = [item for item, name in names.items() if OmegaConf.select(cfg, name) is None]
    if unused:
        raise ConfigError(f"the task does not use {', '.join(unused)}; leave it out")


RESTORED_CHANGES = ("decoding.", "hardware=", "hardware.", "data_dir=")
"""Prefixes of the overrides that a trained model accepts: search, device and data folder."""

_REMOVED: dict[str, dict[str, object]] = {
    "loss": {"label_smoothing": 0.0},
    "decoding": {"replace_unknown": False},
}
"""Settings of earlier versions by group, with the only value that a model may have had."""


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
    with _blaming(path):
        stored = _stored(path)
        named = {
            key: stored[key].name
            for key in ("task", "scale", "mapping", "structure", "loss")
            if OmegaConf.is_dict(stored.get(key))
        }
        chosen = [f"{key}={name}" for key, name in named.items() if name in group_choices(key)]
    cfg = composed(_through_hydra, [*chosen, *anew])  # what it refuses was typed, not stored
    with _blaming(path):
        wanted = get_type_hints(run_class(OmegaConf.get_type(cfg.task)))
        for key in (str(key) for key in stored if key not in NUISANCE):
            inner = OmegaConf.is_dict(stored[key]) and key in registered_schemas()
            cfg[key] = _typed(key, stored[key], wanted[key], cfg[key]) if inner else stored[key]
        to_run_config(cfg)
    for text in (one for one in overrides if one not in anew):
        item = _parsed(text)
        if item.is_sweep_override():
            raise ConfigError(f"{text}: expected a single value")
        _refuse_unused(cfg, [text])
        try:
            OmegaConf.update(cfg, item.get_key_element(), item.value(), merge=True)
        except CONFIG_ERRORS as error:
            raise ConfigError(f"{text}: {explain(error)}") from error
    return to_run_config(cfg)


@contextmanager
def _blaming(path: Path) -> Iterator[None]:
    """Name a configuration file in the errors of the block.

    Raises:
        ConfigError: the block raises an error that a damaged or foreign file causes.
    """
    try:
        yield
    except YAMLError as error:
        raise ConfigError(yaml_problem(error, path)) from error
    except CONFIG_ERRORS as error:
        raise ConfigError(f"{path}: {explain(error)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected text in UTF-8 ({error})") from error
    except (ConfigError, RecursionError) as error:  # the latter if a list contains itself
        raise ConfigError(f"{path}: {error}") from error


def _stored(path: Path) -> DictConfig:
    """Read a file of :func:`to_yaml`, without settings that were removed since."""
    content = yaml.load(path.read_text(encoding="utf-8"), get_yaml_loader())
    if not isinstance(content, dict) or "task" not in content:
        raise ConfigError("expected the configuration of a run")
    stored = OmegaConf.create(content)
    known = {field.name for field in fields(schema.RunConfig)}
    if unknown := [str(key) for key in stored if key not in known]:
        raise ConfigError(_unknown_key(unknown[0], schema.RunConfig))
    for group, removed in _REMOVED.items():
        for key, value in removed.items():
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
    found.merge_with(node)
    return cast(DictConfig, found)


def _from_choices(overrides: Sequence[str]) -> DictConfig | None:
    """Compose the choices of groups, cached, then set single values as Hydra does.

    Return None for other overrides or a refused value: then Hydra must compose or explain.
    """
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    schemas = registered_schemas()
    for item in parsed:  # each must choose an option of a group or set an existing key
        if item.type is not OverrideType.CHANGE or item.package or item.is_sweep_override():
            return None
        if item.key_or_group in schemas and not isinstance(item.value(), str):
            return None
    choices = tuple(str(item.input_line) for item in parsed if item.key_or_group in schemas)
    try:
        files = (path for folder in conf_dirs() for path in sorted(folder.rglob("*.yaml")))
        found = ((str(path), path.stat()) for path in files)
        # The stamp changes with every configuration file.
        stamp = tuple((path, status.st_mtime_ns, status.st_size) for path, status in found)
        cfg = deepcopy(_chosen(choices, stamp))
        for item in parsed:
            if item.key_or_group not in schemas:
                OmegaConf.update(cfg, item.key_or_group, item.value(), merge=True)
    except (HydraException, OmegaConfBaseException, AssertionError, ValueError):
        return None
    return cfg


def _through_hydra(overrides: Sequence[str]) -> DictConfig:
    with hydra_application():
        return compose("config", overrides=list(overrides))


_chosen = lru_cache(maxsize=256)(lambda choices, stamp: _through_hydra(choices))
"""Configurations, cached by choices of groups and the state of the configuration files."""


@contextmanager
def hydra_application() -> Iterator[GlobalHydra]:
    """Initialize Hydra with the suite's configuration, also within a sweep of Hydra."""
    register_schemas()
    instance = GlobalHydra.instance()
    outer, instance.hydra = instance.hydra, None
    try:
        with initialize_config_dir(str(conf_dir()), job_name="repro", version_base="1.3"):
            yield instance
    finally:
        instance.hydra = outer


def to_run_config(cfg: DictConfig) -> schema.RunConfig:
    """Resolve a composed configuration into its dataclasses, and check every value.

    Raises:
        ConfigError: a value is missing or out of range, or a key was added that nothing reads.
        UserError: the path of a folder is not UTF-8.
    """
    try:
        run = OmegaConf.to_object(cfg)
    except OmegaConfBaseException as error:
        raise ConfigError(explain(error)) from error
    assert isinstance(run, schema.RunConfig)
    _refuse_added(cfg, run)
    run = run_class(type(run.task))(**vars(run))
    # The workers of a run may have another working directory.
    run.data_dir = str(Path(run.data_dir or default_data_dir()).absolute())
    run.results_dir = str(Path(run.results_dir or default_results_dir()).absolute())
    for folder in (run.data_dir, run.results_dir):  # both are written to config.yaml
        require_utf8(folder)
    return run


def _refuse_added(cfg: DictConfig, node: Any) -> None:
    """Refuse keys added by ``+key=value``: no code reads them, and run IDs ignore them."""
    for key in cfg:
        if str(key) not in {field.name for field in fields(node)}:
            raise ConfigError(_unknown_key(str(key), type(node)))
        if is_dataclass(getattr(node, str(key))):
            _refuse_added(cfg[key], getattr(node, str(key)))


def to_yaml(run: schema.RunConfig) -> str:
    """Return the resolved configuration as YAML."""
    return OmegaConf.to_yaml(OmegaConf.structured(run))


_WRONG_TYPE = re.compile(
    r"override ([^\s=]+)=[\s\S]*Value '(.*)' of type '\w+' could not be converted to (\w+)"
)
_KINDS = {"Integer": "an integer", "Float": "a number", "Boolean": "true or false"}
"""Descriptions of types, by their names in OmegaConf's messages."""


def explain(error: BaseException) -> str:
    """Describe an error of Hydra in one message, with the valid choices.

    Args:
        error: one of :data:`CONFIG_ERRORS`.

    Raises:
        ConfigError: a choice needs a package that is not installed.
    """
    if isinstance(error, OverrideParseException):
        return unreadable(str(error.override))
    if isinstance(error, YAMLError):
        return yaml_problem(error, getattr(error, "name", None) or "a configuration file")
    causes = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    if isinstance(causes[-1], ConfigError):  # of a launcher
        return str(causes[-1])
    text = "\n".join(map(str, causes))
    if "hydra.launcher.detach" in text:
        return "--detach: this launcher cannot detach from its runs; choose hydra/launcher=slurm"
    for one in (*causes, error.__context__):  # the latter is about a key in a file
        if isinstance(one, MissingConfigException) and "/" in str(one.missing_cfg_file):
            return _unknown_choice(str(one.missing_cfg_file))
        if isinstance(one, ConfigAttributeError | ConfigKeyError) and is_dataclass(one.object_type):
            file = re.match(r"In '((\w+)/\w+)'", text)
            if file and one.object_type not in registered_schemas().get(file[2], {}).values():
                problem = f"unknown key {one.key!r}; its `defaults` name no schema that has it"
            else:
                problem = _unknown_key(str(one.key), one.object_type)
            return f"{file[1]}.yaml: {problem}" if file else problem
    unused = re.search(r"Could not override '(\w+)'", text)
    if unused and unused[1] in groups():
        return f"the task uses no {unused[1]}; leave {unused[1]}= out, or choose another task"
    if several := re.search(r"Ambiguous value for argument '([^']+)'", text):
        key, _, values = several[1].partition("=")
        listed = f", or write a list, {key}=[{values}]" if "list[" in str(_keys().get(key)) else ""
        return f"{several[1]}: several values; sweep with `run -m`{listed}"
    if wrong := _WRONG_TYPE.search(text):
        key, value, kind = wrong.groups()
        return f"{key} is {value!r}; expected {_KINDS.get(kind, kind)}"
    lines = [line for line in text.splitlines() if line and not line.startswith(" ")]
    found = re.search(r"full_key: (\S+)", text)
    return ": ".join(dict.fromkeys(lines)) + (f" (key {found.group(1)})" if found else "")


def _unknown_choice(file: str) -> str:
    """Explain that a group, the folder of a missing file, has no such option."""
    group, _, option = file.rpartition("/")
    require_extra(f"{group}={option}")
    choices = group_choices(group)
    own = f"; an extension declares it in conf/{file}.yaml" if extension_dirs() else ""
    hint = f"{meant(option, choices)}; choose {group}= one of {', '.join(choices)}{own}"
    return f"no {group} {option!r}{hint}"


def unreadable(override: str) -> str:
    """Explain that an override is not ``KEY=VALUE``, and how to quote its value in a shell."""
    key, equals, value = override.partition("=")
    if not equals:
        choices = ", ".join(group_choices(key)) if key in groups() else ""
        expected = f"{key}= one of {choices}" if choices else "KEY=VALUE"
        return f"cannot read {override!r}; expected {expected}"
    if value.endswith(","):
        return f"cannot read {override!r}; write the values without spaces, as {override}VALUE"
    escaped = value.replace('"', '\\"')
    advised = f'"{escaped}"'
    with suppress(YAMLError):
        if isinstance(items := yaml.load(value, yaml.BaseLoader), list):
            advised = json.dumps(items, ensure_ascii=False)
    quoted = shlex.quote(f"{key}={advised}")
    return (
        f"cannot read {override!r}; expected KEY=VALUE, a list as KEY=[a,b], and double quotes "
        f"around a value with apostrophes, spaces, brackets or letters outside of ASCII: {quoted}"
    )


def _unknown_key(key: str, owner: Any) -> str:
    """Explain that a key is unknown, with the valid ones, or where else there is such a key."""
    valid, elsewhere = [field.name for field in fields(owner)], ""
    if issubclass(owner, schema.RunConfig):
        names = {one.rpartition(".")[2] for one in _keys()}
        near = {key} & names or {name for name in names if name.endswith(f"_{key}")}
        found = [one for one in _keys() if one.rpartition(".")[2] in near]
        elsewhere = f" (did you mean {' or '.join(found[:3])}?)" if found else ""
    else:
        for group, options in registered_schemas().items():
            known = {name: {f.name for f in fields(one)} for name, one in options.items()}
            having = [name for name in group_choices(group) if key in known.get(name, ())]
            if owner in options.values() and having:
                elsewhere = f" (it is a key of {group}={', '.join(having)})"
    hint = elsewhere or meant(key, valid)
    return f"unknown key {key!r}{hint}; valid keys here: {', '.join(valid)}"


def _keys() -> dict[str, Any]:
    """Map the keys of all groups, such as ``mapping.alpha``, to their types."""
    return {
        f"{group}.{name}": kind
        for group, options in registered_schemas().items()
        for option in options.values()
        for name, kind in get_type_hints(option).items()
        if name in {field.name for field in fields(option)}
    }


_FOLDER = re.compile(r"\+{0,2}(results_dir|data_dir|data\.folder)=.+", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z_./][\w./-]*", re.ASCII)
"""Texts that Hydra reads as they are."""


def quote_folders(overrides: Sequence[str], sweep: bool = False) -> list[str]:
    """Quote folders that Hydra would not read as they are, and expand ``~``.

    Args:
        overrides: as typed; a folder in quotes stays as it is.
        sweep: whether commas separate values of ``data.folder``, unless there is such a folder.
    """
    found = []
    for item in overrides:
        key, _, value = item.partition("=")
        several = (
            sweep and "," in value and key.endswith("data.folder") and not os.path.exists(value)
        )
        if _FOLDER.fullmatch(item) and not several and not re.fullmatch(r"(['\"]).*\1", value):
            folder = os.path.expanduser(value)
            item = f"{key}={folder if _PLAIN.fullmatch(folder) else in_quotes(folder)}"
        found.append(item)
    return found


def in_quotes(text: str) -> str:
    """Quote a text so that Hydra reads it literally."""
    escaped = re.sub(r"(\\*)('|\Z)", lambda m: m[1] * 2 + m[2].replace("'", "\\'"), text)
    return f"'{escaped}'"


def combinations(overrides: Sequence[str], loader: ConfigLoader) -> list[tuple[str, ...]]:
    """Split a sweep into the overrides of its runs; the last swept key varies fastest.

    Args:
        overrides: in Hydra's syntax of sweeps; every run keeps a ``hydra.searchpath``.
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
            # Hydra lists the schemas, which the choices extend, among the choices.
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
        ConfigError: the overrides set a search path as well.
    """
    if config_dir is None:
        return [*overrides]
    if any(_parsed(item).key_or_group == _SEARCH_PATH for item in overrides):
        raise ConfigError(f"--config-dir and {_SEARCH_PATH}: name all folders in the latter")
    path = in_quotes(f"file://{Path(config_dir).resolve()}")
    return [*overrides, f"{_SEARCH_PATH}=[{path}]"]


def _parsed(text: str) -> Override:
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException as error:  # lexer and parser raise different subclasses
        raise ConfigError(unreadable(text)) from error
