"""Trees and heads with nonzero probability over training, as in Niculae et al. (2018), Figure 4."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullFormatter

from repro.report.figures.canvas import INK, Canvas, plain_axes
from repro.report.figures.kinds import Figure, FigureRuns, Row
from repro.results import ResultsError

Distribution = Sequence[tuple[float, int]]
"""Values and how often they occur, by increasing value."""

BOX = {"whislo": 0.05, "q1": 0.25, "med": 0.5, "q3": 0.75, "whishi": 0.95}
"""Quantiles that a box shows, by the keys of :meth:`Axes.bxp`."""
COLORS = {"training": "#b9b9b9", "validation": "#9dc1e0"}
"""Colors of the sets of sentences, in the order in which they are drawn."""
_PREFIXES = {"training": "training_", "validation": ""}
MEDIAN, EDGE = "#1f5f9e", "#5a6673"
WIDTH, PER_EPOCH, HEIGHT = 5.2, 0.28, 4.4


class SparsityOverTraining(Figure):
    """Box plots after each epoch: numbers of trees above, heads per word below.

    Boxes reach from the first to the third quartile, whiskers from 5 % to 95 % of the sentences.
    """

    reads = "folder"

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        history = runs.best.folder.read_history()
        rows = [row for row in history if "dev_trees_counts" in row]
        if not rows:
            raise ResultsError(f"run {runs.best.folder.run_id} kept no numbers of trees")
        found: dict[str, Any] = {"epochs": [row["epoch"] for row in rows]}
        for prefix in _PREFIXES.values():
            for name in ("trees", "parents"):
                key = f"dev_{prefix}{name}_counts"
                if all(key in row for row in rows):
                    found[f"{prefix}{name}"] = [row[key] for row in rows]
        return found

    def draw(self, data: Row) -> Canvas:
        canvas = Canvas(max(WIDTH, 1.2 + PER_EPOCH * len(data["epochs"])), HEIGHT)
        above, below = canvas.subplots(2, 1, sharex=True)
        _draw_boxes(above, data["epochs"], distributions(data, "trees"))
        _draw_boxes(below, data["epochs"], distributions(data, "parents"))
        above.set_yscale("log")
        above.yaxis.set_major_formatter("{x:g}")
        above.yaxis.set_minor_formatter(NullFormatter())
        plain_axes(above, y="trees")
        plain_axes(below, "epoch", "heads per word")
        patches = [
            Patch(facecolor=COLORS[name], edgecolor=EDGE, linewidth=0.6, label=f"{name} sentences")
            for name in distributions(data, "trees")
        ]
        above.legend(
            handles=patches, frameon=False, fontsize=8, labelcolor=INK, ncols=2, loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
        )  # fmt: skip
        canvas.tight_layout()
        return canvas

    def describe(self, data: Row) -> str:
        parents = distributions(data, "parents")
        parts = [
            f"{name} sentences, epoch {data['epochs'][n]}: median of {quantile(trees[n], 0.5):g} "
            f"trees and {quantile(parents[name][n], 0.5):g} heads per word"
            for name, trees in distributions(data, "trees").items()
            for n in (0, -1)
        ]
        return f"Box plots of the sparsity of SparseMAP solutions. {'; '.join(parts)}."

    def remark(self, data: Row) -> str:
        parts = []
        for name, trees in distributions(data, "trees").items():
            single = sum(count for value, count in trees[-1] if value == 1)
            total = sum(count for _, count in trees[-1])
            parts.append(f"{single} of {total} {name} sentences")
        return f"In the last epoch a single tree is left for {' and '.join(parts)}."


def distributions(data: Row, name: str) -> dict[str, list[Distribution]]:
    """Return the distributions of ``trees`` or ``parents`` by epoch, for each set of sentences."""
    return {
        which: [sorted((value, count) for value, count in one) for one in data[f"{prefix}{name}"]]
        for which, prefix in _PREFIXES.items()
        if f"{prefix}{name}" in data
    }


def box_of(distribution: Distribution) -> dict[str, Any]:
    """Return the statistics of a box plot for :meth:`Axes.bxp`."""
    return {**{name: quantile(distribution, share) for name, share in BOX.items()}, "fliers": []}


def quantile(distribution: Distribution, share: float) -> float:
    """Return the smallest value that at least this share of the observations do not exceed."""
    values, counts = np.transpose(distribution)
    return float(np.quantile(np.repeat(values, counts.astype(int)), share, method="inverted_cdf"))


def _draw_boxes(
    axes: Axes, epochs: Sequence[int], found: Mapping[str, Sequence[Distribution]]
) -> None:
    width = 0.7 / len(found)
    line = {"color": EDGE, "linewidth": 0.6}
    for number, (name, ours) in enumerate(found.items()):
        shift = width * (number - (len(found) - 1) / 2)
        axes.bxp(
            [box_of(one) for one in ours], positions=[epoch + shift for epoch in epochs],
            widths=0.85 * width, showfliers=False, patch_artist=True, manage_ticks=False,
            boxprops={"facecolor": COLORS[name], "edgecolor": EDGE, "linewidth": 0.6},
            whiskerprops=line, capprops=line, medianprops={"color": MEDIAN, "linewidth": 1.6},
        )  # fmt: skip
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


FIGURES = {"sparsity_over_training": SparsityOverTraining()}
