"""Natural language inference: the corpus of a run, batches, loss, predictions, weights."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from repro import typed
from repro.config.schema.checks import part_of
from repro.config.schema.nli import NliReading, PairRun, PairTaskConfig
from repro.data.batching import EncodedPairs, NliBatch, epoch_batches, ordered_batches
from repro.data.cooccurrence import cooccurrence_vectors
from repro.data.embeddings import FoundVectors, glove_vectors, kept_vectors, place_vectors
from repro.data.files import numbered_lines
from repro.data.nli import NliExample, load_nli, load_pairs, punctuation_words, read_unlabeled
from repro.data.sentence_search import first_or_named
from repro.data.vocabulary import SPECIALS, Vocabulary
from repro.evaluation.metrics import METRICS, Evaluation, score_outputs
from repro.evaluation.metrics.labels import Labels
from repro.losses import FenchelYoungLoss
from repro.prediction import AttentionMap, Candidate, Prediction, Wanted
from repro.results import OWN_SPLIT, RunFolder
from repro.results.files import write_rows
from repro.tasks.common import FolderState, LazyBatches, autocast, check_length, own_examples
from repro.tasks.instantiate import build_loss_mapping
from repro.tasks.pair_corpora import (
    SOURCES,
    glove_file,
    identify,
    pair_folder,
    text_files,
    vectors_dir,
)
from repro.tasks.protocol import Scores
from repro.training import distributed
from repro.training.protocol import Validation

_NO_LABEL = -1
"""Value of ``ignore_index`` that no label has, so that every pair counts in the loss."""
SEPARATOR = "|||"
"""Symbol between premise and hypothesis among the symbols of a prediction's source."""


@dataclass(frozen=True)
class EncodedCorpus:
    """Splits of a corpus, with the vocabulary of their words and the names of its labels."""

    vocabulary: Vocabulary
    labels: tuple[str, ...]
    train: EncodedPairs
    dev: EncodedPairs
    test: EncodedPairs


def check(config: PairRun) -> None:
    """Read the corpus of a configuration, which stays in memory, and its word vectors."""
    vectors_of(config, encode_corpus(config).vocabulary)


def encode_corpus(config: PairRun) -> EncodedCorpus:
    """Read the corpus of a configuration, build its vocabulary and convert words to ids.

    The vocabulary holds the words of the training data. If word vectors come from a file or a text,
    which may have vectors of further words, it also holds those of the other splits.

    Raises:
        DataError: the corpus is missing or malformed.
    """
    data, every_word = config.data, config.model.vectors != "random"
    reading = part_of(NliReading, data)
    folder = FolderState.of(pair_folder(config))
    return _encode(folder, data.source, reading, data.min_count, every_word)


@dataclass(frozen=True)
class _Stored:
    words: list[str]
    labels: list[str]


def restored_corpus(stored: Mapping[str, Any]) -> EncodedCorpus:
    """Return labels and vocabulary alone, from :meth:`EntailmentTask.preparation`."""
    found = typed.build(_Stored, stored)
    vocabulary = Vocabulary(found.words)
    empty = EncodedPairs([], vocabulary)
    return EncodedCorpus(vocabulary, tuple(found.labels), empty, empty, empty)


_VECTORS_VERSION = 1
"""Increment when :func:`cooccurrence_vectors` changes: cached vectors are then computed again."""


def vectors_of(config: PairRun, vocabulary: Vocabulary) -> Tensor:
    """Return the initial word vectors of a model, shape ``(len(vocabulary), vector_size)``.

    Vectors learned from text (the training pairs and ``data.text``) are cached below the results.

    Raises:
        DataError: the file of word vectors is missing or malformed, or the text has too few words.
    """
    model, found = config.model, None
    if model.vectors == "text":
        found = _text_vectors(config, vocabulary)
    elif (glove := glove_file(config)) is not None:
        found = glove_vectors(glove, vocabulary, model.vector_size, vectors_dir(config))
    return place_vectors(vocabulary, model, config.seed, found)


def _text_vectors(config: PairRun, vocabulary: Vocabulary) -> FoundVectors:
    def text() -> Iterator[Sequence[str]]:
        """Yield the sentences of the training pairs, then those of the files of ``data.text``."""
        yield from _sentences([encode_corpus(config).train.examples])
        for path in text_files(config):
            for _, line in numbered_lines(path):
                yield punctuation_words(line.lower() if config.data.lowercase else line)

    size, deviation = config.model.vector_size, config.model.embedding_std
    identity = {
        "version": _VECTORS_VERSION,
        "corpus": identify(config).fingerprint,
        "reading": repr(part_of(NliReading, config.data)),
        "words": vocabulary.tokens,
        "size": size,
        "deviation": deviation,
    }
    make = partial(cooccurrence_vectors, text(), vocabulary, size, deviation)
    return kept_vectors(vectors_dir(config), "text", identity, make)


