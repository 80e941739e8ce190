"""YAML files: experiments and claims, read into dataclasses, and the names of choices."""

from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from omegaconf._utils import get_yaml_loader
from yaml import YAMLError
from yaml.error import MarkedYAMLError

from repro import typed
from repro.config.errors import ConfigError
from repro.config.paths import conf_dirs

T = TypeVar("T")


def load_structured(kind: type[T], path: Path, **values: Any) -> T:
    """Read a YAML file into a dataclass; ``values`` are those that the file need not state.

    Raises:
        ConfigError: the file is not YAML, or a key is unknown or of the wrong type; one line that
            names the file.
    """
    try:
        # OmegaConf's loader rejects duplicate keys. Its merging takes ten times as long as `typed`:
        # seconds for all experiments.
        content = yaml.load(path.read_text(encoding="utf-8"), get_yaml_loader())
        return typed.build(kind, {**values, **content})
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


@cache
def declared_name(group: str, choice: str) -> str | None:
    """Return the ``name`` in the file of a choice; None if there is no such file or name."""
    paths = (folder / group / f"{choice}.yaml" for folder in conf_dirs())
    path = next((path for path in paths if path.exists()), None)
    content = None if path is None else yaml.safe_load(path.read_text(encoding="utf-8"))
    return content.get("name") if isinstance(content, dict) else None
