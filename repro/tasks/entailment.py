"""Shared parts of the tasks of natural language inference: batches, loss, predictions, weights."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from repro.config.schema.nli import PairRun, PairTaskConfig
from repro.data.batching import epoch_batches, ordered_batches
from repro.data.nli_batching import NliBatch
from repro.data.sentence_search import sentence_key
from repro.evaluation.metrics import METRICS, Evaluation, score_outputs
from repro.evaluation.metrics.labels import Labels
from repro.results import RunFolder
from repro.results.jsonl import write_rows
from repro.tasks.batches import LazyBatches, autocast
from repro.tasks.entailment_corpus import EncodedCorpus, PairSplit, encode_corpus, vectors_of
from repro.tasks.instantiate import build_loss, build_loss_mapping
from repro.tasks.protocol import Scores
from repro.training import distributed
from repro.training.protocol import Validation

NO_LABEL = -1
"""Target that no pair has: every pair counts in the loss."""


class ScoredLabels(Protocol):
    """Output of a model for a batch: at least the scores of the labels, ``(B, 3)``."""

    logits: Tensor


FoundT = TypeVar("FoundT", bound=ScoredLabels)
RunT = TypeVar("RunT", bound=PairRun)


@dataclass(frozen=True)
class Predictions:
    """Predictions of the model for a split.

    Attributes:
        predicted: label of each pair.
        loss: mean over pairs.
        nonzeros: share of the weights that are not zero, in percent.
    """

    predicted: list[int]
    loss: float
    nonzeros: float


class EntailmentTask(ABC, Generic[FoundT, RunT]):
    """A classifier of sentence pairs; see ``repro.tasks.protocol.Task``.

    Args:
        config: configuration of the run.
        data: the encoded corpus.
        model: untrained.
        device: where the model shall live.
    """

    selectors = PairTaskConfig.selectors
    nonzeros: ClassVar[str]
    """Name of the metric of the share of nonzero weights."""
    classifier: ClassVar[type[nn.Module]]
    """Constructor arguments: word vectors, whether they are trained, size of states, dropout,
    weighting, number of labels."""

    def __init__(
        self, config: RunT, data: EncodedCorpus, model: nn.Module, device: torch.device
    ) -> None:
        self.config, self.settings, self.data, self.device = config, config.task, data, device
        self.tally = {"pairs_per_second": 0.0}
        self.model = model.to(device)
        self.criterion = build_loss(config.loss, build_loss_mapping(config.loss), NO_LABEL)

    @classmethod
    def build(cls, config: RunT, device: torch.device) -> Self:
        """Read the corpus and make an untrained model; the random state decides its weights."""
        data, sizes = encode_corpus(config), config.model
        model = cls.classifier(
            vectors_of(config, data.vocabulary),
            sizes.trainable_vectors,
            sizes.hidden_size,
            sizes.dropout,
            cls.weighting(config),
            len(data.labels),
        )
        return cls(config, data, model, device)

    @staticmethod
    @abstractmethod
    def weighting(config: RunT) -> nn.Module:
        """Module that turns scores of words into weights: the last argument of the model."""

    @abstractmethod
    def count_weights(self, found: FoundT, batch: NliBatch) -> tuple[int, int]:
        """Count the nonzero weights of a batch, and all of them."""

    @abstractmethod
    def describe_weights(self, found: FoundT, batch: NliBatch) -> list[dict[str, Any]]:
        """The weights of each pair as values of JSON, without padding."""

    def batches(self, epoch: int) -> LazyBatches[NliBatch]:
        """Training batches of one epoch."""
        pairs, size = self.data.train.encoded, self.config.training.batch_size
        batches = epoch_batches(pairs.sort_keys, size, self.config.seed, epoch)
        return LazyBatches(batches, lambda rows: pairs.collate(rows).to(self.device))

    def loss(self, batch: NliBatch) -> tuple[Tensor, Tensor]:
        """Mean loss of a pair, and the number of labels: one a pair."""
        self.tally["pairs_per_second"] += len(batch)
        logits = self.read(batch).logits.float()
        count = torch.tensor(len(batch), device=self.device)
        total: Tensor = self.criterion(logits, batch.labels)
        return total / count, count

    def read(self, batch: NliBatch) -> FoundT:
        """Run the model on a batch."""
        with autocast(self.config, self.device):
            found: FoundT = self.model(batch)
        return found

    def validate(self) -> Validation:
        """Accuracy and mean loss, and how many weights are not zero."""
        found = self.predict_split(self.data.dev)
        accuracy = METRICS["label_accuracy"].value(self._labels(self.data.dev, found))
        metrics = {"label_accuracy": accuracy, self.nonzeros: found.nonzeros}
        return Validation(found.loss, metrics)

    def evaluate(self, folder: RunFolder) -> Scores:
        """Accuracy, recall and nonzero weights on validation and test data; stored weights."""
        whole = Evaluation({}, {})
        for name, split in (("dev", self.data.dev), ("test", self.data.test)):
            found = self.predict_split(split)
            labels = self._labels(split, found)
            whole.update(score_outputs(name, labels))
            whole.values[f"{name}/{self.nonzeros}"] = found.nonzeros
            whole.values[f"{name}/label_loss"] = found.loss
            rows = zip(split.examples, labels.predicted, strict=True)
            write_rows(
                folder.predictions / f"{name}.jsonl",
                ({"id": example.pair_id, "label": label} for example, label in rows),
            )
        folder.write_statistics(whole.statistics)
        folder.write_attention(self.weight_rows())
        return whole.values

    @torch.no_grad()
    def predict_split(self, split: PairSplit) -> Predictions:
        """Predict every pair of a split; the model should be in evaluation mode."""
        predicted: dict[int, int] = {}
        total, nonzero, cells = 0.0, 0, 0
        batches = self._ordered(split, range(len(split.examples)))
        for batch in distributed.share(batches):
            found = self.read(batch)
            logits = found.logits.float()
            total += float(self.criterion(logits, batch.labels))
            labels = logits.argmax(1).tolist()
            predicted |= zip(batch.indices.tolist(), labels, strict=True)
            counted = self.count_weights(found, batch)
            nonzero, cells = nonzero + counted[0], cells + counted[1]
        parts = distributed.gather((total, nonzero, cells))
        total, nonzero, cells = (sum(part) for part in zip(*parts, strict=True))
        merged = distributed.merge(predicted)
        labels = [merged[place] for place in range(len(merged))]
        return Predictions(labels, total / len(labels), 100.0 * nonzero / cells)

    @torch.no_grad()
    def weight_rows(self) -> list[dict[str, Any]]:
        """Words, labels and weights of the validation pairs that figures may show."""
        rows: list[dict[str, Any]] = []
        examples = self.data.dev.examples
        wanted = {sentence_key(text) for text in self.settings.shown}
        said = (sentence_key(" ".join(example.hypothesis)) for example in examples)
        shown = {place for place, key in enumerate(said) if key in wanted}
        stored = sorted({*range(min(self.settings.stored_examples, len(examples))), *shown})
        for batch in self._ordered(self.data.dev, stored):
            found = self.read(batch)
            labels = found.logits.argmax(1).tolist()
            described = self.describe_weights(found, batch)
            places = batch.indices.tolist()
            for place, label, weights in zip(places, labels, described, strict=True):
                example = examples[place]
                row = {
                    "index": place,
                    "pair": example.pair_id,
                    "premise": list(example.premise),
                    "hypothesis": list(example.hypothesis),
                    "gold": self.data.labels[example.label],
                    "predicted": self.data.labels[label],
                }
                rows.append(row | weights)
        return sorted(rows, key=lambda row: int(row["index"]))

    def _ordered(self, split: PairSplit, places: Sequence[int]) -> Iterator[NliBatch]:
        keys = split.encoded.sort_keys
        size = self.settings.evaluation_batch
        for batch in ordered_batches([keys[place] for place in places], size):
            chosen = [places[number] for number in batch]
            yield split.encoded.collate(chosen).to(self.device)

    def _labels(self, split: PairSplit, found: Predictions) -> Labels:
        names = self.data.labels
        gold = [names[example.label] for example in split.examples]
        return Labels(gold, [names[label] for label in found.predicted])
