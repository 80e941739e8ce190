"""Figures that show the library itself: what each one computes and how it is drawn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from repro.report.library import (
    bounded_rounds,
    entmax_curves,
    map_surfaces,
    max_operators,
    polytopes,
    solver_race,
)
from repro.results import ResultsError


@dataclass(frozen=True)
class LibraryDrawing:
    """One figure of the library.

    Attributes:
        compute: the values, as JSON can hold them; the same in every call but for what is measured.
        draw: the figure of the values.
        description: the figure in words, for those who cannot see it.
        measured: keys of values that are measured, such as times: they differ between calls.
    """

    compute: Callable[[], dict[str, Any]]
    draw: Callable[[Mapping[str, Any]], Figure]
    description: str
    measured: tuple[str, ...] = ()


LIBRARY = {
    "entmax_curves": LibraryDrawing(
        entmax_curves.compute, entmax_curves.draw, entmax_curves.DESCRIPTION
    ),
    "max_operators": LibraryDrawing(
        max_operators.compute, max_operators.draw, max_operators.DESCRIPTION
    ),
    "map_surfaces": LibraryDrawing(
        map_surfaces.compute, map_surfaces.draw, map_surfaces.DESCRIPTION
    ),
    "bounded_rounds": LibraryDrawing(
        bounded_rounds.compute, bounded_rounds.draw, bounded_rounds.DESCRIPTION
    ),
    "polytopes": LibraryDrawing(polytopes.compute, polytopes.draw, polytopes.DESCRIPTION),
    "solver_race": LibraryDrawing(
        solver_race.compute, solver_race.draw, solver_race.DESCRIPTION, solver_race.MEASURED
    ),
}


def library_drawing(name: str) -> LibraryDrawing:
    """Look up a figure of the library.

    Raises:
        ResultsError: there is none of this name.
    """
    if name not in LIBRARY:
        raise ResultsError(f"no drawing {name!r} of the library; choose from: {', '.join(LIBRARY)}")
    return LIBRARY[name]
