"""YAML files: experiments and claims, read into dataclasses, and the names of choices."""

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from yaml import MappingNode, YAMLError
from yaml.constructor import ConstructorError
from yaml.error import MarkedYAMLError

from repro import typed
from repro.config.errors import ConfigError
from repro.config.paths import conf_dirs, files_below

T = TypeVar("T")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML loader that rejects duplicate keys, like OmegaConf's, and reads dates as text."""

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        if twice := [key for n, key in enumerate(keys) if key in keys[:n]]:
            raise ConstructorError(None, None, f"duplicate key {twice[0]}", node.start_mark)
        return cast(dict[Any, Any], super().construct_mapping(node, deep=deep))


# PyYAML reads 1e-3 as a string because it has no decimal point.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?\d[\d_]*(\.[\d_]*)?[eE][-+]?\d+$"),
    [*"-+0123456789"],
)
_Loader.yaml_implicit_resolvers = {
    first: [one for one in found if one[0] != "tag:yaml.org,2002:timestamp"]
    for first, found in _Loader.yaml_implicit_resolvers.items()
}


def load_yaml(path: Path) -> Any:
    """Read a YAML file; duplicate keys raise ``YAMLError``."""
    return yaml.load(path.read_text(encoding="utf-8"), _Loader)


def load_structured(kind: type[T], path: Path, **values: Any) -> T:
    """Read a YAML file into a dataclass; ``values`` are those that the file need not state.

    Raises:
        ConfigError: the file is not YAML, or a key is unknown or of the wrong type; one line that
            names the file.
    """
    try:
        # OmegaConf's merging takes ten times as long as `typed`: seconds for all experiments.
        return typed.build(kind, {**values, **load_yaml(path)})
    except YAMLError as error:
        raise ConfigError(yaml_problem(error, path)) from error
    except (TypeError, RecursionError) as error:
        raise ConfigError(f"{path}: expected a mapping in YAML ({error})") from error
    except ValueError as error:  # not UTF-8 as well
        raise ConfigError(f"{path}: {error}") from error


def yaml_problem(error: YAMLError, path: Path | str) -> str:
    """Describe a syntax error in one line, with its line and file: ``path``, unless it is known."""
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return f"{path}: not YAML ({' '.join(str(error).split())})"
    mark = error.problem_mark
    name = path if isinstance(path, Path) else mark.name
    return f"{name}:{mark.line + 1}: not YAML ({error.problem})"


def default_choices(path: Path) -> list[tuple[str | None, Any]]:
    """List the groups and choices in the ``defaults`` of a file, None for the file's own group."""
    content = None
    with suppress(YAMLError, OSError, UnicodeDecodeError):  # told of when Hydra reads the file
        content = load_yaml(path)
    entries = content.get("defaults") if isinstance(content, dict) else None
    listed = entries if isinstance(entries, list) else []
    pairs = (one.items() if isinstance(one, dict) else [(None, one)] for one in listed)
    return [*chain.from_iterable(pairs)]


def declared_name(
    group: str, choice: str, further: Sequence[Path] = (), above: Sequence[str] = ()
) -> str | None:
    """Return the ``name`` in the file of a choice, else of the last choice that its defaults name.

    It is None if there is no such file or name. ``further`` folders are searched after those of
    extensions; ``above`` are the choices whose defaults name this one.

    Raises:
        ConfigError: a file is not YAML, or the defaults form a cycle.
    """
    paths = (folder / group / f"{choice}.yaml" for folder in (*conf_dirs(), *further))
    path = next((path for path in paths if path.exists()), None)
    content = None if path is None else _content(path, path.stat().st_mtime_ns)
    if not isinstance(content, dict):
        return None
    if choice in above:
        raise ConfigError(f"{path}: the `defaults` of {', '.join(above)} form a cycle")
    own = content.get(group)  # in a file for all groups, as that of a task
    if name := (own if isinstance(own, dict) else content).get("name"):
        return cast(str, name)
    listed = content.get("defaults")
    defaults = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    bases = [one.partition("@")[0].removeprefix(f"/{group}/") for one in defaults]
    names = (declared_name(group, one, further, (*above, choice)) for one in reversed(bases))
    return next(filter(None, names), None)


@cache
def _content(path: Path, _changed: int) -> Any:
    try:
        return load_yaml(path)
    except YAMLError as error:
        raise ConfigError(yaml_problem(error, path)) from error


def groups(further: Sequence[Path] = ()) -> set[str]:
    """Return the names of the groups that have choices, with those of further folders.

    Each is a folder of YAML files, and so is `protocol`.
    """
    confs = [*conf_dirs(), *further]
    folders = (path for conf in confs for path in conf.iterdir() if any(path.glob("*.yaml")))
    return {path.name for path in folders} - {"protocol"}


def group_choices(group: str, further: Sequence[Path] = ()) -> list[str]:
    """List the names of the options of a configuration group, with those of further folders."""
    folders = [*conf_dirs(), *further]
    return sorted({path.stem for conf in folders for path in (conf / group).glob("*.yaml")})


def refuse_protocols(folders: Sequence[Path]) -> None:
    """Refuse protocols of further folders that have no effect, or change the package's own tasks.

    A scale that a task of the package does not have may be added. The first folder is the package's
    own.
    """
    own, *further = confs = [*dict.fromkeys(folder.resolve() for folder in folders)]
    files = [(one, path) for one in further for path in files_below(one / "protocol", ".yaml")]
    if not files:
        return
    read: dict[str, set[str]] = {}  # by the folder, the forms of names, as ${task}_${scale}
    for file in (own / "config.yaml", *(path for one in confs for path in one.glob("task/*.yaml"))):
        for key, name in default_choices(file):
            if found := re.fullmatch(r"(?:optional\s+)?/?(protocol(?:/\w+)?)@\w+", str(key)):
                read.setdefault(found[1], set()).add(str(name))

    def matched(name: str, forms: set[str], confs: Sequence[Path]) -> re.Match[str] | None:
        def one_of(group: re.Match[str]) -> str:
            choices = {path.stem for conf in confs for path in conf.glob(f"{group[1]}/*.yaml")}
            return f"(?P<{group[1]}>{'|'.join(map(re.escape, choices))})"

        patterns = (re.sub(r"\$\{(\w+)\}", one_of, form) for form in forms)
        return next(filter(None, (re.fullmatch(one, name) for one in patterns)), None)

    for folder, path in files:
        place = path.parent.relative_to(folder).as_posix()
        if place not in read:
            raise ConfigError(f"{path}: has no effect; protocols lie in {', '.join(sorted(read))}")
        if not matched(path.stem, read[place], confs):
            form = " or ".join(sorted(read[place]))
            raise ConfigError(f"{path}: has no effect; expected the names of choices, as {form}")
        found = matched(path.stem, read[place], [own])
        named = found.groupdict() if found else {}
        task, scale = named.get("task"), named.get("scale")
        if task and (scale == "full" or (own / f"protocol/{task}_{scale}.yaml").exists()):
            raise ConfigError(
                f"{path}: changes the package's own task={task} scale={scale}; expected a protocol "
                "of a task, scale or choice of yours"
            )
