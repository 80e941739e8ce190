"""Stored examples of tasks from text to text: attention, and forced decoding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from repro.data.batching import Pair, collate
from repro.data.preparation import SINK, PreparedCorpus
from repro.data.sentence_search import find_pairs
from repro.data.vocabulary import Vocabulary
from repro.decoding import Hypothesis, StepModel, forced

ALTERNATIVES = 20
"""Continuations that are kept of each step, the most probable ones."""
_STOP = "</s>"


@dataclass(frozen=True)
class Example:
    """A pair of a split, with its position in it."""

    split: str
    index: int
    pair: Pair


def stored_examples(data: PreparedCorpus, count: int, shown: Sequence[str]) -> list[Example]:
    """Choose the examples that a run stores for the figures.

    Args:
        data: a prepared corpus.
        count: number of validation pairs stored, from the first one on.
        shown: sentences, source or target, to store besides: the first pair with each of them, in
            the validation, test or training data.

    Returns:
        The first validation pairs, then the others by split and position.
    """
    dev = data.splits["dev"]
    first = range(min(count, len(dev)))
    places = {("dev", index) for index in first}
    missing = list(shown)
    for split in ("dev", *data.corpus.tests, "train"):
        found = find_pairs(data.splits[split], data.source, data.target, missing, [SINK])
        places |= {(split, index) for index in found.values()}
        missing = [text for text in missing if text not in found]
    others = sorted(places - {("dev", index) for index in first})
    ordered = [*(("dev", index) for index in first), *others]
    return [Example(split, index, data.splits[split][index]) for split, index in ordered]


def attention_rows(
    data: PreparedCorpus, examples: Sequence[Example], found: Sequence[Sequence[Hypothesis]]
) -> list[dict[str, Any]]:
    """Rows of ``attention.jsonl``.

    Args:
        data: vocabularies and name of the corpus.
        examples: what was translated.
        found: at most one hypothesis of each, with its attention; rows without one are left out.
    """
    together = zip(examples, found, strict=True)
    return [_row(data, example, one) for example, best in together for one in best]


def _row(data: PreparedCorpus, example: Example, hypothesis: Hypothesis) -> dict[str, Any]:
    assert hypothesis.attention is not None
    stop = [_STOP] if hypothesis.finished else []
    weights = [[_shorten(value) for value in row] for row in hypothesis.attention.tolist()]
    return {
        **_source(data, example),
        "output": [*(data.target.tokens[number] for number in hypothesis.tokens), *stop],
        "gold": " ".join(data.target.tokens[number] for number in example.pair.target),
        "weights": weights,
    }


def forced_rows(
    model: StepModel[Any], data: PreparedCorpus, examples: Sequence[Example], device: torch.device
) -> list[dict[str, Any]]:
    """Rows of ``forced.jsonl``: the next symbols that the model predicts along each gold target.

    ``steps`` has one entry for each target symbol: its ``probability``, the number of symbols with
    nonzero probability (``support``), and the 20 most probable of these with their probabilities
    (``alternatives``).

    Args:
        model: in evaluation mode, on ``device``.
        data: vocabularies and name of the corpus.
        examples: pairs along whose targets the model is read.
        device: where the model lives.

    References:
        Peters, Niculae & Martins (2019), Figure 2.
    """
    rows = []
    for example in examples:
        batch = collate([example.pair], [0]).to(device)
        (probs,) = forced(model, batch.source, batch.source_mask, batch.target).probs.cpu()
        target = [*example.pair.target, Vocabulary.EOS]
        steps = [_step(data, *step) for step in zip(probs, target, strict=True)]
        symbols = [data.target.tokens[number] for number in target]
        rows.append({**_source(data, example), "target": symbols, "steps": steps})
    return rows


def _step(data: PreparedCorpus, probs: Tensor, token: int) -> dict[str, Any]:
    order = probs.float().argsort(descending=True, stable=True)[:ALTERNATIVES].tolist()
    return {
        "probability": _shorten(float(probs[token])),
        "support": int((probs > 0).sum()),
        "alternatives": [
            [data.target.tokens[number], _shorten(float(probs[number]))]
            for number in order
            if probs[number] > 0
        ],
    }


def _source(data: PreparedCorpus, example: Example) -> dict[str, Any]:
    return {
        "index": example.index,
        "split": example.split,
        "language": f"{data.corpus.source} to {data.corpus.target}",
        "source": [data.source.tokens[number] for number in example.pair.source],
        "separator": " ",
    }


def _shorten(value: float) -> float:
    """Seven significant digits, all that float32 holds; an exact zero stays one."""
    return float(f"{value:.7g}")
