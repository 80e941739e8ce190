"""Columns of the training history of a run, as the charts of pages draw them."""

from collections import Counter
from math import isfinite
from typing import Any, NamedTuple

from repro.checksums import DamagedFileError
from repro.results import RunFolder

_COUNTERS = {"epoch": "epoch", "update": "step", "time": "seconds"}
"""Columns to plot against, by what charts call them."""


class History(NamedTuple):
    """Columns of a history: those to plot against, and those to plot, ``None`` if not measured."""

    x: dict[str, list[float]]
    y: dict[str, list[float | None]]


def history_of(folder: RunFolder) -> History:
    """Read the numbers of a history, losses first; empty if it is absent or damaged.

    Several validations of one epoch share it evenly.
    """
    try:
        rows = folder.read_history() if folder.history.exists() else []
    except DamagedFileError:
        rows = []
    rows = [row for row in rows if "step" in row]
    columns = {
        title: [float(row[key]) for row in rows]
        for title, key in _COUNTERS.items()
        if rows and all(key in row for row in rows)
    }
    if "epoch" in columns:
        number, seen = Counter(columns["epoch"]), Counter[float]()
        for place, epoch in enumerate(columns["epoch"]):
            seen[epoch] += 1
            columns["epoch"][place] = round(epoch - 1 + seen[epoch] / number[epoch], 4)
    names = {name: None for row in rows for name in row if name not in _COUNTERS.values()}
    order = sorted(names, key=lambda name: (not name.endswith("loss"), not name.startswith("dev_")))
    found = {name: [_number(row.get(name)) for row in rows] for name in order}
    return History(columns, {name: y for name, y in found.items() if any(v is not None for v in y)})


def _number(value: Any) -> float | None:
    measured = isinstance(value, int | float) and isfinite(value)
    return float(f"{value:.6g}") if measured else None
