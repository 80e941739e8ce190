"""Compose the configurations of runs with Hydra into typed objects, refusing bad settings."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args, get_type_hints

from hydra import compose, initialize_config_dir
from hydra.conf import HydraConf
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Override, OverrideType
from hydra.core.plugins import Plugins
from hydra.errors import ConfigCompositionException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from repro.config import schema
from repro.config.chosen_files import NO_PROTOCOL, hydra_settings, refuse_ineffective
from repro.config.errors import ConfigError, UnfitChoiceError
from repro.config.explain import (
    CHOSEN_TWICE,
    CONFIG_ERRORS,
    explain,
    no_schema,
    setting_types,
    unknown_choice,
    unknown_key,
)
from repro.config.hydra_settings import Place, why_unread
from repro.config.loading import (
    declared_name,
    default_choices,
    group_choices,
    groups,
    load_yaml,
    refuse_protocols,
    yaml_problem,
)
from repro.config.overrides import (
    combinations,
    is_hydras,
    is_search_path,
    is_swept,
    parse_override,
    search_path,
    value_of,
    with_text,
)
from repro.config.paths import (
    conf_dir,
    conf_dirs,
    default_data_dir,
    default_results_dir,
    files_below,
    refuse_hidden,
)
from repro.config.schema.registry import (
    fitting_choices,
    registered_schemas,
    run_class,
    schema_choices,
)
from repro.errors import UserError, require_utf8


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
    for group in registered_schemas():
        for name, node in schema_choices(group).items():
            store.store(group=group, name=name, node=node)


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


def compose_run(overrides: Sequence[str]) -> schema.RunConfig:
    """Compose the configuration of one run from Hydra overrides.

    Args:
        overrides: for example ``["mapping=entmax", "mapping.alpha=1.5", "seed=2"]``.

    Raises:
        ConfigError: a key or choice is unknown, a value is out of range, or the task does not
            have the scale.
    """
    run = to_run_config(composed(overrides).config)
    chosen = {item.key_or_group: item.value() for item in map(parse_override, overrides)}
    folders = search_path(overrides)
    task, scale = chosen.get("task", run.task.name), chosen.get("scale", run.scale.name)
    protocols = group_choices("protocol", folders)
    scales = [one for one in group_choices("scale", folders) if f"{task}_{one}" in protocols]
    # Without a protocol, the settings would be those of the full scale. A task without any protocol
    # has the same ones at every scale.
    if scales and scale not in (*scales, "full"):
        listed = ", ".join(sorted({*scales, "full"}))
        raise ConfigError(f"task={task} has no scale={scale}; choose scale= one of {listed}")
    return run


class _Composition(NamedTuple):
    """Configuration of choices of groups."""

    config: DictConfig
    choices: dict[str, str | None]  # by group, the defaults among them


def composed(overrides: Sequence[str]) -> _Composition:
    """Compose the choices of groups with Hydra, then set single values, the last one last."""
    choices, values = _parted(overrides)
    found = _with_choices(tuple(choices))
    for text in values:
        set_value(found, text)
    return found


def refuse_unread(overrides: Sequence[str], place: Place, foreign_launcher: bool = False) -> None:
    """Refuse settings of Hydra, typed or of chosen files, that nothing reads (:func:`why_unread`).

    So is a corpus that is typed beside a folder, which replaces it; artefacts name corpora.

    Raises:
        ConfigError: names the override, or the file and the key.
    """
    typed = {item.key_or_group: item for item in map(parse_override, overrides)}
    own = "data.folder" in typed and typed["data.folder"].value() is not None
    if own and "data.corpus" in typed and place != "an artefact":
        raise ConfigError("data.corpus is not read beside data.folder; leave it out")
    keys = {text: parse_override(text).key_or_group for text in overrides if is_hydras(text)}
    keys |= {f"{path}: {key}": key for key, path in _hydra_settings_of_files(overrides)}
    for text, key in keys.items():
        if problem := why_unread(key, place, foreign_launcher):
            raise ConfigError(f"{text} {problem}")


def _hydra_settings_of_files(overrides: Sequence[str]) -> list[tuple[str, Path]]:
    """List the settings of Hydra in chosen files of further folders, and those that they extend.

    Raises:
        ConfigError: a file that states some is one of several that are swept, of which Hydra reads
            the first one's.
    """
    folders = [*conf_dirs()[1:], *search_path(overrides)]
    if not folders:
        return []
    with hydra_application() as application:
        loader = application.config_loader()
        first = _first_choices(overrides, loader)
        known = groups(search_path(overrides))
        choosing = (o for o in overrides if is_swept(o) and _chooses(parse_override(o), known))
        each = (
            parse_override(single)
            for text in choosing
            for (*_, single) in combinations([*filter(is_search_path, overrides), text], loader)
        )
        stated = hydra_settings([(one.key_or_group, one.value()) for one in each], folders)
    if stated:
        key, path = stated[0]
        raise ConfigError(f"{path}: {key} is not read where several files are swept; name one file")
    return hydra_settings(_with_choices(tuple(_parted(first)[0])).choices.items(), folders)


def _first_choices(overrides: Sequence[str], loader: ConfigLoader) -> list[str]:
    """Return the overrides of a sweep with single values, and the first choice of each group."""
    folders, first = [*filter(is_search_path, overrides)], list[str]()
    for text in overrides:
        if not is_swept(text):
            first.append(text)
        elif is_hydras(text):
            raise ConfigError(f"{text}: several values; a sweep has one setting of Hydra's")
        elif parse_override(text).key_or_group in registered_schemas():
            first.append(combinations([*folders, text], loader)[0][-1])
    return first


@contextmanager
def sweep_application(overrides: Sequence[str]) -> Iterator[tuple[ConfigLoader, DictConfig]]:
    """Initialize Hydra for a sweep; yield its loader and the configuration with its own settings.

    Beside these are the first choices of the sweep and the single values that fit them: every run
    is composed and checked by itself.

    Raises:
        ConfigError: Hydra refuses a choice or one of its own settings, also within the block.
    """
    search_path(overrides)
    with hydra_application() as application:
        loader = application.config_loader()
        choices, values = _parted(_first_choices(overrides, loader))
        found = _compose_choices(tuple(choices))
        for text in values:
            with suppress(ConfigError):
                set_value(found, text)
        try:
            yield loader, found.config
        except CONFIG_ERRORS as error:
            raise ConfigError(explain(error)) from error


def _parted(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part the overrides of one run into those for Hydra and those that set values.

    Hydra composes choices, reads its own settings, and refuses keys that no configuration has. It
    takes no null for a choice, which is a value here, unless a later choice replaces it.

    Raises:
        ConfigError: an override has another form, or chooses with a + what is chosen already.
    """
    known = groups(search_path(overrides))
    keys = {field.name for field in fields(schema.RunConfig)}
    choices, values = list[str](), list[str]()
    for text in overrides:
        _refuse_form(text, known)
        item = parse_override(text)
        name, sets_value = item.key_or_group, False
        if _chooses(item, known):
            values = [one for one in values if parse_override(one).key_or_group != name]
            sets_value = item.value() is None
        elif not is_hydras(text):
            sets_value = "." in name or name in keys or item.type is OverrideType.CHANGE
        (values if sets_value else choices).append(text)
    items = {text: parse_override(text) for text in choices}
    chosen = Counter(items[text].key_or_group for text in choices)
    for text, item in items.items():
        name, added = item.key_or_group, item.is_add() or item.is_force_add()
        if added and "." not in name and chosen[name] > 1:  # Hydra may leave the other in place
            raise ConfigError(f"{text}: {name} is chosen twice; leave one of them out")
    return choices, values


