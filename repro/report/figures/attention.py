"""Attention of one run to one source, as in Peters et al. (2019), Figure 5."""

from typing import Any

from repro.report.figures.canvas import MARGIN, Canvas, drawable, in_lines, is_mark, text_width
from repro.report.figures.comparison import END
from repro.report.figures.heatmap import CELL, FOOT, Heatmap, bar_room, draw_bar, draw_heatmap, room
from repro.report.figures.kinds import RULE, Figure, FigureRuns, Row, ordered_examples

LONGEST = 30
TITLE, LINE, TITLE_SIZE = 0.35, 0.2, 10


class Attention(Figure):
    """Heat map of the attention of one prediction, with a column for each source symbol."""

    rule = f"the longest source of at most {LONGEST} symbols that is predicted correctly"

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        def rank(row: Row) -> tuple[float, ...]:
            length = len(row["source"])
            fits = length <= LONGEST
            return not (fits and is_correct(row)), not fits, -length if fits else length

        rows = runs.best.examples.read_attention()
        return {**ordered_examples(rows, runs.prefer, names_of, rank)[0], RULE: self.rule}

    def draw(self, data: Row) -> Canvas:
        left, foot = MARGIN + room(data["output"]), room(data["source"])
        width, height = CELL * len(data["source"]), CELL * len(data["output"])
        verdict = "correct" if is_correct(data) else f"gold: {data['gold']}"
        title = drawable(f"{data['language']}: {prediction_of(data)} ({verdict})")
        body = max(left + width, bar_room())
        words = in_lines(title.split(), lambda word: text_width(f"{word} ", TITLE_SIZE), body)
        lines = [" ".join(line) for line in words]
        top = TITLE + LINE * (len(lines) - 1)
        widest = max(text_width(line, TITLE_SIZE) for line in lines)
        canvas = Canvas(max(body, MARGIN + widest) + MARGIN, top + height + foot + FOOT)
        for number, line in enumerate(lines):
            canvas.write(MARGIN, 0.1 + LINE * number, line, fontsize=TITLE_SIZE)
        grid = Heatmap(data["weights"], data["output"], data["source"])
        draw_heatmap(canvas, left, top, grid)
        draw_bar(canvas)
        return canvas

    def describe(self, data: Row) -> str:
        nonzero = sum(weight > 0 for line in data["weights"] for weight in line)
        return (
            f"Heat map for {prediction_of(data)!r} ({data['language']}): {len(data['output'])} "
            f"output by {len(data['source'])} source symbols; {nonzero} of "
            f"{len(data['output']) * len(data['source'])} weights are nonzero."
        )

    def remark(self, data: Row) -> str:
        wrong = "" if is_correct(data) else "The prediction shown is wrong. "
        dense = all(weight > 0 for line in data["weights"] for weight in line)
        return f"{wrong}{'No weight of this example is exactly zero.' if dense else ''}".strip()


def prediction_of(row: Row) -> str:
    """Return the predicted string, without the end symbol."""
    return str(row.get("separator", "")).join(one for one in row["output"] if one != END)


def is_correct(row: Row) -> bool:
    """Return whether the prediction is the gold string."""
    return prediction_of(row) == str(row["gold"])


def names_of(row: Row) -> tuple[str, ...]:
    """Return texts by which ``drawing.prefer`` selects an example: its source, its gold output."""
    text = "".join(token for token in row["source"] if not is_mark(token))
    return text, f"{text} {row['gold']}", *([row["gold"]] if row.get("separator") else [])


FIGURES = {"attention": Attention()}
