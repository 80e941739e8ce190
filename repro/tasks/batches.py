"""Batches that are made when they are taken, and the precision of a run."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

import torch

from repro.config.schema import RunConfig

BatchT = TypeVar("BatchT")


class LazyBatches(Sequence[BatchT]):
    """Batches that are padded and moved to the device only when they are taken.

    Args:
        batches: positions of the examples of each batch.
        collate: makes a batch of the examples at these positions.
        summed: whether the loss of a batch is the sum of those of its examples, not their mean.
    """

    def __init__(
        self,
        batches: list[list[int]],
        collate: Callable[[list[int]], BatchT],
        summed: bool = False,
    ) -> None:
        self.summed = summed
        self._batches, self.collate = batches, collate

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> BatchT:  # type: ignore[override]  # no slices
        return self.collate(self._batches[index])

    def positions(self, index: int) -> list[int]:
        """Positions of the examples of a batch."""
        return self._batches[index]


def autocast(config: RunConfig, device: torch.device) -> AbstractContextManager[None]:
    """Compute in bfloat16 where the run says so."""
    enabled = config.precision == "bf16"
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)