def for_hydra(overrides: Sequence[str]) -> list[str]:
    """Return the overrides of one run as Hydra's own application reads them.

    Texts that look like numbers are quoted, and a group that is null is deleted from the defaults.
    """
    choices, values = _parted(overrides)
    names = ((text, parse_override(text).key_or_group) for text in values)
    written = (f"~{name}" if name in registered_schemas() else text for text, name in names)
    return [*map(with_text, [*choices, *written])]


def _chooses(item: Override, known: set[str]) -> bool:
    """Return whether an override chooses an option of a group."""
    return "/" in item.key_or_group or item.package is not None or item.key_or_group in known


def _refuse_form(text: str, known: set[str]) -> None:
    """Refuse an override that deletes, has several values, or chooses what no group has.

    ``known`` are the names of groups.
    """
    item = parse_override(text)
    name, added = item.key_or_group, item.is_add() or item.is_force_add()
    key, (group, slash, _) = name.partition(".")[2].partition(".")[0], name.partition("/")
    if item.is_delete():
        raise ConfigError(f"{text}: nothing can be deleted; expected KEY=VALUE")
    if name == "hydra":
        raise ConfigError(f"{text}: expected hydra.KEY=VALUE")
    if name.startswith("hydra.") and key not in {field.name for field in fields(HydraConf)}:
        raise ConfigError(f"{text}: {unknown_key(key, HydraConf)}")
    if group == "protocol":
        raise ConfigError(f"{text}: {NO_PROTOCOL}")
    if group in registered_schemas() and (slash or item.package is not None):
        raise ConfigError(f"{text}: expected {group}=NAME")
    # The defaults of a task choose of all groups that it takes, some of which as null.
    if added and group in {*registered_schemas(), "hydra"}:
        raise ConfigError(f"{text}: leave out the +")
    if item.is_sweep_override():
        listed = "list[" in str(setting_types().get(name))
        hint = f", or write a list, {name}=[{text.partition('=')[2]}]" if listed else ""
        raise ConfigError(f"{text}: several values; sweep with `run -m`{hint}")
    if _chooses(item, known):
        optional = type(None) in get_args(get_type_hints(schema.RunConfig).get(name))
        if not isinstance(item.value(), str) and not (item.value() is None and optional):
            raise ConfigError(f"{text}: expected the name of a choice")
        _refuse_file(group, item.value())
        # Hydra takes schemas, which have no values, for choices.
        if item.value() in ("???", *schema_choices(name)):
            raise ConfigError(unknown_choice(f"{name}/{item.value()}"))


