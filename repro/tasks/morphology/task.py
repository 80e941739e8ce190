"""Training and evaluation of one multilingual inflection model."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import cast

import torch
from torch import Tensor

from repro.config.schema.morphology import MorphologyConfig, MorphologyRun
from repro.data.batching import Seq2SeqBatch
from repro.data.vocabulary import Vocabulary
from repro.decoding import Ensemble
from repro.models.seq2seq import Seq2Seq
from repro.results import RunFolder
from repro.tasks.batches import LazyBatches
from repro.tasks.morphology.corpus import EncodedCorpus, encode_corpus
from repro.tasks.morphology.evaluation import Evaluator
from repro.tasks.protocol import Scores, Task
from repro.tasks.seq2seq import Seq2SeqTraining
from repro.training.protocol import Validation


class MorphologyTask:
    """A model for all languages of a corpus; see ``repro.tasks.protocol.Task``."""

    selectors = MorphologyConfig.selectors
    tally: Mapping[str, float] = MappingProxyType({})

    def __init__(self, config: MorphologyRun, data: EncodedCorpus, device: torch.device) -> None:
        self.data = data
        self.training = Seq2SeqTraining(config, data.source, data.target, device)
        self.model: Seq2Seq = self.training.model
        self.evaluator = Evaluator(config, data, device)

    def batches(self, epoch: int) -> LazyBatches[Seq2SeqBatch]:
        """Training batches of one epoch."""
        return self.training.epoch(self.data.train, epoch)

    def loss(self, batch: Seq2SeqBatch) -> tuple[Tensor, Tensor]:
        """Loss per sentence, and the number of target symbols (with the stop symbols)."""
        return self.training.loss(batch), (batch.target != Vocabulary.PAD).sum()

    def validate(self) -> Validation:
        """Teacher-forced loss and nonzero weights, and mean accuracy over languages (greedy)."""
        statistics = self.training.teacher_forced(self.training.ordered(self.data.dev))
        accuracy = self.evaluator.greedy_accuracy(self.model)
        return Validation(statistics.loss, {"accuracy": accuracy, **statistics.nonzeros})

    def evaluate(self, folder: RunFolder) -> Scores:
        """Beam search on validation and test data, certificates, sparsity, stored examples."""
        statistics = self.training.teacher_forced(self.training.ordered(self.data.dev))
        scores = self.evaluator.evaluate(self.model, folder)
        scores["dev/loss"] = statistics.loss
        return scores | {f"dev/{name}": value for name, value in statistics.nonzeros.items()}


def build(config: MorphologyRun, device: torch.device) -> MorphologyTask:
    """Read the corpus and make an untrained model; the random state decides its weights."""
    return MorphologyTask(config, encode_corpus(config), device)


def evaluate_ensemble(members: Sequence[Task[Seq2SeqBatch]], folder: RunFolder) -> Scores:
    """Evaluate several models that average their raw probabilities at every step.

    References:
        Peters et al. (2019), §4.1.
    """
    tasks = [cast(MorphologyTask, member) for member in members]
    return tasks[0].evaluator.evaluate(Ensemble([task.model for task in tasks]), folder)
