"""LSTM encoder, reading in both directions or in one."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from repro.models.layers import Dropout, lstm_precision, packed_states
from repro.models.seq2seq.step_products import sum_dtype


@dataclass
class Encoding:
    """Output of the encoder for the decoder.

    The memory is in bfloat16 where the LSTM computes in it, last states are in float32 at least.
    """

    memory: Tensor  # states of the source symbols, (batch, source, hidden), zero at padding
    hidden: Tensor  # last state of each layer, directions joined, (layers, batch, hidden)
    cell: Tensor  # last cell state of each layer, likewise


class LstmEncoder(nn.Module):
    """LSTM layers over embedded symbols.

    Args:
        vocabulary: number of source symbols.
        embedding_size: size of a symbol.
        hidden_size: size of a state; each of two directions has half of it.
        layers: number of layers.
        dropout: probability, on embeddings and between layers.
        bidirectional: read in both directions.

    References:
        Peters et al. (2019), §2, *Encoder* (both directions); Niculae & Blondel (2017), C.3 (one).
    """

    def __init__(
        self,
        vocabulary: int,
        embedding_size: int,
        hidden_size: int,
        layers: int,
        dropout: float,
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        self.embedding = nn.Embedding(vocabulary, embedding_size, padding_idx=0)
        self.dropout = Dropout(dropout)
        self.lstm = nn.LSTM(
            embedding_size,
            hidden_size // 2 if bidirectional else hidden_size,
            num_layers=layers,
            dropout=dropout if layers > 1 else 0.0,
            bidirectional=bidirectional,
            batch_first=True,
        )

    def forward(self, source: Tensor, lengths: Tensor) -> Encoding:
        """Encode symbols ``(batch, source)``, padded with 0, of ``lengths`` ``(batch,)``."""
        embedded = self.dropout(self.embedding(source))
        with lstm_precision(source.device):
            memory, (hidden, cell) = packed_states(self.lstm, embedded, lengths)
        if self.bidirectional:  # from (2 layers, batch, h) to (layers, batch, 2 h)
            hidden, cell = (torch.cat([one[0::2], one[1::2]], dim=-1) for one in (hidden, cell))
        return Encoding(memory, hidden.to(sum_dtype(hidden)), cell.to(sum_dtype(cell)))
