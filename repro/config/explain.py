"""Errors of Hydra, OmegaConf and YAML in one line, with the valid choices."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, get_type_hints

import yaml
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import BooleanNode, DictConfig, FloatNode, IntegerNode, ListConfig, ValueNode
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationKeyError,
    InterpolationToMissingValueError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)
from yaml import YAMLError

from repro.config import schema
from repro.config.errors import ConfigError, require_extra
from repro.config.loading import group_choices, groups, yaml_problem
from repro.config.paths import extension_dirs
from repro.config.schema.registry import fitting_choices, registered_schemas, schema_choices
from repro.errors import meant

CONFIG_ERRORS = (HydraException, OmegaConfBaseException, YAMLError)
"""Errors that Hydra raises for refused overrides and configuration files."""
_KINDS = {
    IntegerNode: "an integer", FloatNode: "a number", BooleanNode: "true or false",
    ListConfig: "a list, as [a,b]",
}  # fmt: skip
_UNABLE = {
    "hydra.launcher.detach": "--detach: this launcher cannot detach; choose hydra/launcher=slurm",
    "hydra.sweeper.dry_run": "--dry-run: this sweeper lists no runs; choose hydra/sweeper=grid",
}
"""Messages for the keys of options that a launcher or sweeper of Hydra lacks."""
_NO_DEFAULT = re.compile(r"Could not override '(\S+)'\. No match.*\n.* use (\+\S+)$")
_NO_MATCH = re.compile(r"In '.*': Could not override '(.*?)(?:@.*)?'\. No match")
CHOSEN_TWICE = re.compile(r"Multiple values for (\S+)\. .* '\S+ \S+: (.+)'$")
"""Hydra's message where a file chooses from a group that has a choice."""
_UNSET = re.compile(r"Environment variable '(.+)' not found")
_UNEXPECTED = re.compile(r"__init__\(\) got an unexpected keyword argument '(\w+)'")
_TARGET = re.compile(r"Error (?:locating|in call to) target '([^']+)'")
_KEY = re.compile(r"[+~]{0,2}\w+([-./@:$]\w+)*")
_NO_GROUP = re.compile(r"Merge error: \w+ is not a subclass of (\w+)\. value: (.*)")


