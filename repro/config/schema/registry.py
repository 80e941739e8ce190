"""Registry of the schemas in the modules of the package: a new task only adds a module."""

import logging
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, get_type_hints

import repro.config.schema as package
from repro.config.errors import ConfigError
from repro.config.loading import default_choices
from repro.config.paths import conf_dirs, import_extension
from repro.config.schema.run import RunConfig, fits

_log = logging.getLogger(__name__)


@cache
def registered_schemas() -> dict[str, dict[str, type]]:
    """Collect the ``SCHEMAS`` of all modules of the package: group to name to dataclass.

    Raises:
        ConfigError: two modules register the same name, or one registers no dictionary.
    """
    found: dict[str, dict[str, type]] = {}
    for module in _modules():
        declared = getattr(module, "SCHEMAS", {})
        options = declared.values() if isinstance(declared, dict) else [declared]
        if not all(
            isinstance(one, dict) and all(map(is_dataclass, one.values())) for one in options
        ):
            raise ConfigError(
                f"{module.__file__}: SCHEMAS is {declared!r}; expected a dictionary of schemas for "
                "each group"
            )
        for group, options in declared.items():
            twice = found.setdefault(group, {}).keys() & options.keys()
            if twice:
                names = ", ".join(sorted(twice))
                raise ConfigError(f"{module.__name__}: {group} has a schema named {names} already")
            found[group] |= options
    return found


@cache
def added_settings() -> dict[tuple[str, str], Any]:
    """Map settings that were added to a schema, by group and key, to what earlier runs computed.

    A schema names them in its class variable ``added``: with this value a run keeps the identity
    that it had before.

    Raises:
        ConfigError: two schemas of a group give a key different values, or name no field of theirs.
    """
    found: dict[tuple[str, str], Any] = {}
    for group, schemas in registered_schemas().items():
        for name, schema in schemas.items():
            for key, value in getattr(schema, "added", {}).items():
                known = {field.name for field in fields(schema)}
                if key not in known or found.setdefault((group, key), value) != value:
                    raise ConfigError(
                        f"schema {name} of {group}: added has {key!r} with {value!r}; expected a "
                        "field, with one value in all schemas of the group"
                    )
    return found


def schema_choices(group: str) -> dict[str, type]:
    """Return the schemas of a group by the names that defaults lists of YAML files use."""
    return {f"base_{name}": node for name, node in registered_schemas().get(group, {}).items()}


def fitting_choices(group: str, kind: Any) -> list[str]:
    """List the choices of a group whose schema fits a kind: their defaults name one that does."""
    schemas = schema_choices(group)
    found = {name for name, schema in schemas.items() if fits(group, schema, kind)}
    files = [path for conf in conf_dirs() for path in (conf / group).glob("*.yaml")]
    named = {
        path.stem: {str(name).partition("@")[0] for key, name in default_choices(path) if not key}
        for path in files
    }
    while more := {choice for choice in named if choice not in found and named[choice] & found}:
        found |= more
    return sorted(found - schemas.keys())


@cache
def _run_classes() -> dict[Any, type[RunConfig]]:
    """Map the classes of tasks to their run classes.

    Raises:
        ConfigError: two modules have a run class of the same task, or one has another object.
    """
    found: dict[Any, type[RunConfig]] = {}
    for module in _modules():
        declared = getattr(module, "RUNS", ())
        listed = declared if isinstance(declared, Iterable) else [declared]
        for run in listed:
            if not (isinstance(run, type) and issubclass(run, RunConfig)):
                raise ConfigError(
                    f"{module.__file__}: RUNS is {declared!r}; expected subclasses of RunConfig"
                )
            task = get_type_hints(run)["task"]
            if task in found:
                known = f"{found[task].__module__}.{found[task].__name__}"
                raise ConfigError(
                    f"{module.__name__}: {task.__name__} has the run class {known} already"
                )
            found[task] = run
    return found


@cache
def _modules() -> list[ModuleType]:
    """Import the modules of the package; one of an extension that fails is left out."""
    found = []
    for module in iter_modules(package.__path__):
        try:
            found.append(import_extension(f"{package.__name__}.{module.name}"))
        except ConfigError as error:  # what does not use it works
            _log.warning("%s; left out", error)
    return found


def run_class(task: Any) -> type[RunConfig]:
    """Return the run class for the class of a task; ``RunConfig`` if there is none."""
    return _run_classes().get(task, RunConfig)
