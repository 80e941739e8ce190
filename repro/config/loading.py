"""YAML files with a schema: experiments and claims, those of extensions included."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from omegaconf._utils import get_yaml_loader
from yaml import YAMLError
from yaml.error import MarkedYAMLError

from repro import typed
from repro.config.errors import ConfigError

T = TypeVar("T")


def load_structured(kind: type[T], path: Path, **values: Any) -> T:
    """Read a YAML file into a dataclass.

    Args:
        kind: the dataclass.
        path: the file.
        values: values of fields that the file need not state.

    Raises:
        ConfigError: the file is not YAML, or a key is unknown or of the wrong type; one line that
            names the file.
    """
    try:
        # OmegaConf's loader refuses keys that are there twice. Its merging takes ten times as long
        # as `typed`: seconds for all experiments.
        content = yaml.load(path.read_text(encoding="utf-8"), get_yaml_loader())
        return typed.build(kind, {**values, **content})
    except YAMLError as error:
        raise ConfigError(yaml_problem(error, path)) from error
    except (TypeError, RecursionError) as error:
        raise ConfigError(f"{path}: expected a mapping in YAML ({error})") from error
    except ValueError as error:  # not UTF-8 as well
        raise ConfigError(f"{path}: {error}") from error


def yaml_problem(error: YAMLError, path: Path | None = None) -> str:
    """Describe a syntax error in one line, with its file and line.

    Args:
        error: raised by the parser.
        path: path of the file, if the parser does not know it.
    """
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return f"{path}: not YAML ({' '.join(str(error).split())})"
    mark = error.problem_mark
    return f"{path or mark.name}:{mark.line + 1}: not YAML ({error.problem})"
