"""Trees and heads with nonzero probability over training, as in Niculae et al. (2018), Figure 4."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from repro.report.canvas import INK, MUTED_INK, new_figure
from repro.results import ResultsError, RunFolder

Distribution = Sequence[tuple[float, int]]
"""Values with how often they occur, by rising value."""

BANDS = ((0.05, 0.95, "#dbe7f2"), (0.25, 0.75, "#9dc1e0"))
MEDIAN = "#1f5f9e"


@dataclass(frozen=True)
class SparsityHistory:
    """Distributions over validation sentences, one for each validated epoch."""

    epochs: tuple[int, ...]
    trees: tuple[Distribution, ...]
    parents: tuple[Distribution, ...]


def read_sparsity(folder: RunFolder) -> list[dict[str, Any]]:
    """What a run's history says about sparsity: one row, or none if it says nothing."""
    rows = [row for row in folder.read_history() if "dev_trees_counts" in row]
    if not rows:
        return []
    return [
        {
            "index": 0,
            "epochs": [row["epoch"] for row in rows],
            "trees": [row["dev_trees_counts"] for row in rows],
            "parents": [row["dev_parents_counts"] for row in rows],
        }
    ]


def choose_sparsity(rows: Sequence[Mapping[str, Any]], prefer: Sequence[str]) -> int:
    """The only row there is; a run has one history, so there is nothing to prefer.

    Raises:
        ResultsError: the run kept no such history, or names are preferred.
    """
    if not rows or prefer:
        raise ResultsError("the run kept no numbers of trees over training, or 'prefer' is set")
    return 0


def sparsity_history(row: Mapping[str, Any]) -> SparsityHistory:
    """Read the row of :func:`read_sparsity`.

    Raises:
        ResultsError: a key is missing or malformed.
    """
    try:
        history = SparsityHistory(
            epochs=tuple(int(epoch) for epoch in row["epochs"]),
            trees=tuple(_distribution(counts) for counts in row["trees"]),
            parents=tuple(_distribution(counts) for counts in row["parents"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"sparsity over training: missing or malformed: {error}") from error
    if not len(history.epochs) == len(history.trees) == len(history.parents) > 0:
        raise ResultsError("sparsity over training: expected distributions for every epoch")
    return history


def draw_sparsity(row: Mapping[str, Any]) -> Figure:
    """Draw medians and bands of 50 % and 90 % of the sentences for each epoch.

    Raises:
        ResultsError: the row is malformed.
    """
    history = sparsity_history(row)
    figure = new_figure(5.2, 4.4)
    above, below = figure.subplots(2, 1, sharex=True)
    _draw_bands(above, history.epochs, history.trees)
    above.set_yscale("log")
    above.set_ylabel("trees")
    _draw_bands(below, history.epochs, history.parents)
    below.set_ylabel("heads per word")
    below.set_xlabel("epoch")
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    below.legend(frameon=False, fontsize=8, labelcolor=INK, loc="upper right")
    figure.tight_layout()
    return figure


def describe_sparsity(row: Mapping[str, Any]) -> str:
    """Medians of the first and the last epoch, in words."""
    history = sparsity_history(row)
    ends = [
        f"epoch {history.epochs[n]}: median of {quantile(history.trees[n], 0.5):g} trees and "
        f"{quantile(history.parents[n], 0.5):g} heads per word"
        for n in (0, -1)
    ]
    return f"Sparsity of SparseMAP solutions on validation sentences. {'; '.join(ends)}."


def remark_sparsity(row: Mapping[str, Any]) -> str:
    """How many sentences of the last epoch have a single tree."""
    last = sparsity_history(row).trees[-1]
    single = sum(count for value, count in last if value == 1)
    return f"In the last epoch {single} of {_total(last)} sentences have a single tree."


def quantile(distribution: Distribution, share: float) -> float:
    """The smallest value that at least this share of the observations does not exceed."""
    reached, wanted = 0, share * _total(distribution)
    for value, count in distribution:
        reached += count
        if reached >= wanted:
            return value
    return distribution[-1][0]


def _draw_bands(axes: Axes, epochs: Sequence[int], found: Sequence[Distribution]) -> None:
    for low, high, colour in BANDS:
        lower, upper = ([quantile(one, share) for one in found] for share in (low, high))
        label = f"{100 * (high - low):.0f} % of the sentences"
        axes.fill_between(epochs, lower, upper, color=colour, linewidth=0, label=label)
    medians = [quantile(one, 0.5) for one in found]
    axes.plot(epochs, medians, color=MEDIAN, marker="o", markersize=3, label="median")
    axes.tick_params(labelsize=8, labelcolor=INK, color=MUTED_INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _distribution(counts: Sequence[Sequence[float]]) -> Distribution:
    pairs = sorted((float(value), int(count)) for value, count in counts)
    if not pairs or min(count for _, count in pairs) < 1:
        raise ValueError("expected values with counts of at least one")
    return pairs


def _total(distribution: Distribution) -> int:
    return sum(count for _, count in distribution)
