"""Losses of the mappings: Fenchel–Young losses and their form fused with a linear layer."""

from repro.losses.fenchel_young import CrossEntropyLoss, EntmaxLoss, FenchelYoungLoss, SparsemaxLoss
from repro.losses.linear import LinearEntmaxLoss, linear_entmax_loss

__all__ = [
    "CrossEntropyLoss",
    "EntmaxLoss",
    "FenchelYoungLoss",
    "LinearEntmaxLoss",
    "SparsemaxLoss",
    "linear_entmax_loss",
]
