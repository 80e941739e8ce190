"""Stored validation examples of tasks from text to text: attention of the best hypotheses."""

from collections.abc import Sequence
from typing import Any

from repro.data.batching import Pair
from repro.data.preparation import PreparedCorpus
from repro.decoding import Hypothesis

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
        "index": index,
        "language": f"{data.corpus.source} to {data.corpus.target}",
        "source": [data.source.tokens[number] for number in pair.source],
        "output": [*(data.target.tokens[number] for number in hypothesis.tokens), *stop],
        "gold": " ".join(data.target.tokens[number] for number in pair.target),
        "separator": " ",
        "weights": weights,
    }


def _shorten(value: float) -> float:
    """Seven significant digits, all that float32 holds; an exact zero stays one."""
    return float(f"{value:.7g}")
