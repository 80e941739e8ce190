"""Sweeps in the report: a table over the swept keys, curves or a heat map, and paired tests."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby, product
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from repro.evaluation.metrics import metric_of
from repro.report.cell import LEVEL, Cell, CellRunLink, run_link
from repro.report.charts import Chart, chart_of
from repro.report.figures.canvas import INK, Canvas, drawable, plain_axes, plain_style
from repro.report.figures.curves import draw_means, mark_values, metric_label
from repro.report.figures.styles import SERIES
from repro.report.grid import Grid, GridCell, GridColumn, block_rows, plain_grid
from repro.report.significance import TEST_TITLES, Comparer, comparison_texts
from repro.results import Archive, Measurement, Record, atomic_write_text, run_folder
from repro.results.cells import averaged, may_stand_together
from repro.results.labels import main_metric
from repro.results.sweeps import SEED, Sweep, sweep_path

_CURVE, _HEIGHT, _HEAT_CELL = 5.2, 3.4, 0.85


@dataclass(frozen=True)
class Point:
    """Combination of values of the swept keys, with its runs in order of seed and its cell.

    ``best`` says whether no other combination has a better mean.
    """

    values: tuple[str, ...]
    records: tuple[Record, ...]
    cell: Cell
    best: bool = False


@dataclass(frozen=True)
class SweepView:
    """Content of a sweep's section, independent of the output format."""

    sweep: Sweep  # name, axes, runs and command
    state: str  # text that says how many runs are done
    grids: tuple[Grid, ...]  # table over the swept keys
    details: tuple[Grid, ...]  # table of every metric, and the paired tests if there are any
    svg: Path | None  # file of the drawing; None if the axes cannot be drawn
    description: str  # alternative text of the drawing
    notes: tuple[str, ...]  # explanations of the metric and the marks
    finished: str = ""  # end of the last run, ISO 8601; blank if unknown
    best: CellRunLink | None = None  # the run with the best value, None if there is none
    charts: tuple[Chart, ...] = ()  # curves of training of each run whose folder is there


def sweep_view(archive: Archive, comparer: Comparer, sweep: Sweep) -> SweepView:
    """Lay out and draw a sweep; without finished runs there are no tables."""
    known = {record.run_id: record for record in archive.records}
    records = {run: known[run] for run in sweep.runs if run in known}
    state = f"{len(records)} of {len(sweep.runs)} runs done"
    if not records:
        axes = "; ".join(f"{key}: {', '.join(values)}" for key, values in sweep.axes.items())
        return SweepView(sweep, state, (), (), None, "", (axes,))
    metric = main_metric(next(iter(records.values())))
    points = _points(sweep, records, metric, comparer)
    words = [f"{_label(sweep, point)}: {point.cell.text}" for point in points if point.records]
    description = f"{metric_label(metric)}: {'; '.join(words)}."
    # A heat map if there are two axes, both numeric; curves if exactly one axis is numeric.
    numeric, svg = dict[str, list[float]](), None
    for key in sweep.keys:
        with suppress(ValueError):  # a value is not a number
            numeric[key] = [float(value) for value in sweep.axes[key]]
    with plain_style():
        canvas = None
        if len(sweep.keys) == len(numeric) == 2:
            canvas = _heat_map(sweep, points, metric)
        elif len(numeric) == 1:
            canvas = _curves(sweep, points, metric, *numeric)
        if canvas is not None:
            svg = sweep_path(archive.results_dir, sweep.scale, sweep.name, "svg")
            atomic_write_text(svg, canvas.svg(sweep.anchor, description))
    details = [_metrics_grid(sweep.keys, points)]
    compared = [(point, point.cell.comparison) for point in points]
    tests = [(*p.values, *comparison_texts(one)) for p, one in compared if one is not None]
    if tests:
        title = f"differences from {_label(sweep, points[0])}, paired tests"
        details.append(plain_grid(title, sweep.keys, TEST_TITLES, tests))
    found = [
        (value, run._replace(label=f"{_label(sweep, point)}, {run.label}"))
        for point in points
        for value, run in zip(point.cell.values, point.cell.runs, strict=True)
    ]
    charts = [
        chart_of(
            run_folder(archive.results_dir, sweep.scale, run),
            ", ".join(f"{key}={value}" for key, value in sweep.runs[run].items()),
        )
        for run in records
    ]
    pick = min if metric_of(metric).higher_is_better is False else max
    seeds = len(sweep.axes.get(SEED, [""]))
    spread = f"; mean ± sample standard deviation over {seeds} seeds" if seeds > 1 else ""
    return SweepView(
        sweep=sweep,
        state=state,
        grids=(_pivot(sweep, points, metric),),
        details=tuple(details),
        svg=svg,
        description=description,
        notes=(
            f"{metric}{spread}. Bold: best; * differs from the first combination "
            f"({_label(sweep, points[0])}): p < {LEVEL} by the paired test.",
        ),
        finished=max(record.finished for record in records.values()),
        best=pick(found)[1] if found else None,
        charts=tuple(chart for chart in charts if chart["y"]),
    )


