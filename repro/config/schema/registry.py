"""Registry of the schemas in the modules of the package: a new task only adds a module."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import cast, get_type_hints

import repro.config.schema as package
from repro.config.schema.run import RunConfig


@cache
def registered_schemas() -> dict[str, dict[str, type]]:
    """Collect the ``SCHEMAS`` of all modules of the package: group to name to dataclass.

    Raises:
        ValueError: two modules register the same name.
    """
    found: dict[str, dict[str, type]] = {}
    for module in iter_modules(package.__path__):
        declared = getattr(import_module(f"{package.__name__}.{module.name}"), "SCHEMAS", {})
        for group, options in declared.items():
            twice = found.setdefault(group, {}).keys() & options.keys()
            if twice:
                raise ValueError(
                    f"{module.name}: schemas {sorted(twice)} of {group} are registered twice"
                )
            found[group] |= options
    return found


@cache
def run_class(task: str) -> type[RunConfig]:
    """Return the run class for the class name of a task; ``RunConfig`` if there is none."""
    for module in iter_modules(package.__path__):
        for run in getattr(import_module(f"{package.__name__}.{module.name}"), "RUNS", ()):
            if get_type_hints(run)["task"].__name__ == task:
                return cast(type[RunConfig], run)
    return RunConfig


@cache
def schema_classes() -> dict[str, type]:
    """Map class names to the registered dataclasses."""
    every = [node for options in registered_schemas().values() for node in options.values()]
    return {node.__name__: node for node in every}
