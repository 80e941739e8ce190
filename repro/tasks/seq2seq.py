"""What every task on source–target pairs shares: model, loss, teacher-forced statistics."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from repro.config.instantiate import build_loss, build_loss_mapping, build_mapping
from repro.config.schema import FenchelYoungLossConfig, RunConfig
from repro.config.schema.seq2seq import BeamConfig, Seq2SeqConfig
from repro.data.batching import Pair, Seq2SeqBatch, collate, epoch_batches, ordered_batches
from repro.data.vocabulary import Vocabulary
from repro.models.seq2seq import FreeWeighting, Seq2Seq


class LazyBatches(Sequence[Seq2SeqBatch]):
    """Batches that are padded and moved to the device only when they are taken."""

    def __init__(
        self, pairs: Sequence[Pair], batches: list[list[int]], device: torch.device
    ) -> None:
        self._pairs, self._batches, self._device = pairs, batches, device

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Seq2SeqBatch:  # type: ignore[override]  # no slices
        return collate(self._pairs, self._batches[index]).to(self._device)


@dataclass(frozen=True)
class TeacherForcedStatistics:
    """Means over all target symbols of a split, each predicted from the gold symbols before it.

    Attributes:
        loss: per symbol.
        attention_nonzeros: source positions with nonzero weight.
        output_nonzeros: target symbols with nonzero probability.
    """

    loss: float
    attention_nonzeros: float
    output_nonzeros: float


class Seq2SeqTraining:
    """A sequence-to-sequence model with its loss.

    Args:
        config: of the run.
        source: source vocabulary.
        target: target vocabulary.
        device: where the model lives.
    """

    def __init__(
        self, config: RunConfig, source: Vocabulary, target: Vocabulary, device: torch.device
    ) -> None:
        self.config, self.device = config, device
        model, decoding = config.model, config.decoding
        assert isinstance(config.loss, FenchelYoungLossConfig)
        assert isinstance(model, Seq2SeqConfig)
        assert isinstance(decoding, BeamConfig)
        assert config.mapping is not None
        self.evaluation_batch = decoding.batch_size
        self.output_mapping = build_loss_mapping(config.loss)
        self.criterion = build_loss(config.loss, self.output_mapping, Vocabulary.PAD)
        self.model = Seq2Seq(
            len(source),
            len(target),
            embedding_size=model.embedding_size,
            hidden_size=model.hidden_size,
            layers=model.layers,
            dropout=model.dropout,
            weighting=FreeWeighting(build_mapping(config.mapping)),
            output_mapping=self.output_mapping,
        )
        initialise(self.model)
        self.model.to(device)

    def epoch(self, pairs: Sequence[Pair], epoch: int) -> LazyBatches:
        """Training batches of one epoch."""
        lengths = [len(pair.source) for pair in pairs]
        size = self.config.training.batch_size
        return LazyBatches(
            pairs, epoch_batches(lengths, size, self.config.seed, epoch), self.device
        )

    def ordered(self, pairs: Sequence[Pair]) -> LazyBatches:
        """Evaluation batches, every pair once."""
        lengths = [len(pair.source) for pair in pairs]
        batches = ordered_batches(lengths, self.evaluation_batch)
        return LazyBatches(pairs, batches, self.device)

    def loss(self, batch: Seq2SeqBatch) -> Tensor:
        """Sum of the losses of a batch over its symbols, per sentence."""
        with self._autocast():
            scores = self.model(batch.source, batch.source_lengths, batch.target).scores
        return self.criterion(scores.float(), batch.target) / len(batch)

    @torch.no_grad()
    def teacher_forced(self, batches: Iterable[Seq2SeqBatch]) -> TeacherForcedStatistics:
        """Loss and sparsity over a split; the model should be in evaluation mode."""
        totals = torch.zeros(3, dtype=torch.float64, device=self.device)
        symbols = 0
        for batch in batches:
            totals += self._batch_totals(batch)
            symbols += int((batch.target != Vocabulary.PAD).sum())
        return TeacherForcedStatistics(*(totals / symbols).tolist())

    def _batch_totals(self, batch: Seq2SeqBatch) -> Tensor:
        with self._autocast():
            forced = self.model(batch.source, batch.source_lengths, batch.target)
        scores, real = forced.scores.float(), batch.target != Vocabulary.PAD
        attended = (forced.attention > 0).sum(-1)[real].sum()
        supported = (self.output_mapping(scores) > 0).sum(-1)[real].sum()
        return torch.stack([self.criterion(scores, batch.target).double(), attended, supported])

    def _autocast(self) -> AbstractContextManager[None]:
        enabled = self.config.precision == "bf16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=enabled)


def initialise(model: nn.Module, bound: float = 0.1) -> None:
    """Draw every parameter uniformly from ``[-bound, bound]``, and zero the padding embeddings.

    References:
        OpenNMT's default, with which the sequence-to-sequence papers trained.
    """
    for name, parameter in model.named_parameters():
        if "mapping" not in name:
            nn.init.uniform_(parameter, -bound, bound)
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight.data[module.padding_idx].zero_()