def _points(
    sweep: Sweep, records: dict[str, Record], metric: str, comparer: Comparer
) -> list[Point]:
    """Build a point for each combination, compare it with the first one and mark the best."""
    found: dict[tuple[str, ...], list[Record]] = {
        values: [] for values in product(*(sweep.axes[key] for key in sweep.keys))
    }
    for run, record in records.items():
        found[tuple(sweep.runs[run][key] for key in sweep.keys)].append(record)
    wanted = max(1, len(sweep.runs) // len(found))  # a run may be at several points
    first = {one.seed: one for one in _measured(next(iter(found.values())), metric)}
    points: list[Point] = []
    for values, runs in found.items():
        runs.sort(key=lambda record: record.seed or 0)
        measured = _measured(runs, metric)
        pairs = [(one, first[one.seed]) for one in measured if one.seed in first]
        pairs = [pair for pair in pairs if may_stand_together(pair)]
        comparison = comparer.compare(pairs) if pairs and points else None
        cell = Cell(
            values=tuple(one.value for one in measured),
            wanted=wanted,
            digits=metric_of(metric).digits,
            comparison=comparison,
            runs=tuple(run_link(one, one.value, metric) for one in measured),
        )
        points.append(Point(values, tuple(runs), cell))
    means = [point.cell.mean for point in points if point.cell.mean is not None]
    higher = metric_of(metric).higher_is_better
    if higher is None or not means:
        return points
    best = max(means) if higher else min(means)
    return [replace(point, best=point.cell.mean == best) for point in points]


def _measured(runs: Sequence[Record], metric: str) -> list[Measurement]:
    """Return the values of a metric over which a mean is taken."""
    return averaged(Measurement.of(one, metric) for one in runs if metric in one.metrics)


def _pivot(sweep: Sweep, points: Sequence[Point], metric: str) -> Grid:
    """Build a grid with a column for each value of the last key if there are several keys."""
    wide = len(sweep.keys) > 1
    labels = sweep.keys[:-1] if wide else sweep.keys
    groups = groupby(points, lambda point: point.values[: len(labels)])  # the last varies fastest
    titles = [GridColumn(metric, "measured")]
    if wide:
        last = sweep.keys[-1]
        titles = [GridColumn(value, "measured", last) for value in sweep.axes[last]]
    lines = [
        [*map(GridCell, values), *(GridCell(p.cell.text, p.best, p.cell.runs) for p in group)]
        for values, group in groups
    ]
    columns = (*(GridColumn(key, "label") for key in labels), *titles)
    return Grid(metric, columns, block_rows(lines))


def _metrics_grid(keys: Sequence[str], points: Sequence[Point]) -> Grid:
    """List every metric of every combination, except those of single languages or labels."""
    names = sorted({name for p in points for one in p.records for name in one.metrics})
    names = [name for name in names if name.count("/") == 1]
    lines = []
    for point in points:
        texts = [*point.values]
        for name in names:
            values = tuple(one.value for one in _measured(point.records, name))
            texts.append(Cell(values, point.cell.wanted, metric_of(name).digits).text)
        lines.append([*map(GridCell, texts)])
    columns = [GridColumn(key, "label") for key in keys]
    columns += [GridColumn(name.split("/")[1], "measured", name.split("/")[0]) for name in names]
    return Grid("every metric", tuple(columns), block_rows(lines))


def _label(sweep: Sweep, point: Point) -> str:
    return ", ".join(f"{k}={v}" for k, v in zip(sweep.keys, point.values, strict=True)) or "all"


def _curves(sweep: Sweep, points: Sequence[Point], metric: str, key: str) -> Canvas:
    """Draw seeds, means and standard deviations; one curve per combination of other keys."""
    place = sweep.keys.index(key)
    groups: dict[str, list[tuple[float, tuple[float, ...]]]] = {}
    for point in points:
        rest = [v for number, v in enumerate(point.values) if number != place]
        if point.cell.values:
            x = float(point.values[place])
            groups.setdefault(", ".join(rest), []).append((x, point.cell.values))
    figure = Canvas(_CURVE, _HEIGHT)
    axes: Axes = figure.subplots()
    for number, (name, group) in enumerate(groups.items()):
        color = SERIES[number % len(SERIES)]
        xs, values = zip(*sorted(group), strict=True)
        draw_means(axes, xs, values, color, drawable(name))
    mark_values(axes, sorted({float(value) for value in sweep.axes[key]}))
    if len(groups) > 1:
        axes.legend(frameon=False, fontsize=8, labelcolor=INK)
    plain_axes(axes, drawable(key), metric_label(metric), grid=True)
    figure.tight_layout()
    return figure


def _heat_map(sweep: Sweep, points: Sequence[Point], metric: str) -> Canvas:
    """Draw means over the seeds as colors, with their values in the cells."""
    rows, columns = (sweep.axes[key] for key in sweep.keys)
    means = np.array([np.nan if p.cell.mean is None else p.cell.mean for p in points], np.float64)
    means = means.reshape(len(rows), len(columns))
    figure = Canvas(2.4 + _HEAT_CELL * len(columns), 1.2 + 0.55 * _HEAT_CELL * len(rows))
    axes: Axes = figure.subplots()
    image = axes.imshow(means, cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(columns)), columns, fontsize=8, color=INK)
    axes.set_yticks(range(len(rows)), rows, fontsize=8, color=INK)
    axes.set_ylabel(drawable(sweep.keys[0]), fontsize=9, color=INK)
    axes.set_xlabel(drawable(sweep.keys[1]), fontsize=9, color=INK)
    middle = (np.nanmin(means) + np.nanmax(means)) / 2
    digits = metric_of(metric).digits
    for (row, column), value in np.ndenumerate(means):
        if not np.isnan(value):
            ink = "#111111" if value > middle else "#fefefe"  # not INK: the shades are fixed
            text = f"{value:.{digits}f}"
            axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=8)
    bar = figure.colorbar(image, ax=axes)
    bar.set_label(metric_label(metric), fontsize=8, color=INK)
    bar.ax.tick_params(labelsize=8)
    figure.tight_layout()
    return figure
