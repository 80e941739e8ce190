"""Training and evaluation of one classifier that attends to the premise."""

from typing import Any

import torch
from torch import Tensor

from repro.config.instantiate import build_mapping
from repro.config.schema import RunConfig
from repro.config.schema.nli import AttentionClassifierConfig
from repro.data.nli_batching import NliBatch
from repro.data.vocabulary import Vocabulary
from repro.models.entailment import AttendedLabels, AttentionClassifier
from repro.tasks.entailment import EntailmentTask
from repro.tasks.entailment_corpus import encode_corpus, vectors_of


class SnliTask(EntailmentTask[AttendedLabels]):
    """Attention from the hypothesis to the words of the premise."""

    nonzeros = "premise_nonzeros"

    def logits(self, found: AttendedLabels) -> Tensor:
        """Scores of the labels."""
        return found.logits

    def count_weights(self, found: AttendedLabels, batch: NliBatch) -> tuple[int, int]:
        """Words of the premise with nonzero weight, and words of the premise."""
        return int((found.attention != 0).sum()), int(batch.premise_lengths.sum())

    def describe_weights(self, found: AttendedLabels, batch: NliBatch) -> list[dict[str, Any]]:
        """The weight of each word of the premise."""
        lengths = batch.premise_lengths.tolist()
        pairs = zip(found.attention.float().tolist(), lengths, strict=True)
        return [{"weights": row[:length]} for row, length in pairs]


def build(config: RunConfig, device: torch.device) -> SnliTask:
    """Read the corpus and make an untrained model; the random state decides its weights."""
    data = encode_corpus(config)
    return SnliTask(config, data, _build_model(config, data.vocabulary), device)


def _build_model(config: RunConfig, vocabulary: Vocabulary) -> AttentionClassifier:
    model = config.model
    assert isinstance(model, AttentionClassifierConfig)
    assert config.mapping is not None
    return AttentionClassifier(
        vectors_of(config, vocabulary),
        model.trainable_vectors,
        model.hidden_size,
        model.dropout,
        build_mapping(config.mapping),
    )
