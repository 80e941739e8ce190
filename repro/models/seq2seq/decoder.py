"""LSTM decoder with attention and input feeding, one step at a time."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from repro.models.seq2seq.attention import Attended, GlobalAttention
from repro.models.seq2seq.encoder import Encoding


@dataclass
class DecoderState:
    """What one step hands to the next; every tensor has one row for each hypothesis.

    Attributes:
        hidden: hidden state of each layer, ``(rows, units)`` each.
        cell: cell state of each layer.
        feed: the previous attentional output, ``(rows, units)``.
        source: what the attention reads, and what it has spent.
    """

    hidden: tuple[Tensor, ...]
    cell: tuple[Tensor, ...]
    feed: Tensor
    source: Attended

    def select(self, rows: Tensor) -> "DecoderState":
        """Gather rows, which may repeat."""
        return DecoderState(
            tuple(layer[rows] for layer in self.hidden),
            tuple(layer[rows] for layer in self.cell),
            self.feed[rows],
            self.source.select(rows),
        )


class InputFeedingDecoder(nn.Module):
    r"""Stacked LSTM cells fed with the previous symbol and the previous attentional output.

    .. math:: o_t = \tanh(W^{(o)} [s_t; c_t] + b^{(o)})

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
        self.dropout = nn.Dropout(dropout)
        self.attention = attention
        self.output = nn.Linear(2 * hidden_size, hidden_size)

    def start(
        self, encoding: Encoding, mask: Tensor, fertility: Tensor | None = None
    ) -> DecoderState:
        """Initial state: the encoder's last states, and a zero attentional output.

        Args:
            encoding: of the source.
            mask: true at real source positions.
            fertility: upper bounds of the cumulative attention, for bounded attention.
        """
        return DecoderState(
            encoding.hidden.unbind(0),
            encoding.cell.unbind(0),
            torch.zeros_like(encoding.hidden[0]),
            self.attention.attend_to(encoding.memory, mask, fertility),
        )

    def forward(self, state: DecoderState, embedded: Tensor) -> tuple[Tensor, DecoderState]:
        """One step.

        Args:
            state: of ``rows`` hypotheses.
            embedded: the previous symbols, shape ``(rows, embedding)``.

        Returns:
            The attention weights ``(rows, source)`` and the next state, whose ``feed`` is
            the attentional output ``o_t``.
        """
        hidden, cell = [], []
        below = torch.cat([embedded, state.feed], dim=-1)
        for layer, lstm in enumerate(self.cells):
            below = below if layer == 0 else self.dropout(below)
            below, memory_cell = lstm(below, (state.hidden[layer], state.cell[layer]))
            hidden.append(below)
            cell.append(memory_cell)
        context, weights = self.attention(below, state.source)
        feed = self.dropout(torch.tanh(self.output(torch.cat([below, context], dim=-1))))
        following = DecoderState(tuple(hidden), tuple(cell), feed, state.source.after(weights))
        return weights, following
