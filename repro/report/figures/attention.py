"""Attention of one run to one source, as in Peters et al. (2019), Figure 5."""

from typing import Any

from repro.data.vocabulary import END
from repro.report.figures.canvas import Canvas, is_mark, plain_style
from repro.report.figures.heatmap import Panel
from repro.report.figures.kinds import RULE, Figure, FigureRuns, Row, ordered_examples
from repro.report.figures.panels import Block, draw_blocks

LONGEST = 30


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
        verdict = "correct" if is_correct(data) else f"gold: {data['gold']}"
        title = f"{data['language']}: {prediction_of(data)} ({verdict})"
        panel = Panel("", "", data["source"], data["output"], data["weights"])
        return draw_blocks([Block(title, [panel])])

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


def draw_example(row: Row, mapping: str = "") -> tuple[Canvas, str]:
    """Draw the attention of a kept example, to a source or to a premise, and describe it."""
    if "source" in row:
        source, output, weights = row["source"], row["output"], row["weights"]
        between = str(row.get("separator", ""))
        words = between.join(token for token in source if not is_mark(token))
        texts = {"input": words, "output": prediction_of(row)}
    else:
        if "weights" in row:
            source, output, weights = row["premise"], [str(row["predicted"])], [row["weights"]]
        else:  # an alignment of both sentences
            source, output = row["hypothesis"], row["premise"]
            weights = row["premise_to_hypothesis"]
        texts = {"premise": " ".join(row["premise"]), "hypothesis": " ".join(row["hypothesis"])}
    lines = [f"{name}: {text}" for name, text in {**texts, "gold": row["gold"]}.items()]
    panel = Panel("", mapping, source, output, weights)
    with plain_style():
        canvas = draw_blocks([Block("\n".join(lines), [panel])])
    return canvas, f"Attention. {'; '.join(lines)}."


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
