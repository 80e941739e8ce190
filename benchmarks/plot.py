"""Plot of the ratios: one line for each row, one marker for each shape."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.measurement import Measurement
from benchmarks.rows import Row
from repro.atomic import atomic_path

_MARKERS = ("o", "s", "^", "D")
_KINDS = ("mapping", "loss")


def draw(path: Path, rows: Sequence[Row], measurements: Sequence[Measurement]) -> None:
    """Write the plot of the ratios as a PNG."""
    with atomic_path(path) as temporary:
        ratios(rows, measurements).savefig(temporary, format="png", dpi=120)


def ratios(rows: Sequence[Row], measurements: Sequence[Measurement]) -> Figure:
    """Draw a panel for each number of threads; targets are short vertical lines."""
    shown = [found for found in measurements if found.kind in _KINDS]
    threads = sorted({found.threads for found in shown})
    names = [row.name for row in rows if any(found.name == row.name for found in shown)]
    colors = {row.name: row.color for row in rows}
    figure = Figure(figsize=(5.5 * len(threads), 0.32 * len(names) + 1.6), layout="constrained")
    label = "time of forward and backward, softmax or cross-entropy = 1"
    figure.supxlabel(label, fontsize="medium")
    panels = figure.subplots(1, len(threads), sharey=True, squeeze=False)[0]
    for axes, count in zip(panels, threads, strict=True):
        chosen = [found for found in shown if found.threads == count]
        _panel(axes, names, colors, chosen)
        axes.set_title(f"threads: {count}")
    FigureCanvasAgg(figure)
    return figure


def _panel(
    axes: Axes, names: Sequence[str], colors: dict[str, str], measurements: Sequence[Measurement]
) -> None:
    shapes = list(dict.fromkeys(found.shape for found in measurements))
    for found in measurements:
        place = names.index(found.name)
        marker = _MARKERS[shapes.index(found.shape) % len(_MARKERS)]
        axes.plot(found.ratio, place, marker, color=colors[found.name], markersize=6)
        if found.target:
            axes.plot(found.target.limit, place, "|", color="black", markersize=14)
    for index, shape in enumerate(shapes):
        axes.plot([], [], _MARKERS[index % len(_MARKERS)], color="grey", label=shape)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.axvline(1.0, color="lightgrey", zorder=0)
    axes.legend(fontsize="small")
