"""Precision of recurrent layers under autocast."""

from contextlib import AbstractContextManager, nullcontext

import torch


def lstm_precision(device: torch.device) -> AbstractContextManager[object]:
    """Keep LSTMs in float32 on CPUs, many of which have no bfloat16 LSTM.

    Args:
        device: where the layer runs; on other devices whatever is in force stays in force.
    """
    return torch.autocast("cpu", enabled=False) if device.type == "cpu" else nullcontext()
