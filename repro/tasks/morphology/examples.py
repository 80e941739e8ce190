"""Stored examples: complete sets of hypotheses and attention, for the figures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from repro.config.schema.morphology import MorphologyRun
from repro.data.batching import Pair, Seq2SeqBatch, collate
from repro.data.sentence_search import sentence_key
from repro.data.sigmorphon import Inflection, source_tokens
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


@dataclass(frozen=True)
class Example:
    """An inflection of a split, with its position in it."""

    split: str
    index: int
    inflection: Inflection
    pair: Pair


class ExampleAnalysis:
    """Decodes the examples that figures may show, and stores hypotheses and attention.

    Args:
        config: configuration of the run. The first ``task.stored_examples`` validation examples of
            each language are stored, and the examples of any split that ``task.shown`` names.
        data: the encoded corpus.
        device: where the models live.
    """

    def __init__(self, config: MorphologyRun, data: EncodedCorpus, device: torch.device) -> None:
        self.decoding, self.data, self.device = config.decoding, data, device
        self.chosen = [
            *_first_of_each_language(data, config.task.stored_examples),
            *_shown(data, config.task.stored_examples, config.task.shown),
        ]

    def store(self, model: StepModel[Any], folder: RunFolder) -> None:
        """Write ``hypotheses.jsonl`` and ``attention.jsonl``."""
        hypotheses, attention = [], []
        for start in range(0, len(self.chosen), _BATCH):
            examples = self.chosen[start : start + _BATCH]
            pairs = [example.pair for example in examples]
            batch = collate(pairs, range(len(pairs))).to(self.device)
            decoded = zip(examples, *self._decode(model, batch), strict=True)
            for example, complete, beam in decoded:
                shown: Sequence[Hypothesis] = (
                    complete.hypotheses if complete.finite else beam.hypotheses
                )
                found = [
                    {
                        "tokens": self._symbols(hypothesis.tokens),
                        "probability": _shorten(hypothesis.probability),
                        "steps": [_shorten(value) for value in hypothesis.step_probabilities],
                    }
                    for hypothesis in shown
                ]
                row = {**_described(example), "finite": complete.finite, "hypotheses": found}
                hypotheses.append(row)
                attention += [self._attention_row(example, best) for best in beam.hypotheses[:1]]
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

    def _symbols(self, ids: Sequence[int]) -> list[str]:
        """One symbol for each id, so that they stay in step with probabilities and weights."""
        return [self.data.target.tokens[i] for i in ids]

    def _attention_row(self, example: Example, hypothesis: Hypothesis) -> dict[str, Any]:
        assert hypothesis.attention is not None
        stop = [_STOP] if hypothesis.finished else []
        output = self._symbols(hypothesis.tokens) + stop
        weights = [[_shorten(value) for value in row] for row in hypothesis.attention.tolist()]
        return {**_described(example), "output": output, "weights": weights}


def _described(example: Example) -> dict[str, Any]:
    inflection = example.inflection
    return {
        "index": example.index,
        "split": example.split,
        "language": inflection.language,
        "lemma": inflection.lemma,
        "tags": list(inflection.tags),
        "gold": inflection.form,
        "source": source_tokens(inflection),
    }


def _examples(data: EncodedCorpus, split: str) -> list[Example]:
    inflections: list[Inflection] = getattr(data.corpus, split)
    together = enumerate(zip(inflections, getattr(data, split), strict=True))
    return [Example(split, index, *both) for index, both in together]


def _first_of_each_language(data: EncodedCorpus, count: int) -> Iterator[Example]:
    examples = _examples(data, "dev")
    for language in data.corpus.languages:
        own = [example for example in examples if example.inflection.language == language]
        yield from own[:count]


def _shown(data: EncodedCorpus, count: int, shown: Sequence[str]) -> Iterator[Example]:
    """Examples of any split with a lemma, or lemma and form, of ``shown``, without duplicates."""
    keys = {sentence_key(text) for text in shown}
    stored = {("dev", example.index) for example in _first_of_each_language(data, count)}
    for split in ("dev", "test", "train") if keys else ():
        for example in _examples(data, split):
            lemma, form = sentence_key(example.inflection.lemma), example.inflection.form
            wanted = lemma in keys or lemma + sentence_key(form) in keys
            if wanted and (split, example.index) not in stored:
                yield example


def _shorten(value: float) -> float:
    """Seven significant digits, all that float32 holds; an exact zero stays one."""
    return float(f"{value:.7g}")