def explain(error: BaseException, chosen: Mapping[str, str | None] = MappingProxyType({})) -> str:
    """Describe one of :data:`CONFIG_ERRORS` in one message, with the valid choices.

    The message names that choice of those that are ``chosen`` whose group lacks a key.

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
    found = re.match(r"In '((\w+)/[^']+)'", str(error))
    file = _File(f"{found[1]}.yaml: ", found[2]) if found else _File()
    if told := _explain_text(str(error), str(causes[-1]), file):
        return told
    for one in (*causes, error.__context__):  # the latter is about a key in a file
        if told := _explain_key(one, file, chosen):
            return told
    lines = [line for text in map(str, causes) for line in text.splitlines()]
    told = ": ".join(dict.fromkeys(line for line in lines if line and not line.startswith(" ")))
    key = getattr(causes[-1], "full_key", None)
    return f"{told} (key {key})" if key else told


class _File(NamedTuple):
    """File that an error is about: how a message begins, and its group; blank if there is none."""

    place: str = ""
    group: str = ""


def _explain_text(text: str, last: str, file: _File) -> str | None:
    """Explain an error whose message alone tells what is wrong; ``last`` is that of its cause."""
    where = re.search(r"full_key: (\S+)", text)
    if found := _UNSET.search(text):
        reader = where[1] if where else "the configuration"
        return f"{reader} reads the environment variable {found[1]}, which is not set"
    if where and (found := _UNEXPECTED.search(text)):
        return f"{where[1]}.{found[1]}: unknown key {found[1]!r}"
    if where and (found := _TARGET.match(text)):
        return f"{where[1]}: {found[1]!r} cannot be created ({last})"
    if found := _NO_DEFAULT.match(text):
        return f"{found[1]} has no default; choose it with a +, as {found[2]}"
    if found := CHOSEN_TWICE.match(text):
        expected = f"`- override /{found[1]}: {found[2]}`"
        return f"its `defaults` choose {found[1]}, which has a choice; expected {expected}"
    if found := _NO_MATCH.match(text):
        group = found[1].rpartition("/")[2]
        expected = f"`- override /{group}: NAME` and a task that has a choice of it"
        problem = f"its `defaults` override {found[1]}, which has no choice"
        return f"{file.place}{problem}; expected {expected}"
    return None


def _explain_key(
    one: BaseException | None, file: _File, chosen: Mapping[str, str | None]
) -> str | None:
    """Explain an error about a choice, or about a key and its value."""
    missing = str(getattr(one, "missing_cfg_file", None))
    if isinstance(one, MissingConfigException) and "/" in missing:
        if file.group not in ("", "hydra") and missing.startswith(f"{file.group}/"):
            return f"{file.place}{_unknown_default(*missing.split('/', 1))}"
        return unknown_choice(missing, one.options)
    key, place = getattr(one, "full_key", None) or "", file.place
    if key in _UNABLE:
        return _UNABLE[key]
    if isinstance(one, ConfigAttributeError | ConfigKeyError) and is_dataclass(one.object_type):
        group, own = key.partition(".")[0], bool(file.group) and key == f"{file.group}.{one.key}"
        schemas = registered_schemas().get(group)
        if own and schemas is not None and one.object_type not in schemas.values():
            return f"{place}{no_schema(group)}"
        if file.group and key == file.group:  # the file has the package of a group that no run has
            return f"{place}expected `# @package _global_` in its first line"
        if "." in key and not own:  # else the file is that of the group
            named = group in chosen and group != file.group
            of = f" ({group}={chosen[group]})" if named else ""
            place += f"{key}{of}: "
        return f"{place}{unknown_key(str(one.key), one.object_type)}"
    if isinstance(one, ConfigAttributeError | ConfigKeyError) and one.object_type is dict:
        known = ", ".join(str(name) for name in one.parent_node if name != "_target_")
        hint = f"valid keys here: {known}" if known else f"a new key is written +{key}=VALUE"
        return f"{key}: unknown key {one.key!r}; {hint}"
    if isinstance(one, InterpolationKeyError) and key:
        read, group = str(one).split("'")[1], key.partition(".")[0]
        expected = f"{key}=VALUE" + f", or another {group}=" * (group in groups())
        return f"{key} reads {read}, which this run does not have; expected {expected}"
    if isinstance(one, InterpolationToMissingValueError) and key:
        read = str(one).splitlines()[0].rpartition(" ")[2]
        return f"{key} reads {read}, which is not known yet; expected {key}=VALUE"
    if isinstance(one, MissingMandatoryValue):
        return f"{key} has no value; expected {key}=VALUE"
    no_group = isinstance(one, ValidationError) and _NO_GROUP.match(str(one)) is not None
    if no_group and file.group in registered_schemas() and not key:
        return (
            f"a chosen file of {file.group} begins with `# @package _global_`; leave the line out"
        )
    return f"{place}{told}" if (told := _explain_value(one, key)) else None


def _explain_value(one: BaseException | None, key: str) -> str | None:
    """Explain that a value does not fit its key."""
    if not isinstance(one, ValidationError):
        return None
    if found := _NO_GROUP.match(str(one)):
        for group, options in registered_schemas().items():
            if found[1] in {option.__name__ for option in options.values()}:
                hint = f"a choice in `defaults`, as `- override /{group}: NAME`"
                return f"{group} is {found[2]}; expected its keys, or {hint}"
        inner = [name for name, kind in setting_types().items() if found[1] in str(kind)]
        return f"{' or '.join(inner)} is {found[2]}; expected its keys"
    child = one.child_node
    if isinstance(child, DictConfig) and "." in key:  # for a whole group, a file is to blame
        return f"{key} is a group, not a value; expected {key}.KEY=VALUE"
    if isinstance(child, ValueNode | ListConfig):
        if isinstance(one.value, dict | DictConfig):
            return f"{key} is a value, not a group; expected {key}=VALUE"
        if type(child) in _KINDS:
            value = "null" if one.value is None else repr(one.value)
            return f"{key} is {value}; expected {_KINDS[type(child)]}"
    return None


def unknown_choice(file: str, options: Sequence[str] | None = None) -> str:
    """Explain that a group, the folder of a missing file, has no such option.

    ``options`` are those that Hydra knows, the schemas and those of its search path among them.
    """
    group, _, option = file.rpartition("/")
    if (top := file.partition("/")[0]) in groups() - {"hydra"}:  # a choice in its folder
        group, option = top, file.removeprefix(f"{top}/")
    require_extra(f"{group}={option}")
    choices = sorted({*(options or group_choices(group))} - schema_choices(group).keys())
    own = f"; an extension declares it in conf/{file}.yaml" if extension_dirs() else ""
    hint = f"{meant(option, choices)}; choose {group}= one of {', '.join(choices)}{own}"
    return f"no {group} {option!r}{hint}"


def no_schema(group: str) -> str:
    """Explain that the file of a choice lacks the schema of its group."""
    known = ", ".join(sorted(schema_choices(group)))
    expected = f"`defaults: [SCHEMA, _self_]` with one of {known}"
    return f"its `defaults` name no schema; expected {expected}"


def _unknown_default(group: str, name: str) -> str:
    """Explain that the ``defaults`` of a file name what its own group does not have."""
    known = [*sorted(schema_choices(group)), *group_choices(group)]
    return (
        f"its `defaults` name {name!r}, which conf/{group} does not have{meant(name, known)}; "
        f"expected one of {', '.join(known)}, or a choice of another group, as `/mapping: softmax`"
    )


def unreadable(override: str) -> str:
    """Explain that an override is not ``KEY=VALUE``, and how to quote its value in a shell."""
    key, equals, value = override.partition("=")
    if not equals:
        choices = ", ".join(group_choices(key)) if key in groups() else ""
        expected = f"{key}= one of {choices}" if choices else "KEY=VALUE"
        return f"cannot read {override!r}; expected {expected}"
    if value.endswith(","):
        return f"cannot read {override!r}; write the values without spaces, as {override}VALUE"
    if not _KEY.fullmatch(key):
        return f"cannot read {override!r}; expected KEY=VALUE with a key such as mapping.alpha"
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


def unknown_key(key: str, owner: Any) -> str:
    """Explain that a key is unknown, with the valid ones, or where else there is such a key."""
    valid, elsewhere = [field.name for field in fields(owner)], ""
    if issubclass(owner, schema.RunConfig):
        names = {one.rpartition(".")[2] for one in setting_types()}
        near = {key} & names or _abbreviated(key, names)
        found = [one for one in setting_types() if one.rpartition(".")[2] in near]
        elsewhere = f" (did you mean {' or '.join(found[:3])}?)" if found else ""
    else:
        for group, options in registered_schemas().items():
            if owner in options.values():
                kinds = {one for one in options.values() if key in {f.name for f in fields(one)}}
                having = sorted({name for one in kinds for name in fitting_choices(group, one)})
                elsewhere = f" (it is a key of {group}={', '.join(having)})" if having else ""
    likely = min(_abbreviated(key, valid), default=key)
    hint = elsewhere or meant(likely, valid)
    return f"unknown key {key!r}{hint}; valid keys here: {', '.join(valid)}"


def _abbreviated(key: str, names: Iterable[str]) -> set[str]:
    """Return the names that end in a key or have its letters as initials.

    Both ``rate`` and ``lr`` give ``learning_rate``.
    """
    initials = {name: "".join(part[:1] for part in name.split("_")) for name in names}
    return {name for name in initials if name.endswith(f"_{key}") or initials[name] == key}


@cache
def setting_types() -> dict[str, Any]:
    """Map the keys of all groups, such as ``mapping.alpha``, to their types, and ``name``."""
    return {"name": get_type_hints(schema.RunConfig)["name"]} | {
        f"{group}.{name}": kind
        for group, options in registered_schemas().items()
        for option in options.values()
        for name, kind in get_type_hints(option).items()
        if name in {field.name for field in fields(option)}
    }


def takes_text(key: str) -> bool:
    """Return whether a setting is a text, which may look like a number: release 2.10 is not 2.1."""
    return setting_types().get(key) in (str, str | None)


def no_text(key: str, value: Any) -> str | None:
    """Explain that YAML has read a text, or one of a list of texts, as something else, if it has.

    The text is lost: 2.10 and 2.1 are one number, and `no` is a truth value.
    """
    listed = setting_types().get(key) in (list[str], list[str] | None)
    for one in value if listed and isinstance(value, list) else [value]:
        if (listed or takes_text(key)) and isinstance(one, int | float):
            return f"{key} is {one}; expected a text, in quotes where it looks like something else"
    return None
