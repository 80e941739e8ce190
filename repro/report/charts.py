"""Training curves as data for charts, which ``charts.js`` draws."""

from math import isfinite
from typing import Any

from repro.checksums import DamagedFileError
from repro.results import RunFolder

Chart = dict[str, Any]
_COUNTERS = {"epoch": "epoch", "update": "step", "time": "seconds"}
"""Names of the x axes in charts, and the history columns that they show."""


def chart_of(folder: RunFolder, label: str, page: str | None = None) -> Chart:
    """Collect the curves of a run; there are none if its history is absent or damaged.

    Returns:
        ``id``, ``label`` in a legend, address of its ``page``, and columns by name: ``x`` to plot
        against, ``y`` to plot, losses first, None where nothing was measured.
    """
    try:
        rows = folder.read_history() if folder.history.exists() else []
    except DamagedFileError:
        rows = []
    x = {
        title: [row[key] for row in rows]
        for title, key in _COUNTERS.items()
        if rows and all(key in row for row in rows)
    }
    names = dict.fromkeys(n for row in rows for n in row if n not in _COUNTERS.values())
    order = sorted(names, key=lambda name: (not name.endswith("loss"), not name.startswith("dev_")))
    y = {name: [_number(row.get(name)) for row in rows] for name in order}
    y = {name: column for name, column in y.items() if any(one is not None for one in column)}
    return {"id": folder.run_id, "label": label, "page": page, "x": x, "y": y}


def _number(value: Any) -> float | None:
    measured = isinstance(value, int | float) and isfinite(value)
    return float(f"{value:.6g}") if measured else None
