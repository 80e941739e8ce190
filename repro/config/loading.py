"""YAML files with a schema: experiments and claims, those of extensions included."""

from pathlib import Path
from typing import Any, TypeVar

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError
from yaml.error import MarkedYAMLError

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
        content = OmegaConf.load(path)
        # No other code refers to the arguments, so merging need not copy them.
        merged = OmegaConf.unsafe_merge(OmegaConf.structured(kind), values, content)
        loaded = OmegaConf.to_object(merged)
    except YAMLError as error:
        raise ConfigError(yaml_problem(error, path)) from error
    except OmegaConfBaseException as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from error
    except (OSError, TypeError, ValueError, RecursionError) as error:  # not a mapping, not UTF-8
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise ConfigError(f"{path}: expected a mapping in YAML ({error})") from error
    assert isinstance(loaded, kind)
    return loaded


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
