"""LSTM encoder, LSTM decoder with input feeding, and the model that combines them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from repro.config.schema.seq2seq import Seq2SeqConfig, TranslatorConfig
from repro.data.vocabulary import Vocabulary
from repro.decoding.protocol import StepOutput
from repro.models.layers import Dropout, dropout_mask, length_mask, lstm_precision, lstm_states
from repro.models.seq2seq.attention import (
    Attention,
    AttentionProducts,
    AttentionState,
    FeedForwardAttention,
    GlobalAttention,
)
from repro.models.seq2seq.lstm_cell import lstm_step
from repro.models.seq2seq.outputs import attentional_outputs
from repro.models.seq2seq.step_products import StepProduct, product_dtype, step_products, sum_dtype
from repro.models.seq2seq.translator import LinearTranslator, TranslatorParts, shifted


@dataclass
class Encoding:
    """Output of the encoder for the decoder.

    The memory is in bfloat16 if the LSTM computes in it; the last states are in float32 at least.
    """

    memory: Tensor  # states of the source symbols, (batch, source, hidden), zero at padding
    hidden: Tensor  # last state of each layer, (layers, batch, hidden), directions joined
    cell: Tensor  # last cell state of each layer, likewise


class LstmEncoder(nn.Module):
    """Encoder with LSTM layers over embedded symbols.

    References:
        Peters et al. (2019), §2, *Encoder* (both directions); Niculae & Blondel (2017), C.3 (one).
    """

    def __init__(self, vocabulary: int, config: Seq2SeqConfig) -> None:
        super().__init__()
        size = config.embedding_size
        self.bidirectional = config.bidirectional
        self.embedding = nn.Embedding(vocabulary, size, padding_idx=Vocabulary.PAD)
        self.dropout = _embedding_dropout(config)
        self.lstm = nn.LSTM(
            size,
            config.hidden_size // 2 if config.bidirectional else config.hidden_size,
            num_layers=config.layers,
            dropout=config.dropout if config.layers > 1 else 0.0,
            bidirectional=config.bidirectional,
            batch_first=True,
        )

    def forward(self, source: Tensor, lengths: Tensor) -> Encoding:
        """Encode ids ``(batch, source)``, padded with 0, of ``lengths`` ``(batch,)``."""
        embedded = self.dropout(self.embedding(source))
        with lstm_precision(source.device):
            memory, (hidden, cell) = lstm_states(self.lstm, embedded, lengths)
        if self.bidirectional:  # from (2 layers, batch, h) to (layers, batch, 2 h)
            hidden, cell = (torch.cat([one[0::2], one[1::2]], dim=-1) for one in (hidden, cell))
        return Encoding(memory, hidden.to(sum_dtype(hidden)), cell.to(sum_dtype(cell)))


def _embedding_dropout(config: Seq2SeqConfig) -> Dropout:
    own = config.embedding_dropout
    return Dropout(config.dropout if own is None else own)


@dataclass
class DecoderState:
    """Decoder state between two steps; every tensor has one row for each hypothesis."""

    hidden: tuple[Tensor, ...]  # of each layer, (rows, units)
    cell: tuple[Tensor, ...]  # of each layer, (rows, units)
    feed: Tensor  # the previous attentional output, (rows, units)
    source: AttentionState

    def select(self, rows: Tensor, same_sources: bool = False) -> "DecoderState":
        """Gather rows, which may repeat."""
        return DecoderState(
            tuple(layer[rows] for layer in self.hidden),
            tuple(layer[rows] for layer in self.cell),
            self.feed[rows],
            self.source.select(rows, same_sources),
        )


class Decoded(NamedTuple):
    """Outputs ``o_t`` and attention of several steps, and the state after the last."""

    outputs: Tensor  # (rows, steps, units)
    attention: Tensor  # weights, (rows, steps, source)
    attention_scores: Tensor  # before the mapping, likewise
    state: DecoderState


class _Step(NamedTuple):
    """Products of one step, and its dropout masks."""

    gates: tuple[StepProduct, ...]
    output: StepProduct
    attention: AttentionProducts
    masks: Sequence[Tensor | None]  # of the output, then of the inputs of the upper layers


class InputFeedingDecoder(nn.Module):
    r"""Decoder with LSTM layers that read the previous symbol and attentional output.

    .. math:: o_t = \tanh(W^{(o)} [s_t; c_t] + b^{(o)})

    The papers' programs have no ``b^{(o)}``, which Peters et al. (2019) print: see ``output_bias``.

    Everything that does not depend on earlier steps is computed for all steps at once: the
    contribution of the symbols to the gates of the first layer, the dropout masks, and in the
    backward pass the gradients of all matrices (:mod:`repro.models.seq2seq.step_products`).

    References:
        Peters et al. (2019), §2, *Decoder*; Luong et al. (2015), input feeding.
    """

    def __init__(self, config: Seq2SeqConfig, attention: Attention) -> None:
        super().__init__()
        units = config.hidden_size
        sizes = [config.embedding_size + units] + [units] * (config.layers - 1)
        self.cells = nn.ModuleList(nn.LSTMCell(size, units) for size in sizes)
        self.dropout = config.dropout
        self.attention = attention
        self.output = nn.Linear(2 * units, units, bias=config.output_bias)

    def start(
        self, encoding: Encoding, mask: Tensor, fertility: Tensor | None = None
    ) -> DecoderState:
        """Return the initial state: the encoder's last states, and a zero attentional output.

        ``mask`` is true at real source positions; ``fertility`` bounds the cumulative attention.
        """
        return DecoderState(
            encoding.hidden.unbind(0),
            encoding.cell.unbind(0),
            torch.zeros_like(encoding.hidden[0]),
            self.attention.attend_to(encoding.memory, mask, fertility),
        )

    def forward(self, state: DecoderState, embedded: Tensor) -> Decoded:
        """Take one step after each given symbol, embedded as ``(rows, steps, embedding)``."""
        outputs, attention = [], []
        for step in self._steps(state.source, embedded):
            output, weights, scores, state = self._step(state, step)
            outputs.append(output)
            attention += [weights, scores]
        # One operator for both, as training needs neither.
        weights, scores = torch.stack(attention, dim=1).unflatten(1, (-1, 2)).unbind(2)
        return Decoded(torch.stack(outputs, dim=1), weights, scores, state)

    def _steps(self, source: AttentionState, embedded: Tensor) -> list[_Step]:
        """Compute everything that does not depend on earlier steps, for all steps at once."""
        rows, steps, embedding_size = embedded.shape
        dtype, units = product_dtype(embedded), self.output.out_features
        first, *upper = cast(Iterable[nn.LSTMCell], self.cells)
        symbol_weight, feed_weight = first.weight_ih.split([embedding_size, units], dim=1)
        symbols = embedded.transpose(0, 1).flatten(0, 1)
        base = F.linear(symbols, symbol_weight).to(embedded.dtype) + (first.bias_ih + first.bias_hh)
        gates = [step_products(base, torch.cat([feed_weight, first.weight_hh], 1), steps, dtype)]
        for cell in upper:
            base = (cell.bias_ih + cell.bias_hh).expand(steps * rows, -1)
            matrix = torch.cat([cell.weight_ih, cell.weight_hh], 1)
            gates.append(step_products(base, matrix, steps, dtype))
        bias = first.bias_ih.new_zeros(units) if self.output.bias is None else self.output.bias
        base = bias.expand(steps * rows, -1)
        output = step_products(base, self.output.weight, steps, dtype)
        masks: Sequence[Sequence[Tensor | None]] = [[None] * len(gates)] * steps
        if self.training and self.dropout:
            drawn = dropout_mask((steps, len(gates), rows, units), self.dropout, embedded)
            masks = [one.unbind() for one in drawn.unbind()]
        attention = self.attention.products(source, steps)
        layers = zip(*gates, strict=True)
        return [_Step(*step) for step in zip(layers, output, attention, masks, strict=True)]

    def _step(
        self, state: DecoderState, step: _Step
    ) -> tuple[Tensor, Tensor, Tensor, DecoderState]:
        """Return ``o_t``, attention weights and scores, ``(rows, source)``, and the next state."""
        hidden, cell = [], []
        below, last = state.feed, len(step.gates) - 1
        for layer, gates in enumerate(step.gates):
            # Uses: the next step and the layer above, or attention and output above the last one.
            uses, mask = (3, None) if layer == last else (2, step.masks[layer + 1])
            (after, below, *top), c = lstm_step(
                gates, below, state.hidden[layer], state.cell[layer], uses, mask
            )
            hidden.append(after)
            cell.append(c)
        context, weights, scores = self.attention(below, state.source, step.attention)
        feed, output = attentional_outputs(step.output(*top, context), step.masks[0])
        source = state.source.after(weights)
        return output, weights, scores, DecoderState(tuple(hidden), tuple(cell), feed, source)


class Seq2Seq(LinearTranslator):
    """LSTM encoder and input-feeding LSTM decoder with any attention and output mapping.

    Every parameter is drawn uniformly from ``[-init_range, init_range]``, but embeddings of padding
    are zero, and parameters of mappings and of a trained fertility model keep their values.

    References:
        Peters et al. (2019), §2; Malaviya et al. (2018), §2 to §4. OpenNMT, which the papers use,
        draws from ``[-0.1, 0.1]``.
    """

    def __init__(self, config: Seq2SeqConfig, parts: TranslatorParts) -> None:
        super().__init__()
        size, coverage, of_memory = config.hidden_size, False, False
        if isinstance(config, TranslatorConfig):
            coverage, of_memory = config.coverage_vector, config.coverage_of == "memory"
        attention: Attention
        if config.attention == "mlp":
            attention = FeedForwardAttention(size, size, parts.normalizer, coverage)
        else:
            attention = GlobalAttention(size, size, parts.normalizer, coverage, of_memory)
        self.encoder = LstmEncoder(parts.source_size, config)
        self.decoder = InputFeedingDecoder(config, attention)
        self.embedding = nn.Embedding(
            parts.target_size, config.embedding_size, padding_idx=Vocabulary.PAD
        )
        self.dropout = _embedding_dropout(config)
        self.scores = nn.Linear(size, parts.target_size)
        self.output_mapping = parts.output_mapping
        self.fertility = parts.fertility
        for name, parameter in self.named_parameters():
            if "mapping" not in name and not name.startswith("fertility."):
                nn.init.uniform_(parameter, -config.init_range, config.init_range)
        for embedding in (self.encoder.embedding, self.embedding):
            embedding.weight.data[Vocabulary.PAD].zero_()

    def outputs(
        self,
        source: Tensor,
        source_lengths: Tensor,
        target: Tensor,
        fertility: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the attentional outputs ``(batch, target, hidden)``, and the attention."""
        state = self.start(source, source_lengths, fertility)
        decoded = self.decoder(state, self.dropout(self.embedding(shifted(target))))
        return decoded.outputs, decoded.attention, decoded.attention_scores

    def start(
        self, source: Tensor, source_lengths: Tensor, fertility: Tensor | None = None
    ) -> DecoderState:
        """Encode a batch and return the initial state of the decoder, one row per sentence."""
        if self.fertility is not None:
            fertility = self.fertility(source, source_lengths, fertility)
        mask = length_mask(source_lengths, source.shape[1])
        return self.decoder.start(self.encoder(source, source_lengths), mask, fertility)

    def step(self, state: DecoderState, previous: Tensor) -> StepOutput[DecoderState]:
        """Return the probabilities of the next symbol; see ``repro.decoding.StepModel``."""
        embedded = self.dropout(self.embedding(previous))
        decoded = self.decoder(state, embedded.unsqueeze(1))
        probs = self.output_mapping(self.scores(decoded.outputs.squeeze(1))).float()
        return StepOutput(probs, decoded.attention.squeeze(1), decoded.state)


MODELS = {"seq2seq": Seq2Seq}
