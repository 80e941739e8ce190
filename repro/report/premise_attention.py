"""Attention of several runs over one premise, as in Niculae & Blondel (2017), Figures 3 and 6."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from repro.report.canvas import INK, MUTED_INK, drawable, new_figure
from repro.report.choice import OWN
from repro.report.compared_pairs import (
    ComparedPair,
    Row,
    check_sums,
    checked_weights,
    common_pairs,
    compared_pair,
    runs_remark,
)
from repro.report.strips import BAR_WIDTH, draw_bar, draw_strip
from repro.results import ResultsError

LONGEST = 24
WRONG = "#b3422d"
CELL, STRIP = 0.36, 0.27
LEFT, RIGHT, MARGIN = 1.0, 1.25, 0.15
TITLE, LETTER = 0.34, 0.068
BAR_GAP = 0.42


def gather_premises(
    kept: Mapping[str, Sequence[Row]], prefer: Sequence[str], count: int
) -> dict[str, Any]:
    """Choose pairs: with preferred hypotheses, else long premises that every run is right about.

    Premises of more than 24 words come last; ties go to the lowest index. No premise and no
    hypothesis is shown twice.

    Args:
        kept: rows of each run, by the label of the run.
        prefer: hypotheses, the first one first.
        count: how many pairs are shown, if there are so many.

    Raises:
        ResultsError: the runs kept no pair in common, or a row is malformed.
    """
    rows = common_pairs(kept)
    pairs = [compared_pair(row) for row in rows]
    order = sorted(range(len(pairs)), key=lambda number: _rank(pairs[number], prefer))
    chosen: list[int] = []
    for number in order:
        others = [pairs[place] for place in chosen]
        fresh = all(
            pairs[number].premise != o.premise and pairs[number].name != o.name for o in others
        )
        if fresh and len(chosen) < count:
            chosen.append(number)
    shown = [{**rows[n], OWN: pairs[n].place_in(prefer) < len(prefer)} for n in chosen]
    return {"index": shown[0]["index"], "pairs": shown}


def draw_premises(row: Row) -> Figure:
    """Draw every pair: a strip of weights for each run, the words of the premise below.

    Zeros are grey; a line separates neighbours only where their weights differ.

    Raises:
        ResultsError: the row is malformed or weights are no distribution.
    """
    pairs = _pairs(row)
    weights = [_weights(pair) for pair in pairs]
    scale = Normalize(0.0, max(w for one in weights for line in one.values() for w in line))
    heights = [_height(pair) for pair in pairs]
    width = LEFT + CELL * max(len(pair.premise) for pair in pairs) + RIGHT
    titles = max(MARGIN * 2 + 0.09 * len(_title(pair)) for pair in pairs)
    figure = new_figure(max(width, titles, LEFT + BAR_WIDTH + RIGHT), sum(heights) + BAR_GAP)
    top = sum(heights) + BAR_GAP
    for pair, lines, height in zip(pairs, weights, heights, strict=True):
        _draw_pair(figure, pair, lines, scale, top)
        top -= height
    draw_bar(figure, scale, LEFT, "weight (grey: exactly 0)")
    return figure


def describe_premises(row: Row) -> str:
    """The pairs and the words that each run attends to, in words."""
    parts = []
    for pair in _pairs(row):
        found = [
            f"{label}: {sum(w > 0 for w in line)} of {len(line)} words"
            for label, line in _weights(pair).items()
        ]
        premise, hypothesis = " ".join(pair.premise), " ".join(pair.hypothesis)
        parts.append(f"{premise!r} given {hypothesis!r} ({pair.gold}): {'; '.join(found)}")
    return f"Words of the premise with nonzero attention. {'. '.join(parts)}."


def remark_premises(row: Row) -> str:
    """Which runs are shown, and which of them are wrong."""
    return runs_remark(row, _pairs(row))


def _pairs(row: Row) -> list[ComparedPair]:
    pairs = [compared_pair(one) for one in row.get("pairs", [])]
    if not pairs:
        raise ResultsError("attention to premises: expected at least one pair")
    return pairs


def _weights(pair: ComparedPair) -> dict[str, list[float]]:
    lines = {}
    for label, panel in pair.panels.items():
        place = f"pair {pair.index}, {label}"
        (line,) = checked_weights([panel.get("weights")], 1, len(pair.premise), place)
        check_sums([sum(line)], place)
        lines[label] = line
    return lines


def _rank(pair: ComparedPair, prefer: Sequence[str]) -> tuple[int, ...]:
    length = len(pair.premise)
    fits = length <= LONGEST
    return (
        pair.place_in(prefer),
        not fits,
        len(pair.wrong),
        -length if fits else length,
        pair.index,
    )


def _height(pair: ComparedPair) -> float:
    words = LETTER * max(len(drawable(word)) for word in pair.premise)
    return TITLE + STRIP * len(pair.panels) + words + MARGIN


def _title(pair: ComparedPair) -> str:
    return drawable(f"{' '.join(pair.hypothesis)}   ({pair.gold})")


def _draw_pair(
    figure: Figure,
    pair: ComparedPair,
    lines: Mapping[str, Sequence[float]],
    scale: Normalize,
    top: float,
) -> None:
    width, height = figure.get_size_inches()
    bottom = top - TITLE - STRIP * len(lines)
    figure.text(
        MARGIN / width, (top - TITLE / 2) / height, _title(pair), fontsize=10, color=INK,
        va="center", parse_math=False,
    )  # fmt: skip
    box = (LEFT, bottom, CELL * len(pair.premise), STRIP * len(lines))
    axes = figure.add_axes(tuple(v / s for v, s in zip(box, (width, height) * 2, strict=True)))
    axes.set_xlim(0, len(pair.premise))
    axes.set_ylim(len(lines), 0)
    for y, (label, line) in enumerate(lines.items()):
        draw_strip(axes, y, line, scale)
        predicted = str(pair.panels[label]["predicted"])
        right = predicted == pair.gold
        axes.text(
            len(line) + 0.25, y + 0.5, predicted, fontsize=8, va="center",
            color=MUTED_INK if right else WRONG, parse_math=False,
        )  # fmt: skip
    _label_axes(axes, pair, list(lines))


def _label_axes(axes: Axes, pair: ComparedPair, labels: Sequence[str]) -> None:
    axes.tick_params(length=0, pad=3, labelcolor=INK, labelsize=9)
    words = [drawable(word) for word in pair.premise]
    axes.set_xticks([x + 0.5 for x in range(len(words))], words, rotation=90, parse_math=False)
    axes.set_yticks([y + 0.5 for y in range(len(labels))], labels, parse_math=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
