"""Curves over all runs of an experiment: what they are made of, and how their axes look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes

from repro.evaluation.metrics import metric_of
from repro.report.canvas import INK, MUTED_INK
from repro.results import ResultsError, RunFolder

Row = Mapping[str, Any]
COLOURS = ("#1f5f9e", "#c8502f", "#2f8f6b", "#7a4fa3", "#b8860b", "#555555")
LABEL_SIZE, TICK_SIZE = 9, 8


@dataclass(frozen=True)
class ShownRun:
    """A run of the experiment: its row and seed, the drawn metric's record, and its folder."""

    row: str
    seed: int
    value: float
    folder: RunFolder


@dataclass(frozen=True)
class Curve:
    """One curve: its name, the seed it was measured with, and its points."""

    label: str
    seed: int
    x: tuple[float, ...]
    y: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """As it is kept among the data of a figure."""
        return {"label": self.label, "seed": self.seed, "x": [*self.x], "y": [*self.y]}


def curves_of(row: Row) -> list[tuple[str, list[Curve]]]:
    """Read the data of a figure of curves.

    Args:
        row: ``metric`` and ``curves``, those of one label in a row.

    Returns:
        The curves of each label, by seed as they are kept.

    Raises:
        ResultsError: a key is missing, a curve has no point, or x and y differ in number.
    """
    try:
        found = [_curve(curve) for curve in row["curves"]]
        metric_label(row["metric"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ResultsError(f"curves: missing or malformed: {error}") from error
    if not found or not all(len(curve.x) == len(curve.y) > 0 for curve in found):
        raise ResultsError("curves: expected at least one, each with as many x as y")
    return [(label, list(group)) for label, group in groupby(found, key=lambda one: one.label)]


def metric_label(full_name: str) -> str:
    """``validation token accuracy (%)`` for ``dev/token_accuracy``."""
    split, name = full_name.split("/")[:2]
    unit = metric_of(full_name).unit
    words = f"{'validation' if split == 'dev' else split} {name.replace('_', ' ')}"
    return f"{words} ({unit})" if unit else words


def label_axes(axes: Axes, x: str, y: str) -> None:
    """Name both axes, in plain style; a blank name leaves an axis without one."""
    axes.set_xlabel(x, fontsize=LABEL_SIZE, color=INK)
    axes.set_ylabel(y, fontsize=LABEL_SIZE, color=INK)
    axes.tick_params(labelsize=TICK_SIZE, labelcolor=INK, color=MUTED_INK)
    axes.grid(color="#e3e8ec", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _curve(row: Row) -> Curve:
    return Curve(
        label=str(row["label"]),
        seed=int(row["seed"]),
        x=_numbers(row["x"]),
        y=_numbers(row["y"]),
    )


def _numbers(values: Sequence[Any]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
