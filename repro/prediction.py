"""Predictions of the model of a run: output, score, attention, candidate structures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Wanted(NamedTuple):
    """Requested parts of a prediction besides its output: best outputs, weights with candidates."""

    n_best: int = 1
    weights: bool = False


@dataclass(frozen=True)
class AttentionMap:
    """Weights with the words that they belong to.

    Attributes:
        weights: shape ``(len(rows), len(columns))``, on the CPU.
        rows: output symbols, or the words of one sentence.
        columns: source symbols, or the words of the other sentence.
    """

    weights: "Tensor"
    rows: Sequence[str]
    columns: Sequence[str]


class Alternative(NamedTuple):
    """One of the best outputs, with its log-probability."""

    output: str
    log_probability: float


class Candidate(NamedTuple):
    """Structure with nonzero weight in a SparseMAP solution.

    Attributes:
        weight: its weight; those of one solution sum to one.
        structure: the head of each word, 0 for the root; in alignments the position of the partner
            of each word, from 0, or -1 for none.
        side: in alignments, whose words the structure lists: ``premise`` or ``hypothesis``.
    """

    weight: float
    structure: Sequence[int]
    side: str = ""


@dataclass(frozen=True)
class Prediction:
    """Prediction for one input.

    Attributes:
        output: the answer: a text, a form, a label, or a sentence in CoNLL-U.
        line: what ``repro predict`` prints, ``output`` with the parts of its format.
        source: symbols that the model reads.
        unknown: those of them that its vocabulary lacks.
        target: symbols of the output, ``</s>`` included; the head of each word.
        log_probability: natural logarithm of the probability of the output; None if the search
            found no output, and for trees.
        exact: whether the search proves that no output is more probable; None without a search.
        probabilities: probability of each label.
        attention: weights over the source for each output symbol; over the premise (snli); over
            the hypothesis for each premise word (nli_alignment); or over the heads of each word
            (parsing). None unless requested.
        reverse: weights over the premise for each word of the hypothesis; alignments only.
        n_best: the best outputs, best first, if more than one is requested.
        candidates: structures that the weights consist of, heaviest first.
    """

    output: str
    line: str
    source: Sequence[str]
    target: Sequence[str] = ()
    log_probability: float | None = None
    exact: bool | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)
    attention: AttentionMap | None = None
    reverse: AttentionMap | None = None
    n_best: Sequence[Alternative] = ()
    candidates: Sequence[Candidate] = ()
    unknown: Sequence[str] = ()

    def described(self) -> dict[str, Any]:
        """Return all that is known as values for JSON."""
        row: dict[str, Any] = {key: value for key, value in vars(self).items() if key != "line"}
        row |= {key: [one._asdict() for one in row[key]] for key in ("n_best", "candidates")}
        for key in ("attention", "reverse"):
            if (one := row[key]) is not None:
                weights = [[shorten(value) for value in line] for line in one.weights.tolist()]
                row[key] = {"rows": one.rows, "columns": one.columns, "weights": weights}
        always = ("output", "source", "log_probability")
        return {
            key: value for key, value in row.items() if key in always or value or value is False
        }

    def _repr_html_(self) -> str:
        """Render the output and the weights for a notebook: shades, and dots for exact zeros."""
        found = f"<p>{escape(self.output)}</p>"
        for one in (self.attention, self.reverse):
            if one is not None:
                head = "".join(f"<th>{escape(word)}</th>" for word in one.columns)
                rows = [
                    f"<tr><th>{escape(word)}</th>{''.join(map(_shaded, weights))}</tr>"
                    for word, weights in zip(one.rows, one.weights.tolist(), strict=True)
                ]
                found += f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"
        return found


def _shaded(weight: float) -> str:
    """Return the cell of a weight."""
    if weight == 0:
        return '<td style="text-align:center">·</td>'
    ink = "white" if weight > 0.5 else "black"
    shade = f"background:rgba(8,48,107,{0.1 + 0.9 * weight:.2f});color:{ink}"
    return f'<td style="{shade}">{weight:.2f}</td>'


def shorten(value: float) -> float:
    """Round to seven significant digits, the precision of float32; nonzero stays nonzero."""
    return float(f"{value:.7g}")
