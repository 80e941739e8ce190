"""Trees and heads with nonzero probability over training, as in Niculae et al. (2018), Figure 4."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullFormatter

from repro.report.canvas import INK, MUTED_INK, new_figure
from repro.results import ResultsError, RunFolder

Distribution = Sequence[tuple[float, int]]
"""Values with how often they occur, by rising value."""

WHISKERS, QUARTILES = (0.05, 0.95), (0.25, 0.75)
COLOURS = {"training": "#b9b9b9", "validation": "#9dc1e0"}
"""Sets of sentences, in the order in which they are drawn."""
MEDIAN = "#1f5f9e"
WIDTH, PER_EPOCH, HEIGHT = 5.2, 0.28, 4.4


@dataclass(frozen=True)
class Counts:
    """Distributions over the sentences of a set, one for each validated epoch."""

    trees: tuple[Distribution, ...]
    parents: tuple[Distribution, ...]


@dataclass(frozen=True)
class SparsityHistory:
    """Distributions over training, by set of sentences; runs may lack the training sentences."""

    epochs: tuple[int, ...]
    sets: Mapping[str, Counts]


def read_sparsity(folder: RunFolder) -> list[dict[str, Any]]:
    """Sparsity of a run after each validated epoch: one row, or none if it was not measured."""
    rows = [row for row in folder.read_history() if "dev_trees_counts" in row]
    if not rows:
        return []
    found: dict[str, Any] = {"epochs": [row["epoch"] for row in rows]}
    for prefix in ("", "training_"):
        for name in ("trees", "parents"):
            key = f"dev_{prefix}{name}_counts"
            if all(key in row for row in rows):
                found[f"{prefix}{name}"] = [row[key] for row in rows]
    return [found]


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
        epochs = tuple(int(epoch) for epoch in row["epochs"])
        sets = {"validation": _counts(row, "")}
        if "training_trees" in row:
            sets["training"] = _counts(row, "training_")
    except (KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"sparsity over training: missing or malformed: {error}") from error
    lengths = {len(one.trees) for one in sets.values()} | {
        len(one.parents) for one in sets.values()
    }
    if not epochs or lengths != {len(epochs)}:
        raise ResultsError("sparsity over training: expected distributions for every epoch")
    return SparsityHistory(epochs, sets)


def draw_sparsity(row: Mapping[str, Any]) -> Figure:
    """Draw box plots after each epoch: numbers of trees above, heads per word below.

    Boxes reach from the first to the third quartile, whiskers from 5 % to 95 % of the sentences.

    Raises:
        ResultsError: the row is malformed.
    """
    history = sparsity_history(row)
    figure = new_figure(max(WIDTH, 1.2 + PER_EPOCH * len(history.epochs)), HEIGHT)
    above, below = figure.subplots(2, 1, sharex=True)
    _draw_boxes(above, history, {name: one.trees for name, one in history.sets.items()})
    _draw_boxes(below, history, {name: one.parents for name, one in history.sets.items()})
    above.set_yscale("log")
    above.yaxis.set_major_formatter("{x:g}")
    above.yaxis.set_minor_formatter(NullFormatter())
    above.set_ylabel("trees")
    below.set_ylabel("heads per word")
    below.set_xlabel("epoch")
    patches = [
        Patch(facecolor=colour, edgecolor=INK, linewidth=0.6, label=f"{name} sentences")
        for name, colour in COLOURS.items()
        if name in history.sets
    ]
    above.legend(
        handles=patches, frameon=False, fontsize=8, labelcolor=INK, ncols=2, loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
    )  # fmt: skip
    figure.tight_layout()
    return figure


def describe_sparsity(row: Mapping[str, Any]) -> str:
    """Medians of the first and the last epoch, in words."""
    history = sparsity_history(row)
    parts = [
        f"{name} sentences, epoch {history.epochs[n]}: median of {quantile(one.trees[n], 0.5):g} "
        f"trees and {quantile(one.parents[n], 0.5):g} heads per word"
        for name, one in history.sets.items()
        for n in (0, -1)
    ]
    return f"Box plots of the sparsity of SparseMAP solutions. {'; '.join(parts)}."


def remark_sparsity(row: Mapping[str, Any]) -> str:
    """How many sentences of the last epoch have a single tree."""
    parts = []
    for name, one in sparsity_history(row).sets.items():
        last = one.trees[-1]
        single = sum(count for value, count in last if value == 1)
        parts.append(f"{single} of {_total(last)} {name} sentences")
    return f"In the last epoch a single tree is left for {' and '.join(parts)}."


def box_of(distribution: Distribution) -> dict[str, Any]:
    """Median, quartiles and whiskers of a box, by the names of :meth:`Axes.bxp`."""
    low, high = (quantile(distribution, share) for share in WHISKERS)
    first, third = (quantile(distribution, share) for share in QUARTILES)
    median = quantile(distribution, 0.5)
    return {"whislo": low, "q1": first, "med": median, "q3": third, "whishi": high, "fliers": []}


def quantile(distribution: Distribution, share: float) -> float:
    """The smallest value that at least this share of the observations does not exceed."""
    reached, wanted = 0, share * _total(distribution)
    for value, count in distribution:
        reached += count
        if reached >= wanted:
            return value
    return distribution[-1][0]


def _draw_boxes(
    axes: Axes, history: SparsityHistory, found: Mapping[str, Sequence[Distribution]]
) -> None:
    width = 0.7 / len(found)
    names = [name for name in COLOURS if name in found]
    for number, name in enumerate(names):
        shift = width * (number - (len(names) - 1) / 2)
        axes.bxp(
            [box_of(one) for one in found[name]],
            positions=[epoch + shift for epoch in history.epochs],
            widths=0.85 * width, showfliers=False, patch_artist=True, manage_ticks=False,
            boxprops={"facecolor": COLOURS[name], "edgecolor": INK, "linewidth": 0.6},
            whiskerprops={"color": INK, "linewidth": 0.6},
            capprops={"color": INK, "linewidth": 0.6},
            medianprops={"color": MEDIAN, "linewidth": 1.6},
        )  # fmt: skip
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(labelsize=8, labelcolor=INK, color=MUTED_INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _counts(row: Mapping[str, Any], prefix: str) -> Counts:
    trees, parents = row[f"{prefix}trees"], row[f"{prefix}parents"]
    return Counts(tuple(map(_distribution, trees)), tuple(map(_distribution, parents)))


def _distribution(counts: Sequence[Sequence[float]]) -> Distribution:
    pairs = sorted((float(value), int(count)) for value, count in counts)
    if not pairs or min(count for _, count in pairs) < 1:
        raise ValueError("expected values with counts of at least one")
    return pairs


def _total(distribution: Distribution) -> int:
    return sum(count for _, count in distribution)
