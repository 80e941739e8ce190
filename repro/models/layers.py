"""Layers shared by models: dropout, recurrent layers over padded rows, and their precision."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """Return a mask ``(B, size)``, true at the first ``lengths`` positions of each row."""
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(1)


def dropout_mask(shape: Sequence[int], probability: float, like: Tensor) -> Tensor:
    """Draw zeros with ``probability``, in ``[0, 1)``, and ``1 / (1 - probability)`` elsewhere.

    The result has the default dtype, on the device of ``like``. Comparing uniform numbers with the
    probability takes a third of the time of Bernoulli draws on a CPU.
    """
    uniform = torch.rand(shape, device=like.device, dtype=like.dtype)
    return (uniform >= probability) / (1 - probability)


class Dropout(nn.Dropout):
    """:class:`torch.nn.Dropout` with :func:`dropout_mask`."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop entries in training; return ``input`` in evaluation."""
        if not self.training or self.p == 0:
            return input
        return input * dropout_mask(input.shape, self.p, input)


def lstm_precision(device: torch.device) -> AbstractContextManager[object]:
    """Return a context that keeps LSTMs in float32 on CPUs without AMX instructions.

    With AMX, oneDNN's LSTM takes a third of the time in bfloat16, and its states are in bfloat16
    too; without AMX it is many times slower in bfloat16. Other devices keep the current autocast.
    """
    if device.type != "cpu" or torch.cpu._is_amx_tile_supported():
        return nullcontext()
    return torch.autocast("cpu", enabled=False)


def packed_states(
    lstm: nn.LSTM, inputs: Tensor, lengths: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Run an LSTM over padded rows ``(B, n, input)`` with ``lengths``, ``(B,)``, real positions.

    Returns:
        States ``(B, n, directions * hidden)``, zero at padding, and the last hidden and cell
        states, both ``(layers * directions, B, hidden)``.
    """
    packed = pack_padded_sequence(inputs, lengths.cpu(), True, enforce_sorted=False)
    packed_outputs, last = lstm(packed)
    states, _ = pad_packed_sequence(packed_outputs, True, total_length=inputs.shape[1])
    return states, last


class BidirectionalLstm(nn.Module):
    """One LSTM from left to right and one from right to left, which starts at the last real word.

    Rows are reversed within their lengths by indexing, which, unlike packing, does not copy lengths
    to the host. Each direction has ``hidden_size`` units.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.rightward = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.leftward = nn.LSTM(input_size, hidden_size, batch_first=True)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Return the states of both directions for rows ``(B, n, input)`` of ``lengths`` ``(B,)``.

        Returns:
            Shape ``(B, n, 2 hidden)``, zero at padding.
        """
        mask = length_mask(lengths, inputs.shape[1])
        positions = torch.arange(inputs.shape[1], device=inputs.device).expand_as(mask)
        # Real positions from the last to the first; padding stays where it is.
        reverse = torch.where(mask, lengths.unsqueeze(1) - 1 - positions, positions).unsqueeze(-1)
        with lstm_precision(inputs.device):
            inputs = inputs.type_as(self.rightward.all_weights[0][0])
            rightward, _ = self.rightward(inputs)
            leftward, _ = self.leftward(inputs.gather(1, reverse.expand_as(inputs)))
        leftward = leftward.gather(1, reverse.expand_as(leftward))
        return torch.cat([rightward, leftward], dim=-1) * mask.unsqueeze(-1)
