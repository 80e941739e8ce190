"""Precision of recurrent layers under autocast."""

from contextlib import AbstractContextManager, nullcontext

import torch


def lstm_precision(device: torch.device) -> AbstractContextManager[object]:
    """Keep LSTMs in float32 on processors that have no instructions for bfloat16.

    With AMX, oneDNN's bfloat16 LSTM takes a third of the time; its states are in bfloat16 too.
    Without, it is many times slower than that of float32. Other devices keep what is in force.
    """
    if device.type != "cpu" or torch.cpu._is_amx_tile_supported():
        return nullcontext()
    return torch.autocast("cpu", enabled=False)
