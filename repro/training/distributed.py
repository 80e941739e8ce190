"""One run on several processes, as ``torchrun`` starts them.

Every process draws the same batches and computes its share of the examples of each; gradients are
summed by torch's DistributedDataParallel. The first process alone writes files.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from repro.training.protocol import BatchT, Trainable, Validation

ItemT = TypeVar("ItemT")
KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


def is_asked() -> bool:
    """Return whether ``torchrun`` has started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def start() -> None:
    """Join the other processes; each takes the GPU of its number where there are some."""
    if is_asked() and not dist.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")


def rank() -> int:
    """Number of this process; 0 where it is the only one."""
    return dist.get_rank() if dist.is_initialized() else 0


def size() -> int:
    """Number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def share(items: Iterable[ItemT]) -> Iterator[ItemT]:
    """The items of this process: every ``size()``-th one."""
    return islice(items, rank(), None, size())


def gather(value: ItemT) -> list[ItemT]:
    """The values of all processes, by their numbers."""
    if size() == 1:
        return [value]
    found: list[Any] = [None] * size()
    dist.all_gather_object(found, value)
    return found


def merge(found: Mapping[KeyT, ValueT]) -> dict[KeyT, ValueT]:
    """Join what the processes have found, each about its :func:`share`."""
    return {key: value for part in gather(dict(found)) for key, value in part.items()}


def same(value: Any) -> Any:
    """The value of the first process."""
    if size() == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values, src=0)
    return values[0]


class Share(NamedTuple):
    """Part of a batch: the whole batch, without weight, where a process has no example of it."""

    batch: Any
    weight: float  # of the part's loss in that of the whole batch


class _Shares(Sequence[Share]):
    """Batches of which every process takes its part."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Share:  # type: ignore[override]  # no slices
        whole = self._batches.positions(index)
        own = [*share(whole)]
        batch = self._batches.collate(own or whole)
        weight = float(bool(own)) if self._batches.summed else len(own) / len(whole)
        return Share(batch, weight)


class _Loss(nn.Module):
    """The loss of a task as a module, which DistributedDataParallel can prepare."""

    def __init__(self, task: Trainable[Any]) -> None:
        super().__init__()
        self.model, self._loss = task.model, task.loss

    def forward(self, batch: Any) -> tuple[Tensor, Tensor]:
        return self._loss(batch)


class SharedTask(Generic[BatchT]):
    """A task whose batches are computed by all processes together.

    The mean loss of a batch of ``N`` examples is the sum of ``n_r / N`` times the mean loss of the
    ``n_r`` examples of each process. DistributedDataParallel takes the mean of the gradients of all
    processes, so each multiplies its loss by their number.

    Args:
        task: its batches know the positions of their examples, and whether losses are sums.
    """

    def __init__(self, task: Trainable[BatchT]) -> None:
        self.task, self.model, self.selectors = task, task.model, task.selectors
        self._parallel = DistributedDataParallel(_Loss(task), find_unused_parameters=True)
        if rank():  # dropout of different examples is independent
            torch.manual_seed(torch.initial_seed() + rank())

    @property
    def tally(self) -> Mapping[str, float]:
        """Counts of this process, times the number of processes."""
        return {key: value * size() for key, value in self.task.tally.items()}

    def batches(self, epoch: int) -> Sequence[Share]:
        """Parts of the batches of an epoch."""
        return _Shares(self.task.batches(epoch))

    def loss(self, part: Share) -> tuple[Tensor, Tensor]:
        """The loss and the symbols of the whole batch, with the gradient of this part."""
        loss, symbols = self._parallel(part.batch)
        own = loss * part.weight
        counted = symbols if part.weight else torch.zeros_like(symbols)
        whole = torch.stack([own.detach().double(), counted.double()])
        dist.all_reduce(whole)
        scaled = own * size()
        # The value is that of the whole batch, the gradient that of this part.
        return scaled + (whole[0].to(scaled.dtype) - scaled).detach(), whole[1]

    def validate(self) -> Validation:
        """Validate; the outcome is that of the first process."""
        found: Validation = same(self.task.validate())
        return found
