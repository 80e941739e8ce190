"""Losses of the mappings: Fenchel–Young losses and their form fused with a linear layer."""

from repro.losses.fenchel_young import (
    CrossEntropyLoss,
    Entmax15Loss,
    EntmaxLoss,
    FenchelYoungLoss,
    SparsemaxLoss,
    entmax15_loss,
    sparsemax_loss,
)
from repro.losses.linear import LinearEntmaxLoss, linear_entmax_loss

__all__ = [
    "CrossEntropyLoss",
    "Entmax15Loss",
    "EntmaxLoss",
    "FenchelYoungLoss",
    "LinearEntmaxLoss",
    "SparsemaxLoss",
    "entmax15_loss",
    "linear_entmax_loss",
    "sparsemax_loss",
]
