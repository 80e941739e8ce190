"""A metric against α, as in Peters et al. (2019), Figure 4."""

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from matplotlib.axes import Axes
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

PANEL, HEIGHT, LEFT = 3.5, 3.3, 0.9


def gather_sweep(runs: Sequence[ShownRun], metric: str) -> dict[str, Any]:
    """One curve for each name and seed.

    Args:
        runs: the label of a row is the name of its curve and a value of α, as in ``output 1.5``.
        metric: of which the runs have the values.

    Raises:
        ResultsError: a label is not a name and a number.
    """
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for run in runs:
        name, alpha = _name_and_alpha(run.row)
        found.setdefault((name, run.seed), []).append((alpha, run.value))
    names = dict.fromkeys(name for name, _ in found)
    ordered = [key for name in names for key in found if key[0] == name]
    curves = [Curve(*key, *zip(*sorted(found[key]), strict=True)) for key in ordered]
    return {"metric": metric, "curves": [curve.to_dict() for curve in curves]}


def draw_sweep(row: Row) -> Figure:
    """Draw a panel for each name: points of the seeds, their mean, and its standard deviation.

    Raises:
        ResultsError: the row is malformed.
    """
    panels = curves_of(row)
    figure = new_figure(LEFT + PANEL * len(panels), HEIGHT)
    found = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for number, (axes, (name, curves)) in enumerate(zip(found, panels, strict=True)):
        _draw_spread(axes, curves, COLOURS[number % len(COLOURS)])
        y = metric_label(row["metric"]) if number == 0 else ""
        label_axes(axes, drawable(f"α of the {name}"), y)
        axes.legend(frameon=False, fontsize=TICK_SIZE, labelcolor=INK)
    figure.tight_layout()
    return figure


def describe_sweep(row: Row) -> str:
    """The mean of every point, in words."""
    parts = []
    for name, curves in curves_of(row):
        points = [f"{alpha:g}: {fmean(values):.2f}" for alpha, values in _by_alpha(curves)]
        parts.append(f"α of the {name}: {'; '.join(points)}")
    return f"Curves of {metric_label(row['metric'])}. {'. '.join(parts)}."


def remark_sweep(row: Row) -> str:
    """Where each curve is highest, and what is drawn of several seeds."""
    best = []
    for name, curves in curves_of(row):
        alpha, values = max(_by_alpha(curves), key=lambda point: fmean(point[1]))
        best.append(f"{name} α = {alpha:g} ({fmean(values):.2f})")
    several = any(len(curves) > 1 for _, curves in curves_of(row))
    spread = " Lines are means, bands one standard deviation on either side." if several else ""
    return f"Largest here: {', '.join(best)}.{spread}"


def _name_and_alpha(label: str) -> tuple[str, float]:
    name, _, value = label.rpartition(" ")
    try:
        return name, float(value)
    except ValueError:
        raise ResultsError(f"row {label!r}: expected a name and a number") from None


def _by_alpha(curves: Sequence[Curve]) -> list[tuple[float, list[float]]]:
    """Each α with the values of all seeds that have it."""
    found: dict[float, list[float]] = {}
    for curve in curves:
        for alpha, value in zip(curve.x, curve.y, strict=True):
            found.setdefault(alpha, []).append(value)
    return sorted(found.items())


def _draw_spread(axes: Axes, curves: Sequence[Curve], colour: str) -> None:
    alphas, values = zip(*_by_alpha(curves), strict=True)
    means = [fmean(each) for each in values]
    for curve in curves:
        axes.plot(curve.x, curve.y, "o", color=colour, markersize=3.5, alpha=0.5)
    several = len(curves) > 1
    label = f"mean of {len(curves)} seeds" if several else f"seed {curves[0].seed}"
    axes.plot(alphas, means, color=colour, linewidth=1.4, label=label)
    if several:
        spread = [stdev(each) if len(each) > 1 else 0.0 for each in values]
        low = [mean - one for mean, one in zip(means, spread, strict=True)]
        high = [mean + one for mean, one in zip(means, spread, strict=True)]
        axes.fill_between(
            alphas, low, high, color=colour, alpha=0.18, linewidth=0, label="± standard deviation"
        )
