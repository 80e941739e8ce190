"""Stored validation examples: complete sets of hypotheses and attention, for the figures."""

from collections.abc import Sequence
from typing import Any

import torch

from repro.config.schema import RunConfig
from repro.config.schema.morphology import MorphologyConfig
from repro.config.schema.seq2seq import BeamConfig
from repro.data.batching import Seq2SeqBatch, collate
from repro.data.sigmorphon import source_tokens
from repro.decoding import (
    BeamResult,
    CompleteSet,
    Hypothesis,
    StepModel,
    beam_search,
    complete_set,
)
from repro.results import RunFolder
from repro.tasks.morphology.corpus import EncodedCorpus

_BATCH = 32
_STOP = "</s>"


class ExampleAnalysis:
    """Decodes the first validation examples of each language and keeps all there is to see.

    Args:
        config: of the run; ``task.analysed`` examples of each language are stored.
        data: the encoded corpus.
        device: where the models live.
    """

    def __init__(self, config: RunConfig, data: EncodedCorpus, device: torch.device) -> None:
        assert isinstance(config.task, MorphologyConfig)
        assert isinstance(config.decoding, BeamConfig)
        self.decoding, self.data, self.device = config.decoding, data, device
        self.chosen = _first_of_each_language(data, config.task.analysed)

    def store(self, model: StepModel[Any], folder: RunFolder) -> None:
        """Write ``hypotheses.jsonl`` and ``attention.jsonl``."""
        hypotheses, attention = [], []
        for start in range(0, len(self.chosen), _BATCH):
            indices = self.chosen[start : start + _BATCH]
            batch = collate(self.data.dev, indices).to(self.device)
            decoded = zip(indices, *self._decode(model, batch), strict=True)
            for index, complete, beam in decoded:
                hypotheses.append(self._hypotheses_row(index, complete, beam))
                attention += [self._attention_row(index, best) for best in beam.hypotheses[:1]]
        folder.write_hypotheses(hypotheses)
        folder.write_attention(attention)

    def _decode(
        self, model: StepModel[Any], batch: Seq2SeqBatch
    ) -> tuple[list[CompleteSet], list[BeamResult]]:
        source, mask, length = batch.source, batch.source_mask, self.decoding.max_length
        most, size = self.decoding.max_hypotheses, self.decoding.beam_size
        complete = complete_set(model, source, mask, max_hypotheses=most, max_length=length)
        beams = beam_search(
            model, source, mask, beam_size=size, max_length=length, keep_attention=True
        )
        return complete, beams

    def _example(self, index: int) -> dict[str, Any]:
        example = self.data.corpus.dev[index]
        return {
            "index": index,
            "language": example.language,
            "lemma": example.lemma,
            "tags": list(example.tags),
            "gold": example.form,
            "source": source_tokens(example),
        }

    def _hypotheses_row(
        self, index: int, complete: CompleteSet, beam: BeamResult
    ) -> dict[str, Any]:
        shown: Sequence[Hypothesis] = complete.hypotheses if complete.finite else beam.hypotheses
        found = [
            {
                "tokens": self._symbols(hypothesis.tokens),
                "probability": _shorten(hypothesis.probability),
                "steps": [_shorten(value) for value in hypothesis.step_probabilities],
            }
            for hypothesis in shown
        ]
        return {**self._example(index), "finite": complete.finite, "hypotheses": found}

    def _symbols(self, ids: Sequence[int]) -> list[str]:
        """One symbol for each id, so that they stay in step with probabilities and weights."""
        return [self.data.target.tokens[i] for i in ids]

    def _attention_row(self, index: int, hypothesis: Hypothesis) -> dict[str, Any]:
        assert hypothesis.attention is not None
        stop = [_STOP] if hypothesis.finished else []
        output = self._symbols(hypothesis.tokens) + stop
        weights = [[_shorten(value) for value in row] for row in hypothesis.attention.tolist()]
        return {**self._example(index), "output": output, "weights": weights}


def _first_of_each_language(data: EncodedCorpus, count: int) -> list[int]:
    chosen: list[int] = []
    for language in data.corpus.languages:
        own = [n for n, example in enumerate(data.corpus.dev) if example.language == language]
        chosen += own[:count]
    return chosen


def _shorten(value: float) -> float:
    """Seven significant digits, all that float32 holds; an exact zero stays one."""
    return float(f"{value:.7g}")
