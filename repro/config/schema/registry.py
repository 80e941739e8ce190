"""Registry of the schemas in the modules of the package: a new task only adds a module."""

from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, get_args, get_type_hints

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
def _run_classes() -> dict[Any, type[RunConfig]]:
    """Map the classes of tasks to their run classes."""
    modules = (
        import_module(f"{package.__name__}.{one.name}") for one in iter_modules(package.__path__)
    )
    return {get_type_hints(run)["task"]: run for one in modules for run in getattr(one, "RUNS", ())}


def run_class(task: Any) -> type[RunConfig]:
    """Return the run class for the class of a task; ``RunConfig`` if there is none."""
    return _run_classes().get(task, RunConfig)


@cache
def schema_classes() -> dict[str, type]:
    """Map class names to the registered dataclasses, and to those of their fields."""
    found = dict[str, type]()
    rest = [node for options in registered_schemas().values() for node in options.values()]
    while rest:
        node = rest.pop()
        if node.__name__ not in found:
            found[node.__name__] = node
            types = [
                kind for hint in get_type_hints(node).values() for kind in (hint, *get_args(hint))
            ]
            rest += [kind for kind in types if is_dataclass(kind) and isinstance(kind, type)]
    return found
