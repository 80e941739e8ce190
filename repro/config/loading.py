"""YAML files: experiments and claims, read into dataclasses, and the names of choices."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from yaml import MappingNode, YAMLError
from yaml.constructor import ConstructorError
from yaml.error import MarkedYAMLError

from repro import typed
from repro.config.errors import ConfigError
from repro.config.paths import conf_dirs

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


def declared_name(group: str, choice: str, further: Sequence[Path] = ()) -> str | None:
    """Return the ``name`` in the file of a choice, else of the last choice that its defaults name.

    ``further`` are folders to search after those of extensions.

    Returns:
        The name; None if there is no such file or name.

    Raises:
        ConfigError: the file is not YAML.
    """
    paths = (folder / group / f"{choice}.yaml" for folder in (*conf_dirs(), *further))
    path = next((path for path in paths if path.exists()), None)
    content = None if path is None else _content(path, path.stat().st_mtime_ns)
    if not isinstance(content, dict):
        return None
    own = content.get(group)  # in a file for all groups, as that of a task
    if name := (own if isinstance(own, dict) else content).get("name"):
        return cast(str, name)
    listed = content.get("defaults")
    defaults = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    bases = [one.partition("@")[0].removeprefix(f"/{group}/") for one in defaults]
    names = (declared_name(group, one, further) for one in reversed(bases) if one != choice)
    return next(filter(None, names), None)


@cache
def _content(path: Path, _changed: int) -> Any:
    try:
        return load_yaml(path)
    except YAMLError as error:
        raise ConfigError(yaml_problem(error, path)) from error


def groups(further: Sequence[Path] = ()) -> set[str]:
    """Return the names of the groups that have choices, with those of further folders.

    Each is a folder, and so is `protocol`.
    """
    confs = [*conf_dirs(), *further]
    folders = (path for conf in confs for path in conf.iterdir() if path.is_dir())
    return {path.name for path in folders} - {"protocol"}


def group_choices(group: str, further: Sequence[Path] = ()) -> list[str]:
    """List the names of the options of a configuration group, with those of further folders."""
    folders = [*conf_dirs(), *further]
    return sorted({path.stem for conf in folders for path in (conf / group).glob("*.yaml")})