def _refuse_file(group: str, choice: object) -> None:
    """Refuse the name of a choice's file, which Hydra takes, but which matches no protocol."""
    if not group.startswith("hydra") and isinstance(choice, str) and choice.endswith(".yaml"):
        raise ConfigError(f"{group}={choice}: expected the name of a choice, without .yaml")


def _with_choices(choices: tuple[str, ...]) -> _Composition:
    """Return a composition of its own with choices of groups, cached until a file changes."""
    folders = (*conf_dirs(), *search_path(choices))
    found = ((str(path), path.stat()) for path in _files(folders))
    stamp = tuple((path, status.st_mtime_ns, status.st_size) for path, status in found)
    return deepcopy(_cached(choices, stamp))


def _files(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the configuration files of folders, in order."""
    return (path for folder in folders for path in files_below(folder, ".yaml"))


def _compose_choices(choices: tuple[str, ...]) -> _Composition:
    """Let Hydra compose choices of groups; raise ConfigError for what it refuses."""
    folders = [*conf_dirs(), *search_path(choices)]
    if len(folders) > 1:  # else nothing can be hidden or changed
        refuse_hidden(folders)
        refuse_protocols(folders)
    try:
        with hydra_application():
            cfg = compose("config", overrides=list(choices), return_hydra_config=True)
    except CONFIG_ERRORS as error:
        of_task = tuple(text for text in choices if text.startswith(("task=", "hydra.", "hydra/")))
        if isinstance(error, ConfigCompositionException) and of_task != choices:
            _refuse_unused(_compose_choices(of_task).config, choices)
        raise ConfigError(_explain_choices(error, choices)) from error
    except RecursionError as error:
        named = (path for path in _files(folders) if (None, path.stem) in default_choices(path))
        where = next((f"{path}: its `defaults` name the file itself" for path in named), None)
        raise ConfigError(where or "the `defaults` of configuration files form a cycle") from error
    except UserError:
        raise
    except (UnicodeDecodeError, OSError) as error:  # about a file that Hydra does not name
        for path in _files(folders):
            with blaming(path):
                if not isinstance(load_yaml(path), dict | None):
                    raise ConfigError("expected a mapping") from error
        raise
    except ValueError as error:  # about the defaults list of a file
        raise ConfigError(str(error)) from error
    for text, item in ((text, parse_override(text)) for text in choices):
        if item.key_or_group in registered_schemas() and cfg[item.key_or_group] is None:
            raise ConfigError(f"{text}: a chosen file sets {item.key_or_group} to null")
    chosen = cast(dict[str, str | None], OmegaConf.to_container(cfg.hydra.runtime.choices))
    _check_composed(cfg, chosen, folders)
    return _Composition(cfg, chosen)


def _check_composed(cfg: DictConfig, chosen: Mapping[str, str | None], folders: list[Path]) -> None:
    """Refuse what Hydra composes, but no run or sweep can use, or what has no effect.

    ``chosen`` has the choices of the defaults of files as well.
    """
    for name in ("launcher", "sweeper"):
        if not OmegaConf.is_dict(cfg.hydra[name]):
            raise ConfigError(f"hydra.{name} is {cfg.hydra[name]}; expected hydra/{name}=NAME")
    for name, node in cfg.hydra.callbacks.items_ex(resolve=False):
        if not OmegaConf.is_dict(node) or "_target_" not in node:
            raise ConfigError(f"hydra.callbacks.{name} is {node}; expected a mapping with _target_")
    refuse_ineffective(chosen.items(), folders)
    for group, choice in chosen.items():
        _refuse_file(group, choice)
        if group in registered_schemas() and OmegaConf.is_dict(cfg[group]):
            if OmegaConf.get_type(cfg[group]) not in registered_schemas()[group].values():
                raise ConfigError(f"{group}/{choice}.yaml: {no_schema(group)}")
            declared = declared_name(group, str(choice), folders)
            found = cast(dict[str, Any], OmegaConf.to_container(cfg[group])).get("name")
            if declared not in (None, found):
                raise ConfigError(
                    f"{group}={choice} is chosen, but a file sets {group}.name to {found!r}; it "
                    f"chooses in its `defaults`, as `- override /{group}: NAME`"
                )


def _explain_choices(error: BaseException, choices: Sequence[str]) -> str:
    """Explain an error; name the chosen file that chooses what its group lacks, or has already.

    Hydra names the file whose choice is overridden, or none.
    """
    twice = CHOSEN_TWICE.match(str(error))
    missing = "/".join(twice.groups()) if twice else str(getattr(error, "missing_cfg_file", None))
    group, _, name = missing.rpartition("/")
    typed = {item.key_or_group: str(item.value()) for item in map(parse_override, choices)}
    chosen = {f"{key}/{name}" for key, name in typed.items()}
    blamed = ""
    for folder in [*conf_dirs(), *search_path(choices)] if group else ():
        for path in files_below(folder, ".yaml"):
            if str(path.relative_to(folder).with_suffix("")) in chosen and any(
                re.fullmatch(rf"(override\s+)?/{group}(@.*)?", str(key)) and choice == name
                for key, choice in default_choices(path)
            ):
                blamed = f"{path}: "
    return blamed + explain(error, typed)


@lru_cache(maxsize=256)
def _cached(choices: tuple[str, ...], _stamp: object) -> _Composition:
    """Compose choices of groups, without Hydra's settings; ``_stamp`` is the state of all files."""
    found = _compose_choices(choices)
    with open_dict(found.config):
        del found.config["hydra"]
    return found


def set_value(found: _Composition, text: str) -> None:
    """Set the value that an override names, or leave a group out whose choice is null.

    Raises:
        ConfigError: the task does not use the key, no schema has it, or the value does not fit.
    """
    item, cfg = parse_override(text), found.config
    group, _, key = item.key_or_group.partition(".")
    if key == "name" and group in registered_schemas():
        raise ConfigError(f"{text}: choose {group}=NAME")
    if item.key_or_group not in found.choices:  # else it is null, also where it was before
        _refuse_unused(cfg, [text])
    try:
        if item.is_add() and OmegaConf.select(cfg, item.key_or_group) is not None:
            raise ConfigError(f"{text}: the key exists; leave out the +")
        OmegaConf.update(cfg, item.key_or_group, value_of(text), merge=True)
    except CONFIG_ERRORS as error:
        raise ConfigError(explain(error, found.choices)) from error


def _refuse_unused(cfg: DictConfig, overrides: Sequence[str]) -> None:
    """Refuse overrides of groups that are null in a configuration, and of their keys."""
    names = {item: parse_override(item).key_or_group.partition(".")[0] for item in overrides}
    known = registered_schemas()
    unused = [item for item, name in names.items() if name in known and cfg[name] is None]
    if unused:
        raise ConfigError(f"the task does not use {', '.join(unused)}; leave it out")


@contextmanager
def blaming(path: Path) -> Iterator[None]:
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


@contextmanager
def explained(overrides: Sequence[str]) -> Iterator[None]:
    """Raise ConfigError for what Hydra refuses in the block, which composes these overrides."""
    try:
        yield
    except CONFIG_ERRORS as error:
        raise ConfigError(_explain_choices(error, overrides)) from error


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
    try:
        run = run_class(type(run.task))(**vars(run))
    except UnfitChoiceError as error:
        fitting = ", ".join(fitting_choices(error.group, error.kind))
        raise ConfigError(f"{error}; choose {error.group}= one of {fitting}") from error
    # The workers of a run may have another working directory.
    run.data_dir = _absolute(run.data_dir or default_data_dir())
    run.results_dir = _absolute(run.results_dir or default_results_dir())
    for folder in (run.data_dir, run.results_dir):  # both are written to config.yaml
        require_utf8(folder)
    return run


def _absolute(folder: str | Path) -> str:
    return str(Path(os.path.expanduser(folder)).absolute())


def _refuse_added(cfg: DictConfig, node: Any) -> None:
    """Refuse keys added by ``+key=value``: no code reads them, and run IDs ignore them."""
    for key in cfg:
        if str(key) not in {field.name for field in fields(node)}:
            raise ConfigError(unknown_key(str(key), type(node)))
        if is_dataclass(getattr(node, str(key))):
            _refuse_added(cfg[key], getattr(node, str(key)))


def to_yaml(run: schema.RunConfig) -> str:
    """Return the resolved configuration as YAML."""
    return OmegaConf.to_yaml(OmegaConf.structured(run))