@lru_cache(maxsize=2)
def _encode(
    folder: FolderState, source: str, reading: NliReading, min_count: int, every_word: bool
) -> EncodedCorpus:
    own = source == "files"
    path = folder.path
    corpus = load_pairs(path, reading) if own else load_nli(SOURCES[source], path, reading)
    parts = (corpus.train, corpus.dev, corpus.test)
    counted = parts if every_word else parts[:1]
    vocabulary = Vocabulary.build(_sentences(counted), min_count)
    splits = (EncodedPairs(part, vocabulary) for part in parts)
    return EncodedCorpus(vocabulary, corpus.labels, *splits)


def _sentences(parts: Iterable[Sequence[NliExample]]) -> Iterator[Sequence[str]]:
    for example in (example for part in parts for example in part):
        yield example.premise
        yield example.hypothesis


def words_of(sentence: Sequence[str]) -> Sequence[str]:
    """Return the words of a sentence as the model reads them; an empty one is an unknown word."""
    return sentence or (SPECIALS[Vocabulary.UNK],)


class ScoredLabels(Protocol):
    """Output of a model for a batch, with at least the scores of the labels, ``(B, labels)``."""

    logits: Tensor


FoundT = TypeVar("FoundT", bound=ScoredLabels)
RunT = TypeVar("RunT", bound=PairRun)


class Weights(NamedTuple):
    """Attention, attention in the other direction and structures of a prediction."""

    attention: AttentionMap | None = None
    reverse: AttentionMap | None = None
    candidates: Sequence[Candidate] = ()


@dataclass(frozen=True)
class Predictions:
    """Predictions for a split, mean loss per pair and percentage of nonzero weights."""

    labels: Labels
    loss: float
    nonzeros: float


