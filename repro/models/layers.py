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
    too; without AMX it is many times slower in bfloat16. For CUDA see :func:`cudnn_precision`.
    """
    if device.type != "cpu" or torch.cpu._is_amx_tile_supported():
        return nullcontext()
    return torch.autocast("cpu", enabled=False)


def cudnn_precision(device: torch.device) -> AbstractContextManager[object]:
    """Return a context that keeps recurrent layers in float32 on CUDA.

    Under autocast cuDNN computes them in float16, also where autocast has bfloat16. Small gradients
    would vanish there, as losses are not scaled.
    """
    return torch.autocast("cuda", enabled=False) if device.type == "cuda" else nullcontext()


def lstm_states(
    lstm: nn.LSTM, inputs: Tensor, lengths: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Run an LSTM over padded rows ``(B, n, input)`` with ``lengths``, ``(B,)``, real positions.

    On a CPU rows are packed. Packing needs the lengths on the host, so other devices read the
    padding too, through :func:`padded_layer`.

    Returns:
        States ``(B, n, directions * hidden)``, zero at padding, and the last hidden and cell
        states, both ``(layers * directions, B, hidden)``.
    """
    if inputs.device.type == "cpu":
        packed = pack_padded_sequence(inputs, lengths, True, enforce_sorted=False)
        packed_outputs, last = lstm(packed)
        states, _ = pad_packed_sequence(packed_outputs, True, total_length=inputs.shape[1])
        return states, last
    return padded_states(lstm, inputs, lengths)


def padded_states(
    lstm: nn.LSTM, inputs: Tensor, lengths: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Compute :func:`lstm_states` without reading the lengths."""
    positions = torch.arange(inputs.shape[1], device=inputs.device)
    mask = (positions < lengths.unsqueeze(1)).unsqueeze(-1)
    last = (positions == lengths.unsqueeze(1) - 1).unsqueeze(-1)
    directions = 1 + lstm.bidirectional
    states, hidden, cells = inputs, list[Tensor](), list[Tensor]()
    for layer in range(lstm.num_layers):
        if layer > 0 and lstm.training and lstm.dropout:
            states = states * dropout_mask(states.shape, lstm.dropout, states)
        first = layer * directions
        states, cell = padded_layer(states, mask, lstm.all_weights[first : first + directions])
        rightward, *leftward = states.chunk(directions, dim=-1)
        # A sum over one position, as the gradient of indexing would need sorting.
        hidden.append((rightward * last).sum(1))
        hidden += [one[:, 0] for one in leftward]
        cells.append(cell)
    return states, (torch.stack(hidden), torch.cat(cells))


_HOLD = 1024.0
"""Weight of the feature that marks padding, at which gates are exactly zero and one."""


def padded_layer(
    inputs: Tensor, mask: Tensor, weights: Sequence[Sequence[Tensor]]
) -> tuple[Tensor, Tensor]:
    """Run one LSTM layer that holds its state at padding, in one call of PyTorch's LSTM.

    One more input feature is 1 at padding. It closes the input gate and opens the forget gate, both
    exactly in floating point, so that the cell state passes through padding unchanged and gradients
    do not reach the weights from there. Read from the right, a row starts with padding, at which
    the cell stays zero and with it the hidden state. States, last cell states and all gradients are
    thus those of packed rows. All are in the precision of the weights.

    Args:
        inputs: rows ``(B, n, input)``.
        mask: true at real positions, ``(B, n, 1)``.
        weights: matrices and biases of each direction, as in ``torch.nn.LSTM.all_weights``.

    Returns:
        States ``(B, n, directions * hidden)``, zero at padding, and last cell states
        ``(directions, B, hidden)``.
    """
    size, inputs = weights[0][1].shape[1], inputs.type_as(weights[0][0])
    held = torch.cat([inputs * mask, (~mask).to(inputs.dtype)], dim=-1)
    column = inputs.new_zeros(4 * size, 1)  # gates are ordered: input, forget, cell, output
    column[:size], column[size : 2 * size] = -_HOLD, _HOLD
    rows = [[torch.cat([one[0], column.type_as(one[0])], 1), *one[1:]] for one in weights]
    # In one buffer, matrices first, as cuDNN requires: it would copy them itself, with a warning.
    order = [(row, place) for kinds in ((0, 1), (2, 3)) for row in rows for place in kinds]
    parts = [row[place] for row, place in order]
    flat = torch.cat([part.flatten() for part in parts]).split([part.numel() for part in parts])
    for (row, place), part, values in zip(order, parts, flat, strict=True):
        row[place] = values.view_as(part)
    zeros = inputs.new_zeros(len(rows), len(inputs), size)
    # cuDNN keeps what a backward pass needs only if it is told that this is training.
    train = torch.is_grad_enabled()
    with cudnn_precision(inputs.device):
        states, _, cell = torch.lstm(
            held, (zeros, zeros), [one for row in rows for one in row], True, 1, 0.0, train,
            len(rows) > 1, True,
        )  # fmt: skip
    return states * mask, cell


def gru_states(gru: nn.GRU, inputs: Tensor, first: Tensor | None = None) -> Tensor:
    """Return the states of a GRU over rows ``(B, n, input)``, given the first one if not zero."""
    with cudnn_precision(inputs.device):
        if inputs.is_cuda:
            inputs = inputs.type_as(gru.all_weights[0][0])
        states, _ = gru(inputs, first)
    return states


class BidirectionalLstm(nn.Module):
    """One LSTM from left to right and one from right to left, which starts at the last real word.

    On a CPU rows are reversed within their lengths by indexing. Each direction has ``hidden_size``
    units.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.rightward = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.leftward = nn.LSTM(input_size, hidden_size, batch_first=True)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Return the states ``(B, n, 2 hidden)``, zero at padding, of rows ``(B, n, input)``."""
        mask = length_mask(lengths, inputs.shape[1])
        if inputs.device.type != "cpu":
            weights = [*self.rightward.all_weights, *self.leftward.all_weights]
            return padded_layer(inputs, mask.unsqueeze(-1), weights)[0]
        positions = torch.arange(inputs.shape[1], device=inputs.device).expand_as(mask)
        # Real positions from the last to the first; padding stays where it is.
        reverse = torch.where(mask, lengths.unsqueeze(1) - 1 - positions, positions).unsqueeze(-1)
        with lstm_precision(inputs.device):
            inputs = inputs.type_as(self.rightward.all_weights[0][0])
            rightward, _ = self.rightward(inputs)
            leftward, _ = self.leftward(inputs.gather(1, reverse.expand_as(inputs)))
        leftward = leftward.gather(1, reverse.expand_as(leftward))
        return torch.cat([rightward, leftward], dim=-1) * mask.unsqueeze(-1)
