"""A validation metric against the time of training, as in Peters et al. (2019), Figure 6."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from repro.report.canvas import INK, drawable, new_figure
from repro.report.curves import (
    COLOURS,
    TICK_SIZE,
    Curve,
    Row,
    ShownRun,
    curves_of,
    label_axes,
    metric_label,
)
from repro.results import ResultsError

MARKERS = "osD^vP"
UNITS = ((2 * 3600.0, 3600.0, "h"), (600.0, 60.0, "min"), (0.0, 1.0, "s"))
"""From so many seconds on, the seconds of a unit, and its sign."""
WIDTH, HEIGHT = 6.4, 4.2


def gather_times(runs: Sequence[ShownRun], metric: str) -> dict[str, Any]:
    """One curve for each run: the metric of every validation by the seconds of training.

    Args:
        runs: with their histories.
        metric: of each validation, for example ``dev/token_accuracy``.

    Raises:
        ResultsError: a history lacks the metric or the seconds.
    """
    key = metric.replace("/", "_")
    curves = []
    for run in runs:
        rows = [row for row in run.folder.read_history() if key in row]
        if not rows or any("seconds" not in row for row in rows):
            raise ResultsError(f"{run.folder.history}: expected rows with {key!r} and 'seconds'")
        points = [(float(row["seconds"]), float(row[key])) for row in rows]
        curves.append(Curve(run.row, run.seed, *zip(*points, strict=True)))
    return {"metric": metric, "curves": [curve.to_dict() for curve in curves]}


def draw_times(row: Row) -> Figure:
    """Draw a colour for each row; its first seed has markers, one for each validation.

    Raises:
        ResultsError: the row is malformed.
    """
    groups = curves_of(row)
    size, unit = _unit(max(curve.x[-1] for _, curves in groups for curve in curves))
    figure = new_figure(WIDTH, HEIGHT)
    axes = figure.subplots()
    for number, (label, (first, *others)) in enumerate(groups):
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        axes.plot(
            [x / size for x in first.x], first.y, color=colour, linewidth=1.2, marker=marker,
            markersize=3.5, label=drawable(label),
        )  # fmt: skip
        for curve in others:
            axes.plot([x / size for x in curve.x], curve.y, color=colour, linewidth=0.9, alpha=0.5)
    axes.set_xlim(left=0)
    label_axes(axes, f"training time without validation ({unit})", metric_label(row["metric"]))
    axes.legend(frameon=False, fontsize=TICK_SIZE, labelcolor=INK)
    figure.tight_layout()
    return figure


def describe_times(row: Row) -> str:
    """The last point of every curve, in words."""
    parts = [
        f"{curve.label} (seed {curve.seed}): {curve.y[-1]:.2f} after {curve.x[-1]:.3g} s and "
        f"{len(curve.x)} validations"
        for _, curves in curves_of(row)
        for curve in curves
    ]
    return f"Curves of {metric_label(row['metric'])} over training time. {'; '.join(parts)}."


def remark_times(row: Row) -> str:
    """The time between two validations of the first seed of each row, and other seeds if drawn."""
    times = [f"{label} {first.x[-1] / len(first.x):.3g} s" for label, (first, *_) in curves_of(row)]
    several = any(others for _, (_, *others) in curves_of(row))
    thin = " Further seeds are thin lines." if several else ""
    return f"Mean training time between validations: {', '.join(times)}.{thin}"


def _unit(longest: float) -> tuple[float, str]:
    return next((size, unit) for least, size, unit in UNITS if longest >= least)
