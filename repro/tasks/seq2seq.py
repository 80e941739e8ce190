"""Base of all tasks on source–target pairs: model, loss, statistics, search."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

import torch
from torch import Tensor

from repro.config.errors import ConfigError
from repro.config.schema.mapping import BoundedConfig
from repro.config.schema.seq2seq import Seq2SeqRun
from repro.data.arrow import ArrowPairs
from repro.data.batching import Seq2SeqBatch, collate, epoch_batches, ordered_batches
from repro.data.pair import Pair
from repro.data.vocabulary import END, Vocabulary
from repro.decoding import BeamResult, Hypothesis, StepModel, beam_search
from repro.losses import FenchelYoungLoss
from repro.models.seq2seq.attention import AttentionNormalizer, BoundedNormalizer
from repro.models.seq2seq.fertility import Fertility
from repro.models.seq2seq.translator import LinearTranslator, TranslatorParts
from repro.prediction import Alternative, AttentionMap, Prediction, Wanted, shorten
from repro.tasks.common import LazyBatches, autocast
from repro.tasks.instantiate import (
    build_bounded_mapping,
    build_linear_loss,
    build_loss_mapping,
    build_mapping,
    build_translator,
)
from repro.training import distributed
from repro.training.graphs import Replays

LARGE_VOCABULARY = 16_384
"""Target vocabularies of at least this size use :func:`build_linear_loss` on a CPU."""


@dataclass(frozen=True)
class TeacherForcedStatistics:
    """Means over the target symbols of a split, each predicted from the gold symbols before it.

    Attributes:
        loss: loss per symbol.
        attention_nonzeros: number of source positions with nonzero weight.
        attention_spread: standard deviation of the attention scores over the source positions.
        output_nonzeros: number of target symbols with nonzero probability.
        accuracy: fraction of steps at which the gold symbol has the largest score.
    """

    loss: float
    attention_nonzeros: float
    attention_spread: float
    output_nonzeros: float
    accuracy: float

    @property
    def sparsity(self) -> dict[str, float]:
        """Counts of nonzeros and the spread of scores under the names of their metrics."""
        return {
            "attention_nonzeros": self.attention_nonzeros,
            "attention_spread": self.attention_spread,
            "output_nonzeros": self.output_nonzeros,
        }


class Encoded(Protocol):
    """Source with its ids and, as words, the symbols that the model reads."""

    @property
    def source(self) -> Sequence[str]:
        """Symbols of the source."""

    @property
    def pair(self) -> Pair:
        """Ids of the source; those of the target are ignored."""


class Seq2SeqTask:
    """Sequence-to-sequence model with its loss: base of implementations of ``Task``.

    ``splits`` has at least ``train`` and ``dev``. Bounded mappings require ``fertility``, the
    bounds of the cumulative attention.
    """

    tally: Mapping[str, float] = MappingProxyType({})
    min_length = 0
    """Minimum number of symbols of an output of :meth:`search`."""
    needs_attention = False
    """Whether outputs depend on the attention of the hypotheses."""

    def __init__(
        self,
        config: Seq2SeqRun,
        source: Vocabulary,
        target: Vocabulary,
        splits: Mapping[str, Sequence[Pair]],
        device: torch.device,
        fertility: Fertility | None = None,
    ) -> None:
        self.config, self.splits, self.device = config, splits, device
        self.target_symbols = target.tokens
        mapping = config.mapping
        if isinstance(mapping, BoundedConfig) and fertility is not None:
            normalizer: AttentionNormalizer = BoundedNormalizer(
                build_bounded_mapping(mapping), mapping.exhaustion, mapping.detach_exhaustion
            )
        else:  # build_mapping refuses a bounded mapping
            normalizer = AttentionNormalizer(build_mapping(mapping))
        self.output_mapping = build_loss_mapping(config.loss)
        self.criterion = FenchelYoungLoss(self.output_mapping, Vocabulary.PAD, "sum")
        parts = TranslatorParts(
            len(source), len(target), normalizer, self.output_mapping, fertility
        )
        self.fertility, self.model = fertility, build_translator(config.model, parts).to(device)
        graphs = config.training.graphs == "auto"
        self._statistics = Replays(self._forced_totals, device, graphs)
        # Chunks of scores save memory and time on a CPU; on accelerators they would synchronize.
        large = len(target) >= LARGE_VOCABULARY and device.type == "cpu"
        self.linear_loss = build_linear_loss(config.loss, Vocabulary.PAD) if large else None

    def batches(self, epoch: int) -> LazyBatches[Seq2SeqBatch]:
        """Return the training batches of one epoch."""
        pairs, size = self.splits["train"], self.config.training.batch_size
        batches = epoch_batches(source_lengths(pairs), size, self.config.seed, epoch)
        return LazyBatches(batches, lambda indices: self._bounded(collate(pairs, indices)))

    def _bounded(self, batch: Seq2SeqBatch) -> Seq2SeqBatch:
        """Copy a batch to the device, with the bounds that are looked up on the host, if any."""
        if self.fertility is not None and self.fertility.aligned is not None:
            bounds = self.fertility.aligned.bounds(batch.source, batch.source_lengths)
            batch = replace(batch, fertility=bounds)
        return batch.to(self.device)

    def ordered(self, pairs: Sequence[Pair]) -> LazyBatches[Seq2SeqBatch]:
        """Return evaluation batches that hold every pair once."""
        batches = ordered_batches(source_lengths(pairs), self.config.decoding.batch_size)
        return LazyBatches(batches, lambda indices: collate(pairs, indices).to(self.device))

    def loss(self, batch: Seq2SeqBatch) -> tuple[Tensor, Tensor]:
        """Return the loss per sentence and the number of target symbols, ``</s>`` included."""
        symbols = (batch.target != Vocabulary.PAD).sum()
        inputs = (batch.source, batch.source_lengths, batch.target, batch.fertility)
        if self.linear_loss is not None and isinstance(self.model, LinearTranslator):
            layer = self.model.scores  # computed for a few symbols at a time
            with autocast(self.config, self.device):
                hidden, *_ = self.model.outputs(*inputs)
                losses = self.linear_loss(hidden, layer.weight, layer.bias, batch.target)
            return losses.float().sum() / len(batch), symbols
        with autocast(self.config, self.device):
            scores = self.model(*inputs).scores
        return self.criterion(scores.float(), batch.target) / len(batch), symbols

    @torch.no_grad()
    def teacher_forced(self, pairs: Sequence[Pair]) -> TeacherForcedStatistics:
        """Compute loss and sparsity over pairs; the model must be in evaluation mode."""
        totals = torch.zeros(6, dtype=torch.float64, device=self.device)
        for batch in distributed.share(self.ordered(pairs)):
            totals += self._statistics(batch)
        *sums, symbols = torch.stack(distributed.gather(totals.cpu())).sum(0)
        return TeacherForcedStatistics(*(one.item() / symbols.item() for one in sums))

    def _forced_totals(self, batch: Seq2SeqBatch) -> Tensor:
        """Return sums over the target symbols of a batch, and their number; reads no value."""
        with autocast(self.config, self.device):
            forced = self.model(batch.source, batch.source_lengths, batch.target)
        scores, mask = forced.scores.float(), batch.target != Vocabulary.PAD
        by_symbol = [
            (forced.attention > 0).sum(-1),
            standard_deviation(forced.attention_scores, batch.source_mask.unsqueeze(1)),
            (self.output_mapping(scores) > 0).sum(-1),
            scores.argmax(-1) == batch.target,
            mask,
        ]
        loss = self.criterion(scores, batch.target).double()
        return torch.stack([loss, *(one.where(mask, 0).double().sum() for one in by_symbol)])

    def search(
        self,
        model: StepModel[Any],
        pairs: Sequence[Pair],
        *,
        beam_size: int | None = None,
        keep_attention: bool = False,
    ) -> list[BeamResult]:
        """Run beam search with the settings of the run; return one result for each pair in order.

        The model is in evaluation mode, on the device of the task. Targets are ignored. A
        ``beam_size`` replaces ``decoding.beam_size``.
        """
        size = beam_size or self.config.decoding.beam_size
        return distributed.in_order(
            dict(self.search_in_batches(model, pairs, size, keep_attention))
        )

    def search_in_batches(
        self, model: StepModel[Any], pairs: Sequence[Pair], beam_size: int, keep_attention: bool
    ) -> Iterator[tuple[int, BeamResult]]:
        """Yield the position of each pair with its result; see :meth:`search`."""
        decoding = self.config.decoding
        for batch in distributed.share(self.ordered(pairs)):
            found = beam_search(
                model,
                batch.source,
                batch.source_lengths,
                beam_size=beam_size,
                max_length=decoding.max_length,
                keep_attention=keep_attention,
                min_length=self.min_length,
            )
            yield from zip(batch.indices.tolist(), found, strict=True)

    def ranked(self, result: BeamResult) -> Sequence[Hypothesis]:
        """Return the hypotheses of a search, best first."""
        return result.hypotheses

    def symbols(self, hypothesis: Hypothesis) -> list[str]:
        """Return one symbol for each row of the attention, the end symbol included."""
        return [self.target_symbols[n] for n in hypothesis.tokens] + [END] * hypothesis.finished

    def text(self, hypothesis: Hypothesis) -> str:
        """Return a hypothesis as text."""
        raise NotImplementedError

    def line(self, example: Any, output: str) -> str:
        """Return the line that ``repro predict`` prints for an output."""
        return output

    def predict(
        self, examples: Sequence[Encoded], wanted: Wanted
    ) -> Iterator[tuple[int, Prediction]]:
        """Search with the settings of the run; see ``repro.tasks.protocol.Predictor``.

        Raises:
            ConfigError: more outputs are requested than the beam holds.
        """
        size = self.config.decoding.beam_size
        if wanted.n_best > size:
            raise ConfigError(
                f"{wanted.n_best} best outputs are requested, but decoding.beam_size is {size}"
            )
        pairs = [example.pair for example in examples]
        keep = wanted.weights or self.needs_attention
        for place, result in self.search_in_batches(self.model, pairs, size, keep):
            yield place, self._prediction(examples[place], result, wanted)

    def _prediction(self, example: Encoded, result: BeamResult, wanted: Wanted) -> Prediction:
        ranked = self.ranked(result)
        ids = zip(example.source, example.pair.source, strict=True)
        unknown = [symbol for symbol, number in ids if number == Vocabulary.UNK]
        if not ranked:  # every prefix ran into a row of zeros
            line = self.line(example, "")
            return Prediction("", line, example.source, exact=False, unknown=unknown)
        best, count = ranked[0], wanted.n_best
        outputs = [Alternative(self.text(one), one.log_probability) for one in ranked[:count]]
        target = self.symbols(best)
        kept = best.attention if wanted.weights else None
        return Prediction(
            outputs[0].output,
            self.line(example, outputs[0].output),
            example.source,
            target,
            best.log_probability,
            exact=result.optimal and best is result.hypotheses[0],
            attention=None if kept is None else AttentionMap(kept, target, example.source),
            n_best=outputs if count > 1 else (),
            unknown=unknown,
        )


def stored_attention(hypothesis: Hypothesis) -> list[list[float]]:
    """Return the attention of a hypothesis, rounded, as JSON values."""
    assert hypothesis.attention is not None
    return [[shorten(value) for value in row] for row in hypothesis.attention.tolist()]


def standard_deviation(values: Tensor, mask: Tensor) -> Tensor:
    """Return the deviation of the entries with a true ``mask`` along the last dimension."""
    number, values = mask.sum(-1, keepdim=True), values.masked_fill(~mask, 0)
    centered = (values - values.sum(-1, keepdim=True) / number) * mask
    return (centered.square().sum(-1) / number.squeeze(-1)).sqrt()


def source_lengths(pairs: Sequence[Pair]) -> list[int]:
    """Return the number of source symbols of every pair, without reading pairs stored on disk."""
    if isinstance(pairs, ArrowPairs):
        return pairs.source_lengths.tolist()
    return [len(pair.source) for pair in pairs]
