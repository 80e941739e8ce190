"""Dropout by uniform numbers, and the precision of recurrent layers under autocast."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn


def dropout_mask(shape: Sequence[int], probability: float, like: Tensor) -> Tensor:
    """Return zeros with the given probability, and ``1 / (1 - probability)`` elsewhere.

    Comparing uniform numbers costs a third of Bernoulli draws on a CPU.

    Args:
        shape: shape of the mask.
        probability: in ``[0, 1)``.
        like: gives device and floating point type.
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
    """Keep LSTMs in float32 on processors that have no instructions for bfloat16.

    With AMX, oneDNN's bfloat16 LSTM takes a third of the time; its states are in bfloat16 too.
    Without, it is many times slower than that of float32. Other devices keep what is in force.
    """
    if device.type != "cpu" or torch.cpu._is_amx_tile_supported():
        return nullcontext()
    return torch.autocast("cpu", enabled=False)