class EntailmentTask(ABC, Generic[FoundT, RunT]):
    """Untrained classifier of sentence pairs with its data; see ``repro.tasks.protocol.Task``."""

    selectors = PairTaskConfig.selectors
    nonzeros: ClassVar[str]
    """Name of the metric that reports the percentage of nonzero weights."""
    classifier: ClassVar[type[nn.Module]]
    """Class of the model, given word vectors, its configuration, the weighting and the number of
    labels."""

    def __init__(
        self, config: RunT, device: torch.device, stored: Mapping[str, Any] | None = None
    ) -> None:
        self.config, self.settings, self.device = config, config.task, device
        self.data = encode_corpus(config) if stored is None else restored_corpus(stored)
        vocabulary, model = self.data.vocabulary, config.model
        self.tally = {"pairs_per_second": 0.0}
        self.model = self.classifier(
            vectors_of(config, vocabulary)
            if stored is None
            else torch.zeros(len(vocabulary), model.vector_size),
            model,
            self.weighting(config),
            len(self.data.labels),
        ).to(device)
        self.output_mapping = build_loss_mapping(config.loss)
        self.criterion = FenchelYoungLoss(self.output_mapping, _NO_LABEL, "sum")

    @staticmethod
    @abstractmethod
    def weighting(config: RunT) -> nn.Module:
        """Create the module that turns scores of words into weights."""

    @abstractmethod
    def count_weights(self, found: FoundT, batch: NliBatch) -> tuple[int, int]:
        """Return the number of nonzero weights of a batch and the number of all weights."""

    @abstractmethod
    def describe_weights(self, found: FoundT, batch: NliBatch) -> list[dict[str, Any]]:
        """Return the weights of each pair as JSON values, without padding."""

    @abstractmethod
    def weights_of(self, row: Mapping[str, Any], pair: NliExample, label: str) -> Weights:
        """Return one pair of :meth:`describe_weights` with its words."""

    def batches(self, epoch: int) -> LazyBatches[NliBatch]:
        """Return the training batches of one epoch."""
        pairs, size = self.data.train, self.config.training.batch_size
        batches = epoch_batches(pairs.sort_keys, size, self.config.seed, epoch)
        return LazyBatches(batches, lambda rows: pairs.collate(rows).to(self.device))

    def loss(self, batch: NliBatch) -> tuple[Tensor, Tensor]:
        """Return the mean loss per pair and the number of pairs, each of which has one label."""
        self.tally["pairs_per_second"] += len(batch)
        logits = self.read_batch(batch).logits.float()
        count = batch.labels.new_full((), len(batch))
        total: Tensor = self.criterion(logits, batch.labels)
        return total / count, count

    def read_batch(self, batch: NliBatch) -> FoundT:
        """Run the model on a batch."""
        with autocast(self.config, self.device):
            found: FoundT = self.model(batch)
        return found

    def validate(self) -> Validation:
        """Compute accuracy, mean loss and the percentage of nonzero weights on validation data."""
        found = self.predict_split(self.data.dev)
        accuracy = METRICS["label_accuracy"].value(found.labels)
        metrics = {"label_accuracy": accuracy, self.nonzeros: found.nonzeros}
        return Validation(found.loss, metrics)

    def evaluate(self, folder: RunFolder) -> Scores:
        """Score validation and test data; write predictions, statistics and weights for figures."""
        whole = Evaluation({}, {})
        for name, split in (("dev", self.data.dev), ("test", self.data.test)):
            found = self.predict_split(split)
            whole.update(score_outputs(name, found.labels))
            whole.values[f"{name}/{self.nonzeros}"] = found.nonzeros
            whole.values[f"{name}/label_loss"] = found.loss
            rows = zip(split.examples, found.labels.predicted, strict=True)
            write_rows(
                folder.predictions / f"{name}.jsonl",
                ({"id": example.pair_id, "label": label} for example, label in rows),
            )
        folder.write_statistics(whole.statistics)
        folder.write_attention(self.weight_rows(self.data.dev, self.stored_pairs()))
        return whole.values

    def stored_pairs(self) -> list[int]:
        """Return the positions of the validation pairs that figures may show."""
        texts = (" ".join(example.hypothesis) for example in self.data.dev.examples)
        return first_or_named(texts, self.settings.stored_examples, self.settings.shown)

    examples_file = "entailment.tsv"

    def write_own_examples(self, path: Path, folder: RunFolder) -> None:
        """Write labels and weights of the pairs of a file; see ``Illustrated``."""
        pairs = [
            replace(pair, pair_id=f"own{place}", label=self.data.labels.index(gold))
            for place, (pair, gold) in enumerate(own_examples(self.read, path))
        ]
        split = EncodedPairs(pairs, self.data.vocabulary)
        rows = self.weight_rows(split, range(len(pairs)))
        folder.write_attention([row | {"split": OWN_SPLIT} for row in rows])

    @torch.no_grad()
    def predict_split(self, split: EncodedPairs) -> Predictions:
        """Predict every pair of a split; the model should be in evaluation mode."""
        predicted: dict[int, int] = {}
        total, nonzero, cells = 0.0, 0, 0
        for batch in distributed.share(self._ordered(split, range(len(split)))):
            found = self.read_batch(batch)
            logits = found.logits.float()
            total += float(self.criterion(logits, batch.labels))
            labels = logits.argmax(1).tolist()
            predicted |= zip(batch.indices.tolist(), labels, strict=True)
            counted = self.count_weights(found, batch)
            nonzero, cells = nonzero + counted[0], cells + counted[1]
        parts = distributed.gather((total, nonzero, cells))
        total, nonzero, cells = (sum(part) for part in zip(*parts, strict=True))
        names = self.data.labels
        gold = [names[example.label] for example in split.examples]
        chosen = [names[label] for label in distributed.in_order(predicted)]
        return Predictions(Labels(gold, chosen), total / len(chosen), 100.0 * nonzero / cells)

    def preparation(self) -> dict[str, Any]:
        """Return the vocabulary and the labels; see ``Predictor``."""
        return {"words": self.data.vocabulary.tokens, "labels": self.data.labels}

    def read(self, lines: Iterable[tuple[int, str]], path: Path) -> Iterator[NliExample]:
        """Read pairs as TSV or JSON objects; see :func:`~repro.data.nli.read_unlabeled`."""
        data = self.config.data
        parsed, reading = data.source != "files", part_of(NliReading, data)
        return read_unlabeled(lines, path, reading, parsed, check_length)

    @torch.no_grad()
    def predict(
        self, examples: Sequence[NliExample], wanted: Wanted
    ) -> Iterator[tuple[int, Prediction]]:
        """Predict the label of each pair, with the probabilities of all labels."""
        split = EncodedPairs(examples, self.data.vocabulary)
        for batch in self._ordered(split, range(len(examples))):
            found = self.read_batch(batch)
            logits = found.logits.float()
            described = self.describe_weights(found, batch) if wanted.weights else []
            labels, probs = logits.argmax(1).tolist(), self.output_mapping(logits).tolist()
            for row, place in enumerate(batch.indices.tolist()):
                pair, label = examples[place], self.data.labels[labels[row]]
                shares = dict(zip(self.data.labels, probs[row], strict=True))
                kept = self.weights_of(described[row], pair, label) if described else Weights()
                words = [*pair.premise, *pair.hypothesis]
                prediction = Prediction(
                    label,
                    "\t".join([label, *(f"{name}={p:.4f}" for name, p in shares.items())]),
                    [*pair.premise, SEPARATOR, *pair.hypothesis],
                    [label],
                    math.log(shares[label]),
                    probabilities=shares,
                    unknown=[word for word in words if word not in self.data.vocabulary],
                    **kept._asdict(),
                )
                yield place, prediction

    @torch.no_grad()
    def weight_rows(self, split: EncodedPairs, places: Sequence[int]) -> list[dict[str, Any]]:
        """Return words, labels and weights of the pairs at some positions of a split."""
        rows: list[dict[str, Any]] = []
        for batch in self._ordered(split, places):
            found = self.read_batch(batch)
            labels = found.logits.argmax(1).tolist()
            described = self.describe_weights(found, batch)
            found_at = batch.indices.tolist()
            for place, label, weights in zip(found_at, labels, described, strict=True):
                example = split.examples[place]
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

    def _ordered(self, split: EncodedPairs, places: Sequence[int]) -> LazyBatches[NliBatch]:
        keys, size = split.sort_keys, self.settings.evaluation_batch
        batches = ordered_batches([keys[place] for place in places], size)
        chosen = [[places[number] for number in batch] for batch in batches]
        return LazyBatches(chosen, lambda rows: split.collate(rows).to(self.device))
