"""Stored validation examples of tasks from text to text: attention, and forced decoding."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from repro.data.batching import Pair, collate
from repro.data.preparation import PreparedCorpus
from repro.data.vocabulary import Vocabulary
from repro.decoding import Hypothesis, StepModel, forced

ALTERNATIVES = 20
"""Continuations that are kept of each step, the most probable ones."""
_STOP = "</s>"


def attention_rows(
    data: PreparedCorpus, pairs: Sequence[Pair], found: Sequence[Sequence[Hypothesis]]
) -> list[dict[str, Any]]:
    """Rows of ``attention.jsonl``.

    Args:
        data: vocabularies and name of the corpus.
        pairs: the examples, by rising index.
        found: at most one hypothesis of each, with its attention; rows without one are left out.
    """
    together = enumerate(zip(pairs, found, strict=True))
    return [_row(data, index, pair, one) for index, (pair, best) in together for one in best]


def _row(data: PreparedCorpus, index: int, pair: Pair, hypothesis: Hypothesis) -> dict[str, Any]:
    assert hypothesis.attention is not None
    stop = [_STOP] if hypothesis.finished else []
    weights = [[_shorten(value) for value in row] for row in hypothesis.attention.tolist()]
    return {
        **_source(data, index, pair),
        "output": [*(data.target.tokens[number] for number in hypothesis.tokens), *stop],
        "gold": " ".join(data.target.tokens[number] for number in pair.target),
        "weights": weights,
    }


def forced_rows(
    model: StepModel[Any], data: PreparedCorpus, pairs: Sequence[Pair], device: torch.device
) -> list[dict[str, Any]]:
    """Rows of ``forced.jsonl``: what the model would have said next along each gold target.

    ``steps`` has one entry for each target symbol: its ``probability``, the number of symbols with
    nonzero probability (``support``), and the 20 most probable of these with their probabilities
    (``alternatives``).

    Args:
        model: in evaluation mode, on ``device``.
        data: vocabularies and name of the corpus.
        pairs: the examples, by rising index.
        device: where the model lives.

    References:
        Peters, Niculae & Martins (2019), Figure 2.
    """
    rows = []
    for index, pair in enumerate(pairs):
        batch = collate(pairs, [index]).to(device)
        (probs,) = forced(model, batch.source, batch.source_mask, batch.target).probs.cpu()
        target = [*pair.target, Vocabulary.EOS]
        steps = [_step(data, *step) for step in zip(probs, target, strict=True)]
        symbols = [data.target.tokens[number] for number in target]
        rows.append({**_source(data, index, pair), "target": symbols, "steps": steps})
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


def _source(data: PreparedCorpus, index: int, pair: Pair) -> dict[str, Any]:
    return {
        "index": index,
        "language": f"{data.corpus.source} to {data.corpus.target}",
        "source": [data.source.tokens[number] for number in pair.source],
        "separator": " ",
    }


def _shorten(value: float) -> float:
    """Seven significant digits, all that float32 holds; an exact zero stays one."""
    return float(f"{value:.7g}")
