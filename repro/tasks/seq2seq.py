"""Shared by every task on source–target pairs: model, loss, statistics, search."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from repro.config.schema.mapping import BoundedConfig
from repro.config.schema.seq2seq import Seq2SeqRun
from repro.data.arrow import ArrowPairs
from repro.data.batching import Seq2SeqBatch, collate, epoch_batches, ordered_batches
from repro.data.pair import Pair
from repro.data.vocabulary import Vocabulary
from repro.decoding import BeamResult, StepModel, beam_search
from repro.models.seq2seq import (
    AttentionNormalizer,
    BoundedNormalizer,
    Fertility,
    FreeNormalizer,
    Seq2Seq,
)
from repro.tasks.common import LazyBatches, autocast
from repro.tasks.instantiate import (
    build_bounded_mapping,
    build_linear_loss,
    build_loss,
    build_loss_mapping,
    build_mapping,
)
from repro.training import distributed

STOP = "</s>"
"""The end of an output in the files of examples."""
LARGE_VOCABULARY = 16_384
"""Number of target symbols from which the scores of a batch are not held, where that is faster."""


@dataclass(frozen=True)
class TeacherForcedStatistics:
    """Means over all target symbols of a split, each predicted from the gold symbols before it.

    Attributes:
        loss: per symbol.
        attention_nonzeros: source positions with nonzero weight.
        output_nonzeros: target symbols with nonzero probability.
        accuracy: share of symbols with the largest score, between 0 and 1.
    """

    loss: float
    attention_nonzeros: float
    output_nonzeros: float
    accuracy: float

    @property
    def nonzeros(self) -> dict[str, float]:
        """Both counts by name, as validations and evaluations report them."""
        return {
            "attention_nonzeros": self.attention_nonzeros,
            "output_nonzeros": self.output_nonzeros,
        }


class Seq2SeqTask:
    """A sequence-to-sequence model with its loss: a base of ``repro.tasks.protocol.Task``.

    Args:
        config: configuration of the run.
        source: source vocabulary.
        target: target vocabulary.
        splits: pairs by split, ``train`` and ``dev`` among them.
        device: where the model lives.
        coverage_vector: whether attention scores see the cumulative attention.
        fertility: bounds of the cumulative attention; bounded mappings need it.
    """

    tally: Mapping[str, float] = MappingProxyType({})
    min_length = 0
    """Fewest symbols of an output that a search finds."""

    def __init__(
        self,
        config: Seq2SeqRun,
        source: Vocabulary,
        target: Vocabulary,
        splits: Mapping[str, Sequence[Pair]],
        device: torch.device,
        coverage_vector: bool = False,
        fertility: Fertility | None = None,
    ) -> None:
        self.config, self.splits, self.device = config, splits, device
        model, mapping = config.model, config.mapping
        normalizer: AttentionNormalizer
        if isinstance(mapping, BoundedConfig) and fertility is not None:
            normalizer = BoundedNormalizer(build_bounded_mapping(mapping), mapping.exhaustion)
        else:  # refuses a bounded mapping
            normalizer = FreeNormalizer(build_mapping(mapping))
        self.output_mapping = build_loss_mapping(config.loss)
        self.criterion = build_loss(config.loss, self.output_mapping, Vocabulary.PAD)
        large = len(target) >= LARGE_VOCABULARY
        self.linear_loss = build_linear_loss(config.loss, Vocabulary.PAD) if large else None
        self.model = Seq2Seq(
            len(source),
            len(target),
            embedding_size=model.embedding_size,
            hidden_size=model.hidden_size,
            layers=model.layers,
            dropout=model.dropout,
            normalizer=normalizer,
            output_mapping=self.output_mapping,
            coverage_vector=coverage_vector,
            fertility=fertility,
            bidirectional=model.bidirectional,
        )
        initialise(self.model, model.init_range)
        self.model.to(device)
        if config.hardware.compile:
            self.model.decoder.compile_step()

    def batches(self, epoch: int) -> LazyBatches[Seq2SeqBatch]:
        """Training batches of one epoch."""
        pairs, size = self.splits["train"], self.config.training.batch_size
        batches = epoch_batches(source_lengths(pairs), size, self.config.seed, epoch)
        return LazyBatches(batches, lambda indices: collate(pairs, indices).to(self.device))

    def ordered(self, pairs: Sequence[Pair]) -> LazyBatches[Seq2SeqBatch]:
        """Evaluation batches, every pair once."""
        batches = ordered_batches(source_lengths(pairs), self.config.decoding.batch_size)
        return LazyBatches(batches, lambda indices: collate(pairs, indices).to(self.device))

    def loss(self, batch: Seq2SeqBatch) -> tuple[Tensor, Tensor]:
        """Loss per sentence, and the number of target symbols (with the stop symbols)."""
        symbols = (batch.target != Vocabulary.PAD).sum()
        if self.linear_loss is not None:  # a few tokens' scores at a time
            layer = self.model.scores
            with autocast(self.config, self.device):
                hidden, _ = self.model.outputs(batch.source, batch.source_lengths, batch.target)
                losses = self.linear_loss(hidden, layer.weight, layer.bias, batch.target)
            return losses.float().sum() / len(batch), symbols
        with autocast(self.config, self.device):
            scores = self.model(batch.source, batch.source_lengths, batch.target).scores
        return self.criterion(scores.float(), batch.target) / len(batch), symbols

    def validation_statistics(self) -> TeacherForcedStatistics:
        """Loss and sparsity on the validation data; the model should be in evaluation mode."""
        return self.teacher_forced(self.ordered(self.splits["dev"]))

    @torch.no_grad()
    def teacher_forced(self, batches: Iterable[Seq2SeqBatch]) -> TeacherForcedStatistics:
        """Loss and sparsity over some batches; the model should be in evaluation mode."""
        totals = torch.zeros(4, dtype=torch.float64, device=self.device)
        symbols = 0
        for batch in distributed.share(batches):
            with autocast(self.config, self.device):
                forced = self.model(batch.source, batch.source_lengths, batch.target)
            scores, real = forced.scores.float(), batch.target != Vocabulary.PAD
            attended = (forced.attention > 0).sum(-1)[real].sum()
            supported = (self.output_mapping(scores) > 0).sum(-1)[real].sum()
            right = (scores.argmax(-1) == batch.target)[real].sum()
            loss = self.criterion(scores, batch.target).double()
            totals += torch.stack([loss, attended, supported, right])
            symbols += int(real.sum())
        parts = distributed.gather((totals.cpu(), symbols))
        totals = torch.stack([part for part, _ in parts]).sum(0)
        return TeacherForcedStatistics(*(totals / sum(number for _, number in parts)).tolist())

    def search(
        self,
        model: StepModel[Any],
        pairs: Sequence[Pair],
        *,
        beam_size: int | None = None,
        keep_attention: bool = False,
    ) -> list[BeamResult]:
        """Search for the outputs of a whole split with the settings of the run.

        Args:
            model: in evaluation mode, on the device of the task.
            pairs: pairs of the split; targets are not looked at.
            beam_size: in place of the one of the settings.
            keep_attention: whether hypotheses carry their attention.

        Returns:
            One result for each pair, in the order of the pairs.
        """
        decoding, results = self.config.decoding, dict[int, BeamResult]()
        batches = ordered_batches(source_lengths(pairs), decoding.batch_size)
        for indices in distributed.share(batches):
            batch = collate(pairs, indices).to(self.device)
            found = beam_search(
                model,
                batch.source,
                batch.source_mask,
                beam_size=beam_size or decoding.beam_size,
                max_length=decoding.max_length,
                keep_attention=keep_attention,
                min_length=self.min_length,
            )
            results.update(zip(indices, found, strict=True))
        results = distributed.merge(results)
        return [results[number] for number in range(len(results))]


def initialise(model: Seq2Seq, bound: float) -> None:
    """Draw every parameter uniformly from ``[-bound, bound]``, and zero the padding embeddings.

    Parameters of mappings keep their values, and so does what has been learned of fertilities.

    References:
        OpenNMT draws from ``[-0.1, 0.1]``; the sequence-to-sequence papers trained with it.
    """
    for name, parameter in model.named_parameters():
        if "mapping" not in name and not name.startswith("fertility."):
            nn.init.uniform_(parameter, -bound, bound)
    for embedding in (model.encoder.embedding, model.embedding):
        embedding.weight.data[Vocabulary.PAD].zero_()


def source_lengths(pairs: Sequence[Pair]) -> list[int]:
    """Number of source symbols of every pair; pairs on disk are not read for it."""
    if isinstance(pairs, ArrowPairs):
        return pairs.source_lengths.tolist()
    return [len(pair.source) for pair in pairs]
