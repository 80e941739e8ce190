"""Curves over all runs of an experiment, as in Peters et al. (2019), Figures 4 and 6."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby
from statistics import fmean, stdev
from typing import Any, ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from repro.config.experiment import ROW_SEPARATOR
from repro.evaluation.metrics import metric_of
from repro.report.figures.canvas import INK, PAPER, Canvas, drawable, plain_axes, text_width
from repro.report.figures.kinds import Figure, FigureRun, FigureRuns, Row
from repro.report.figures.styles import SERIES, Style, lines_of, style_of
from repro.results import ResultsError

FIXED = 1.5
"""Value of α of the output while that of the attention varies, and vice versa."""
PANEL, HEIGHT, LEFT = 3.5, 3.3, 0.9
UNITS = ((2 * 3600.0, 3600.0, "h"), (600.0, 60.0, "min"), (0.0, 1.0, "s"))
"""Units of time: least duration in seconds for which one is used, its seconds, its symbol."""
TIMES, BEHIND = (6.4, 4.2), 0.3
"""Size of curves over time in inches; room behind their longest line, as a share of it."""
LINE, AWAY = 10.0, 7.0
"""Height of the label of a line, and its distance from the end, in points."""
CLOSE = 0.07
"""Least distance between ticks with a label of their own, as a share of the axis."""
ACRONYMS = ("bleu", "meteor", "rep", "drop", "uas")
"""Names of metrics that are written in capitals."""


class AlphaSweep(Figure):
    """Panels of a metric against the α of the attention and against that of the output.

    Points are seeds. With several at every α a line shows their mean, a band their deviation.
    """

    reads = "records"
    shows: ClassVar[str] = "all runs"

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        alphas = [(run, _alpha(run, "mapping"), _alpha(run, "loss")) for run in runs.every]
        panels = {
            "attention": [(run, varied) for run, varied, fixed in alphas if fixed == FIXED],
            "output": [(run, varied) for run, fixed, varied in alphas if fixed == FIXED],
        }
        curves = []
        for label, found in panels.items():
            for seed in sorted({run.seed for run, _ in found}):
                points = {alpha: run.value for run, alpha in found if run.seed == seed}
                x, y = zip(*sorted(points.items()), strict=True)
                curves.append({"label": label, "seed": seed, "x": [*x], "y": [*y]})
        if not curves:
            raise ResultsError(f"no run has an α of {FIXED} for attention or output")
        return {"metric": runs.metric, "curves": curves}

    def draw(self, data: Row) -> Canvas:
        panels = curves_of(data)
        canvas = Canvas(LEFT + PANEL * len(panels), HEIGHT)
        found = canvas.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        said = set[str]()
        for number, (axes, (name, curves)) in enumerate(zip(found, panels.items(), strict=True)):
            color = style_of("entmax").color
            alphas, values = zip(*by_alpha(curves), strict=True)
            # A curve of single runs would show their spread as a shape.
            least = min(map(len, values))
            label = f"mean ± standard deviation of {least} seeds"
            label = label if least > 1 else "mean; one seed at some α"
            draw_means(axes, alphas, values, color, label, connected=least > 1)
            y = metric_label(data["metric"]) if number == 0 else ""
            plain_axes(axes, drawable(f"α of the {name}"), y, grid=True)
            mark_values(axes, alphas)
            if label not in said:
                axes.legend(frameon=False, fontsize=8, labelcolor=INK)
            said.add(label)
        canvas.tight_layout()
        return canvas

    def describe(self, data: Row) -> str:
        parts = []
        for name, curves in curves_of(data).items():
            points = [f"{alpha:g}: {fmean(values):.2f}" for alpha, values in by_alpha(curves)]
            parts.append(f"α of the {name}: {'; '.join(points)}")
        return f"Curves of {metric_label(data['metric'])}. {'. '.join(parts)}."

    def remark(self, data: Row) -> str:
        best, panels = [], curves_of(data)
        for name, curves in panels.items():
            alpha, values = max(by_alpha(curves), key=lambda point: fmean(point[1]))
            best.append(f"{name} α = {alpha:g} ({fmean(values):.2f})")
        remark = f"Largest here: {', '.join(best)}."
        if any(len(values) > 1 for curves in panels.values() for _, values in by_alpha(curves)):
            remark += " Dots are seeds, lines their means, bands, if any, one standard deviation "
            remark += "on either side."
        return remark


class AccuracyOverTime(Figure):
    """Curves of a validation metric against training time, one color for each mapping.

    The first seed of each row has markers, one for each validation.
    """

    reads = "folder"
    shows: ClassVar[str] = "all runs"

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        key = runs.metric.replace("/", "_")
        curves = []
        for run in runs.every:
            rows = [row for row in run.folder.read_history() if key in row]
            if not rows or any("seconds" not in row for row in rows):
                raise ResultsError(
                    f"{run.folder.history}: expected rows with {key!r} and 'seconds'"
                )
            # The first update compiles kernels, which can take minutes if nothing is cached.
            progress = run.folder.read_training().get("progress", {})
            warm_up = float(progress.get("warm_up", {}).get("seconds", 0.0))
            curves.append(
                {
                    "label": run.row,
                    "seed": run.seed,
                    "mapping": run.mapping,
                    "alpha": _alpha(run, "mapping"),
                    "warm_up": warm_up,
                    "x": [max(float(row["seconds"]) - warm_up, 0.0) for row in rows],
                    "y": [float(row[key]) for row in rows],
                }
            )
        return {"metric": runs.metric, "curves": curves}

    def draw(self, data: Row) -> Canvas:
        groups = curves_of(data)
        longest = max(curve["x"][-1] for curve in data["curves"])
        size, unit = next((size, unit) for least, size, unit in UNITS if longest >= least)
        looks = {
            label: style_of(first.get("mapping") or "entmax", first.get("alpha"))
            for label, (first, *_) in groups.items()
        }
        styles = lines_of(looks)
        canvas = Canvas(*TIMES)
        axes = canvas.subplots()
        for label, (first, *others) in groups.items():
            line = {"color": styles[label].color, "linestyle": styles[label].dashes}
            axes.plot(
                [x / size for x in first["x"]], first["y"], **line, linewidth=1.2,
                marker=styles[label].marker, markersize=3.5, label=drawable(label),
            )  # fmt: skip
            for curve in others:
                axes.plot([x / size for x in curve["x"]], curve["y"], **line, lw=0.9, alpha=0.5)
        axes.set_xlim(0, (1 + BEHIND) * longest / size)
        x = f"training time without validation ({unit})"
        plain_axes(axes, x, metric_label(data["metric"]), grid=True)
        canvas.tight_layout()
        ends = {
            label: (first["x"][-1] / size, first["y"][-1]) for label, (first, *_) in groups.items()
        }
        _label_ends(axes, ends, styles)
        return canvas

    def describe(self, data: Row) -> str:
        parts = [
            f"{one['label']} (seed {one['seed']}): {one['y'][-1]:.2f} after {one['x'][-1]:.3g} s "
            f"and {len(one['x'])} validations"
            for one in data["curves"]
        ]
        return f"Curves of {metric_label(data['metric'])} over training time. {'; '.join(parts)}."

    def remark(self, data: Row) -> str:
        groups = curves_of(data)
        times = [
            f"{label} {first['x'][-1] / len(first['x']):.3g} s"
            for label, (first, *_) in groups.items()
        ]
        remark = f"Mean training time between validations: {', '.join(times)}."
        if longest := max(curve.get("warm_up", 0.0) for curve in data["curves"]):
            update = f"The first update of each run (up to {longest:.3g} s)"
            remark += f" {update}, which compiles kernels, is not counted."
        if any(len(curves) > 1 for curves in groups.values()):
            remark += " Further seeds are thin lines without markers."
        return remark


class GapOverTraining(Figure):
    """Validation accuracy of softmax minus that of sparsemax, and words attended to, by updates.

    The first part of a row's label names its curve; both mappings are validated at equal updates.
    """

    reads = "folder"
    shows: ClassVar[str] = "all runs"

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        curves = []
        for run in runs.every:
            rows = [row for row in run.folder.read_history() if "dev_attention_nonzeros" in row]
            if not rows:
                raise ResultsError(f"{run.folder.history}: expected counts of nonzero attention")
            curves.append(
                {
                    "label": run.row.split(ROW_SEPARATOR)[0],
                    "seed": run.seed,
                    "mapping": run.mapping,
                    "x": [int(row["step"]) for row in rows],
                    "y": [float(row[runs.metric.replace("/", "_")]) for row in rows],
                    "attended": [float(row["dev_attention_nonzeros"]) for row in rows],
                }
            )
        return {"metric": runs.metric, "curves": curves}

    def draw(self, data: Row) -> Canvas:
        canvas = Canvas(LEFT + 2 * PANEL, HEIGHT)
        left, right = canvas.subplots(1, 2)
        for number, (label, gap, sparse) in enumerate(_gaps(data)):
            line = {"color": SERIES[number % len(SERIES)], "linewidth": 1.2, "marker": "o"}
            left.plot(sparse["x"], gap, **line, markersize=3, label=drawable(label))
            right.plot(sparse["x"], sparse["attended"], **line, markersize=3)
        left.axhline(0, color=INK, linewidth=0.6)
        plain_axes(left, "updates", "softmax − sparsemax (points)", grid=True)
        plain_axes(right, "updates", "words attended to", grid=True)
        left.legend(frameon=False, fontsize=8, labelcolor=INK)
        canvas.tight_layout()
        return canvas

    def describe(self, data: Row) -> str:
        parts = [
            f"{label}: gap {gap[0]:.2f}, in the end {gap[-1]:.2f} points, "
            f"{sparse['attended'][-1]:.2f} words attended to after {sparse['x'][-1]} updates"
            for label, gap, sparse in _gaps(data)
        ]
        return f"Curves of {metric_label(data['metric'])} over updates. {'; '.join(parts)}."


def _gaps(data: Row) -> Iterator[tuple[str, list[float], Row]]:
    """Yield label, gap and the curve of sparsemax of each protocol that has both mappings."""
    for label, curves in curves_of(data).items():
        first = {curve["mapping"]: curve for curve in reversed(curves)}  # of the first seed
        if {"softmax", "sparsemax"} <= first.keys():
            pairs = zip(first["softmax"]["y"], first["sparsemax"]["y"], strict=True)
            yield label, [soft - sparse for soft, sparse in pairs], first["sparsemax"]


def _label_ends(
    axes: Axes, ends: Mapping[str, tuple[float, float]], styles: Mapping[str, Style]
) -> None:
    """Write labels behind the ends of lines, or draw a legend where labels would overlap."""
    boxes = []  # left, right and middle in points
    for label, end in ends.items():
        x, y = (float(one) * 72 / axes.figure.dpi for one in axes.transData.transform(end))
        boxes.append((x, x + AWAY + 72 * text_width(label, 8), y))
    if any(
        left < other_right and other_left < right and abs(y - other) < LINE
        for (left, right, y), (other_left, other_right, other) in combinations(boxes, 2)
    ):
        axes.legend(frameon=False, fontsize=8, labelcolor=INK, handlelength=4)
        return
    for label, end in ends.items():
        axes.annotate(
            drawable(label), end, (AWAY, 0), textcoords="offset points", fontsize=8,
            va="center", color=styles[label].color,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.5},
        )  # fmt: skip


def mark_values(axes: Axes, values: Sequence[float]) -> None:
    """Put a tick at each value if their labels fit, else at integers if all values are some."""
    if min(np.diff(values), default=1.0) >= CLOSE * (values[-1] - values[0]):
        axes.set_xticks(values, [f"{value:g}" for value in values])
    elif all(float(value).is_integer() for value in values):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def draw_means(
    axes: Axes,
    x: Sequence[float],
    values: Sequence[Sequence[float]],
    color: str,
    label: str,
    connected: bool = True,
) -> None:
    """Draw the values at each ``x`` as dots, a line through their means, and a band around it.

    The band shows one standard deviation on either side; there is none if all values are equal.
    Means that are not ``connected`` are short lines, without a band.
    """
    means = [fmean(each) for each in values]
    line = {"linewidth": 1.4} if connected else {"linestyle": "", "marker": "_", "markersize": 12}
    axes.plot(x, means, color=color, label=label, **line)
    for place, each in zip(x, values, strict=True):
        axes.plot([place] * len(each), each, "o", color=color, markersize=3.5, alpha=0.5)
    spread = [stdev(each) if len(each) > 1 else 0.0 for each in values]
    if connected and any(spread):
        low, high = np.subtract(means, spread), np.add(means, spread)
        axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)


def curves_of(data: Row) -> dict[str, list[Row]]:
    """Group curves by label; those of one label are adjacent in the data, sorted by seed."""
    groups = groupby(data["curves"], key=lambda curve: str(curve["label"]))
    return {label: [*curves] for label, curves in groups}


def by_alpha(curves: Sequence[Row]) -> list[tuple[float, list[float]]]:
    """Return each α, ascending, with the values of all seeds that have it."""
    found: dict[float, list[float]] = {}
    for curve in curves:
        for alpha, value in zip(curve["x"], curve["y"], strict=True):
            found.setdefault(alpha, []).append(value)
    return sorted(found.items())


def metric_label(full_name: str) -> str:
    """Return the axis label: ``validation token accuracy (%)`` for ``dev/token_accuracy``."""
    split, name = full_name.split("/")[:2]
    unit = metric_of(full_name).unit
    first, *rest = name.split("_")
    first = first.upper() if first in ACRONYMS else first
    words = " ".join(["validation" if split == "dev" else split, first, *rest])
    return f"{words} ({unit})" if unit else words


def _alpha(run: FigureRun, group: str) -> float | None:
    """Return the α of a run's ``mapping`` or ``loss``; None if it has none."""
    settings: Mapping[str, Any] = run.config.get(group) or {}
    return None if settings.get("alpha") is None else float(settings["alpha"])


FIGURES = {
    "alpha_sweep": AlphaSweep(),
    "accuracy_over_time": AccuracyOverTime(),
    "gap_over_training": GapOverTraining(),
}
