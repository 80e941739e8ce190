"""LSTM decoder with attention and input feeding."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from repro.models.layers import dropout_mask
from repro.models.seq2seq.attention import AttentionProducts, AttentionState, GlobalAttention
from repro.models.seq2seq.encoder import Encoding
from repro.models.seq2seq.step_products import StepProduct, product_dtype, step_products


@dataclass
class DecoderState:
    """State between two steps; every tensor has one row for each hypothesis."""

    hidden: tuple[Tensor, ...]  # of each layer, (rows, units)
    cell: tuple[Tensor, ...]  # of each layer, (rows, units)
    feed: Tensor  # the previous attentional output, (rows, units)
    source: AttentionState

    def select(self, rows: Tensor) -> "DecoderState":
        """Gather rows, which may repeat."""
        return DecoderState(
            tuple(layer[rows] for layer in self.hidden),
            tuple(layer[rows] for layer in self.cell),
            self.feed[rows],
            self.source.select(rows),
        )


class Decoded(NamedTuple):
    """Result of several steps: outputs ``o_t``, attention weights, and the state after the last."""

    outputs: Tensor  # (rows, steps, units)
    attention: Tensor  # (rows, steps, source)
    state: DecoderState


class _Step(NamedTuple):
    """Products of one step, and the dropout masks of each layer's output (None: no dropout)."""

    gates: tuple[StepProduct, ...]
    output: StepProduct
    attention: AttentionProducts
    masks: Tensor | None


class InputFeedingDecoder(nn.Module):
    r"""Stacked LSTM layers fed with the previous symbol and the previous attentional output.

    .. math:: o_t = \tanh(W^{(o)} [s_t; c_t] + b^{(o)})

    Everything that does not depend on earlier steps is computed for all steps at once: the part
    of the first layer's gates that comes from the symbols, the dropout masks, and in the backward
    pass the gradients of all matrices (:mod:`repro.models.seq2seq.step_products`).

    References:
        Peters et al. (2019), §2, *Decoder*; Luong et al. (2015), input feeding.
    """

    def __init__(
        self, embedding_size: int, hidden_size: int, layers: int, dropout: float,
        attention: GlobalAttention,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = [embedding_size + hidden_size] + [hidden_size] * (layers - 1)
        self.cells = nn.ModuleList(nn.LSTMCell(size, hidden_size) for size in sizes)
        self.dropout = dropout
        self.attention = attention
        self.output = nn.Linear(2 * hidden_size, hidden_size)
        self._take_step: Callable[[DecoderState, _Step], tuple[Tensor, DecoderState]] = self._step

    def start(
        self, encoding: Encoding, mask: Tensor, fertility: Tensor | None = None
    ) -> DecoderState:
        """Return the initial state: the encoder's last states, and a zero attentional output.

        Args:
            encoding: the encoded source.
            mask: true at real source positions.
            fertility: upper bounds of the cumulative attention, for bounded attention.
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
            weights, state = self._take_step(state, step)
            outputs.append(state.feed)
            attention.append(weights)
        return Decoded(torch.stack(outputs, dim=1), torch.stack(attention, dim=1), state)

    def compile_step(self) -> None:
        """Compile the step with :func:`torch.compile`, once for all sizes of batches."""
        self._take_step = torch.compile(self._step, dynamic=True)

    def _steps(self, source: AttentionState, embedded: Tensor) -> list[_Step]:
        """Compute everything that does not depend on earlier steps."""
        rows, steps, embedding_size = embedded.shape
        dtype, units = product_dtype(embedded), self.output.out_features
        first, *upper = cast(Iterable[nn.LSTMCell], self.cells)
        of_symbol, of_feed = first.weight_ih.split([embedding_size, units], dim=1)
        symbols = embedded.transpose(0, 1).flatten(0, 1)
        base = F.linear(symbols, of_symbol).to(embedded.dtype) + (first.bias_ih + first.bias_hh)
        gates = [step_products(base, torch.cat([of_feed, first.weight_hh], 1), steps, dtype)]
        for cell in upper:
            base = (cell.bias_ih + cell.bias_hh).expand(steps * rows, -1)
            matrix = torch.cat([cell.weight_ih, cell.weight_hh], 1)
            gates.append(step_products(base, matrix, steps, dtype))
        base = self.output.bias.expand(steps * rows, -1)
        output = step_products(base, self.output.weight, steps, dtype)
        masks: Tensor | list[None] = [None] * steps
        if self.training and self.dropout:
            masks = dropout_mask((steps, len(gates), rows, units), self.dropout, embedded)
        attention = self.attention.products(source, steps)
        layers = zip(*gates, strict=True)
        return [_Step(*step) for step in zip(layers, output, attention, masks, strict=True)]

    def _step(self, state: DecoderState, step: _Step) -> tuple[Tensor, DecoderState]:
        """Return the attention weights ``(rows, source)`` and the next state."""
        hidden, cell = [], []
        below = state.feed
        for layer, gates in enumerate(step.gates):
            if layer > 0 and step.masks is not None:
                below = below * step.masks[layer]
            # Input, forget, candidate and output before their activations, (rows, 4 units).
            parts = gates(below, state.hidden[layer]).chunk(4, dim=-1)
            enter, keep, candidate, leave = parts
            memory = keep.sigmoid() * state.cell[layer] + enter.sigmoid() * candidate.tanh()
            below = leave.sigmoid() * memory.tanh()
            hidden.append(below)
            cell.append(memory)
        context, weights = self.attention(below, state.source, step.attention)
        feed = torch.tanh(step.output(below, context))
        if step.masks is not None:
            feed = feed * step.masks[0]
        return weights, DecoderState(tuple(hidden), tuple(cell), feed, state.source.after(weights))
