"""Losses that belong to the mappings."""

from repro.losses.fenchel_young import (
    CrossEntropyLoss,
    EntmaxLoss,
    FenchelYoungLoss,
    SparsemaxLoss,
)

__all__ = ["CrossEntropyLoss", "EntmaxLoss", "FenchelYoungLoss", "SparsemaxLoss"]
