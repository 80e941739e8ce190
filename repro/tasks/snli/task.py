"""Natural language inference with attention to the premise (Niculae & Blondel, 2017, §4.1)."""

from collections.abc import Mapping
from typing import Any

import torch

from repro.config.schema.nli import SnliRun
from repro.data.batching import NliBatch
from repro.data.nli import NliExample
from repro.mappings import ProbabilityMap
from repro.models.entailment.classifiers import AttendedLabels, AttentionClassifier
from repro.prediction import AttentionMap
from repro.tasks.entailment import EntailmentTask, Weights, words_of
from repro.tasks.instantiate import build_mapping


class SnliTask(EntailmentTask[AttendedLabels, SnliRun]):
    """Classifier with attention from the hypothesis to the words of the premise."""

    nonzeros = "premise_nonzeros"
    classifier = AttentionClassifier

    @staticmethod
    def weighting(config: SnliRun) -> ProbabilityMap:
        """Create the mapping of the run."""
        return build_mapping(config.mapping)

    def count_weights(self, found: AttendedLabels, batch: NliBatch) -> tuple[int, int]:
        """Return the number of premise words with nonzero weight and of all premise words."""
        return int((found.attention != 0).sum()), int(batch.host_lengths[:, 0].sum())

    def describe_weights(self, found: AttendedLabels, batch: NliBatch) -> list[dict[str, Any]]:
        """Return the weight of each word of the premise."""
        lengths = batch.host_lengths[:, 0].tolist()
        pairs = zip(found.attention.float().tolist(), lengths, strict=True)
        return [{"weights": row[:length]} for row, length in pairs]

    def weights_of(self, row: Mapping[str, Any], pair: NliExample, label: str) -> Weights:
        """Return one row of weights, named by the label, with the words of the premise."""
        weights = torch.tensor([row["weights"]])
        return Weights(AttentionMap(weights, [label], words_of(pair.premise)))
