"""Layout of heat maps: blocks of panels below their titles, above one color bar."""

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes

from repro.report.figures.canvas import MARGIN, MUTED_INK, Canvas, drawable, in_lines, text_width
from repro.report.figures.heatmap import (
    FOOT,
    Panel,
    bar_room,
    clusters,
    draw_bar,
    draw_heatmap,
    room,
)

WIDEST = 11.0
"""Width of the page in inches."""
TITLE_LINE, TITLE_SIZE, LABEL, GAP = 0.19, 9, 0.22, 0.16


class Block:
    """Layout of the panels below one title; all lengths are in inches.

    Panels are side by side, in as many rows as the width of the page requires. The words of the
    columns are written below a row of panels unless the next row has the same, those of the rows
    only once if all panels have the same.

    Attributes:
        panels: heat map of each run.
        width: width of all columns, with margins.

    Args:
        title: text above the panels.
        panels: heat map of each run.
        finish: adds marks to the axes of a panel.
        across: number of panels in a row; 0 for as many as fit.
        head: height of what ``finish`` writes between label and heat map.
        beside: width of what ``finish`` writes on the right of a heat map.
    """

    def __init__(
        self,
        title: str,
        panels: Sequence[Panel],
        finish: Callable[[Panel, Axes], None] = lambda _panel, _axes: None,
        *,
        across: int = 0,
        head: float = 0.0,
        beside: float = 0.0,
    ) -> None:
        self.panels, self._text, self._finish, self._head = panels, title, finish, head
        self._once = len({(*panel.output,) for panel in panels if panel.weights}) == 1
        self._left = room([word for panel in panels for word in panel.output])
        # Width of a column with the gap behind it.
        self._step = max(panel.cell[0] * len(panel.columns) for panel in panels) + beside + GAP
        self._step += 0 if self._once else self._left
        # Panels per row, chosen so that rows have almost equally many.
        fitting = max(1, int((WIDEST - MARGIN) / self._step))
        self._across = across or math.ceil(len(panels) / math.ceil(len(panels) / fitting))
        if len(panels) == 3 and self._across == 2 and not across:
            self._across = 1  # no hole beside the third
        self.width = MARGIN + self._step * self._across + (self._left if self._once else 0)
        # For each row: space above its maps, whether its columns have words, height.
        self._rows: list[tuple[float, bool, float]] = []
        for start in range(0, len(panels), self._across):
            row, below = (panels[n : n + self._across] for n in (start, start + self._across))
            named = [one.columns for one in row] != [one.columns for one in below]
            above = head + (LABEL if any(panel.label for panel in row) else 0.0)
            words = room([word for panel in row for word in panel.columns]) if named else 0.05
            most = max(panel.cell[1] * len(panel.output) for panel in row)
            self._rows.append((above, named, above + most + words))

    def height(self, width: float) -> float:
        """Return the height with title, words and the space below."""
        rows = sum(height for *_, height in self._rows)
        return TITLE_LINE * len(self._title(width)) + 0.06 + rows + 0.1

    def draw(self, canvas: Canvas, down: float, width: float) -> None:
        """Draw the block ``down`` inches below the top of the canvas."""
        title = self._title(width)
        canvas.write(MARGIN, down + 0.06, "\n".join(title), fontsize=TITLE_SIZE, linespacing=1.25)
        down += TITLE_LINE * len(title) + 0.06
        for number, panel in enumerate(self.panels):
            row, column = divmod(number, self._across)
            above, named, _ = self._rows[row]
            left = MARGIN + self._left + column * self._step
            top = down + sum(height for *_, height in self._rows[:row]) + above
            named_rows = column == 0 or not self._once
            axes = draw_heatmap(canvas, left, top, panel, named_rows, named)
            if panel.label:
                axes.set_title(
                    drawable(panel.label), fontsize=9, color=MUTED_INK, pad=3 + 72 * self._head,
                    loc="left",
                )  # fmt: skip
            self._finish(panel, axes)

    def _title(self, width: float) -> list[str]:
        room = max(width - 2 * MARGIN, 2.0)
        return [
            " ".join(line)
            for text in self._text.split("\n")
            for line in in_lines(
                drawable(text).split(), lambda word: text_width(f"{word} ", TITLE_SIZE), room
            )
        ]


def draw_blocks(blocks: Sequence[Block]) -> Canvas:
    """Draw blocks below each other, with the color bar at the foot."""
    bullets = bulleted([panel for block in blocks for panel in block.panels])
    note = f"equal bullets in a row: equal weights ({bullets})" if bullets else ""
    width = max(bar_room(note), *(block.width for block in blocks))
    canvas = Canvas(width, sum(block.height(width) for block in blocks) + FOOT)
    down = 0.0
    for block in blocks:
        block.draw(canvas, down, width)
        down += block.height(width)
    draw_bar(canvas, note)
    return canvas


def bulleted(panels: Sequence[Panel]) -> str:
    """Name the mappings of panels that have groups of equal weights with bullets, joined by or."""
    found = (p.mapping for p in panels if p.clustered and any(map(clusters, p.weights)))
    return " or ".join(dict.fromkeys(found))
