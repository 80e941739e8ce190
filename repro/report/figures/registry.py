"""The kinds of figures by name, found in the modules of this package and of extensions."""

from functools import cache
from importlib import import_module
from pkgutil import walk_packages

from repro.report.figures.kinds import Figure
from repro.results import ResultsError

_PACKAGE = "repro.report.figures"


@cache
def figure_kinds() -> dict[str, Figure]:
    """Every kind of figure: the ``FIGURES`` of all modules of the package.

    Raises:
        ValueError: two modules claim the same name.
    """
    found: dict[str, Figure] = {}
    for module in walk_packages(import_module(_PACKAGE).__path__, f"{_PACKAGE}."):
        declared = getattr(import_module(module.name), "FIGURES", {})
        if twice := found.keys() & declared.keys():
            raise ValueError(f"{module.name}: figures {sorted(twice)} are registered twice")
        found |= declared
    return found


def figure_kind(name: str) -> Figure:
    """Look up a kind of figure.

    Raises:
        ResultsError: there is none of this name.
    """
    kinds = figure_kinds()
    if name not in kinds:
        raise ResultsError(f"no drawing {name!r}; choose from: {', '.join(sorted(kinds))}")
    return kinds[name]
