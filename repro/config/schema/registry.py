"""Registry of the schemas in the modules of the package: a new task only adds a module."""

import logging
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, NamedTuple, get_type_hints

import repro.config.schema as package
from repro.config.errors import ConfigError
from repro.config.loading import declared_name, default_choices
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


class Declarations(NamedTuple):
    """Declarations of a schema about its settings, in class variables of these names.

    Attributes:
        added: settings that were added to the schema, with what runs computed before: with this
            value a run keeps the identity that it had.
        unread: settings that do not say what is computed, such as what to keep for figures.
        unordered: lists of which the order changes nothing.
    """

    added: dict[str, Any]
    unread: frozenset[str]
    unordered: frozenset[str]


def declarations(group: str, name: object) -> Declarations:
    """Return the declarations for a group of a run, found by the ``name`` in it.

    They are those of the schema of this name, else of the schemas of the choices of this name; a
    group without names, as that of training, has those of all its schemas.

    Raises:
        ConfigError: a schema declares something of what is no field of it.
    """
    return _declarations(group, name if isinstance(name, str) else None)


@cache
def _declarations(group: str, name: str | None) -> Declarations:
    schemas, joint = registered_schemas().get(group, {}), Declarations({}, frozenset(), frozenset())
    for key, schema in schemas.items():
        own = Declarations(
            getattr(schema, "added", {}),
            frozenset(getattr(schema, "unread", ())),
            frozenset(getattr(schema, "unordered", ())),
        )
        named = {*own.added, *own.unread, *own.unordered}
        if unknown := sorted(named - {field.name for field in fields(schema)}):
            text = f"schema {key} of {group} declares {', '.join(unknown)}; expected fields"
            raise ConfigError(text)
        if name is None or name in schemas:
            chosen = name in (None, key)
        else:  # reads files
            choices = fitting_choices(group, schema) if named else ()
            chosen = any(declared_name(group, one) == name for one in choices)
        if chosen:
            joint = Declarations(
                joint.added | own.added, joint.unread | own.unread, joint.unordered | own.unordered
            )
    return joint


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
