"""Heat maps of predictions for new inputs, those of several runs side by side."""

from collections.abc import Mapping, Sequence
from html import escape

from repro.prediction import Prediction
from repro.report.figures.canvas import Canvas, plain_style
from repro.report.figures.heatmap import Panel
from repro.report.figures.panels import Block, draw_blocks
from repro.results import ResultsError

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Attention</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{font:16px/1.4 sans-serif;margin:1.5rem}figure{margin:0 0 2rem;overflow-x:auto}</style>
</head><body>
"""


def draw_predictions(inputs: Sequence[Mapping[str, Prediction]]) -> Canvas:
    """Draw the attention of predictions, a block of heat maps for each input.

    Each of ``inputs`` maps the title of a heat map, which begins with the name of the mapping, to a
    prediction.

    Raises:
        ResultsError: a prediction has no attention.
    """
    with plain_style():
        return draw_blocks([_block(predictions) for predictions in inputs])


def predictions_page(inputs: Sequence[Mapping[str, Prediction]]) -> str:
    """Return an HTML page with a drawing for each input; see :func:`draw_predictions`."""
    parts = []
    for number, predictions in enumerate(inputs, start=1):
        svg = draw_predictions([predictions]).svg(f"input{number}", describe([predictions]))
        outputs = "".join(
            f"<li>{escape(label)}: {escape(one.output)}</li>" for label, one in predictions.items()
        )
        parts.append(f"<figure>{svg}<figcaption><ul>{outputs}</ul></figcaption></figure>\n")
    return f"{_PAGE}{''.join(parts)}</body></html>\n"


def describe(inputs: Sequence[Mapping[str, Prediction]]) -> str:
    """Describe heat maps in words: inputs, outputs and numbers of nonzero weights."""
    parts = []
    for predictions in inputs:
        counts = [
            f"{label}: {int((weights > 0).sum())} of {weights.numel()}"
            for label, one in predictions.items()
            if one.attention is not None and (weights := one.attention.weights) is not None
        ]
        parts.append(f"{_source(predictions)!r}: nonzero weights {'; '.join(counts)}.")
    return f"Attention. {' '.join(parts)}"


def _source(predictions: Mapping[str, Prediction]) -> str:
    return " ".join(next(iter(predictions.values())).source)


def _block(predictions: Mapping[str, Prediction]) -> Block:
    panels = []
    for label, one in predictions.items():
        if one.attention is None:
            raise ResultsError(
                f"{label}: no heat map, since the model found no output or has no attention"
            )
        weights, mapping = one.attention.weights.tolist(), label.split(",")[0]
        panels.append(Panel(label, mapping, one.attention.columns, one.attention.rows, weights))
    return Block(_source(predictions), panels)
