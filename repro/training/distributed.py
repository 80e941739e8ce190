"""Training of one run by several processes started by ``torchrun``.

Every process draws the same batches and computes its share of the examples of each; PyTorch's
DistributedDataParallel combines the gradients. Only the first process writes files.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from repro.training.protocol import BatchT, Trainable, Validation

ItemT = TypeVar("ItemT")


def start() -> None:
    """Join the processes that ``torchrun`` started; each uses the GPU of its local rank, if any."""
    if not dist.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")


def leave(status: int) -> NoReturn:
    """End this process without finalizing the interpreter.

    A thread of gloo that frees a tensor of the last collective while the interpreter is finalized
    aborts the process (pytorch/pytorch#190489). ``destroy_process_group`` does not join these
    threads once DistributedDataParallel was used (torch 2.13).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def rank() -> int:
    """Return the rank of this process; 0 if it is the only one."""
    return dist.get_rank() if dist.is_initialized() else 0


def size() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def share(items: Sequence[ItemT]) -> Iterator[ItemT]:
    """Yield the items of this process: every ``size()``-th one, from its rank on.

    Those of the other processes are not read: lazy batches would be built in vain.
    """
    return (items[index] for index in range(rank(), len(items), size()))


def gather(value: ItemT) -> list[ItemT]:
    """Gather the values of all processes, in the order of their ranks."""
    if size() == 1:
        return [value]
    values: list[Any] = [None] * size()
    dist.all_gather_object(values, value)
    return values


def in_order(found: Mapping[int, ItemT]) -> list[ItemT]:
    """Return the results of all processes by position; each has those of its :func:`share`."""
    merged = {place: one for part in gather(dict(found)) for place, one in part.items()}
    return [merged[place] for place in range(len(merged))]


def same(value: Any) -> Any:
    """Broadcast the value of the first process."""
    if size() == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values, src=0)
    return values[0]


class Share(NamedTuple):
    """Part of a batch; the whole batch with weight 0 if it has no example for a process."""

    batch: Any
    weight: float  # weight of the loss of this part in that of the whole batch


class _Shares(Sequence[Share]):
    """Batches of which each process takes its share of examples."""

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
    """Module that computes the loss of a task, as DistributedDataParallel requires one."""

    def __init__(self, task: Trainable[Any]) -> None:
        super().__init__()
        self.model, self._loss = task.model, task.loss

    def forward(self, batch: Any) -> tuple[Tensor, Tensor]:
        return self._loss(batch)


class SharedTask(Generic[BatchT]):
    """Task whose batches are split among all processes.

    The mean loss of a batch of ``N`` examples is the sum over processes ``r`` of ``n_r / N`` times
    the mean loss of their ``n_r`` examples. DistributedDataParallel averages the gradients of all
    processes, so each multiplies its loss by their number.

    Args:
        task: its batches must have the interface of ``repro.tasks.common.LazyBatches``.
    """

    def __init__(self, task: Trainable[BatchT]) -> None:
        self.task, self.model, self.selectors = task, task.model, task.selectors
        self._parallel = DistributedDataParallel(_Loss(task), find_unused_parameters=True)
        if rank():  # different examples need independent dropout masks
            torch.manual_seed(torch.initial_seed() + rank())

    @property
    def tally(self) -> Mapping[str, float]:
        """Sums of all processes, estimated as those of this process times their number."""
        return {key: value * size() for key, value in self.task.tally.items()}

    def batches(self, epoch: int) -> Sequence[Share]:
        """Return the parts of this process of the batches of an epoch."""
        return _Shares(self.task.batches(epoch))

    def loss(self, part: Share) -> tuple[Tensor, Tensor]:
        """Return loss and symbols of the whole batch, with the gradient of this part only."""
        loss, symbols = self._parallel(part.batch)
        own = loss * part.weight
        counted = symbols if part.weight else torch.zeros_like(symbols)
        whole = torch.stack([own.detach().double(), counted.double()])
        dist.all_reduce(whole)
        scaled = own * size()
        # Straight-through: the value is that of the whole batch, the gradient that of this part.
        return scaled + (whole[0].to(scaled.dtype) - scaled).detach(), whole[1]

    def validate(self) -> Validation:
        """Validate on all processes and return the outcome of the first."""
        found: Validation = same(self.task.validate())
        return found
