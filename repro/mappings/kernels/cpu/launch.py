"""From tensors to kernels: rows, memory, threads."""

import threading
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from repro.mappings.kernels.cpu import entries

_GRAIN = 8192
"""Entries that are worth a thread."""
_NO_CLASSES = np.empty(0, np.int64)


class _Pool:
    """Numba's threads: how many to use, and whether several callers may use them at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.shareable = False

    def run(self, entry: entries.Entry, rows: Tensor, *arguments: Any) -> Any:
        """Call a kernel; one caller at a time unless numba's threads are known to be shareable."""
        allowed = min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS)
        threads = max(1, min(allowed, rows.size(0), rows.numel() // _GRAIN))
        if self.shareable:
            return _limited(entry, threads, arguments)
        with self.lock:
            result = _limited(entry, threads, arguments)
            self.shareable = numba.threading_layer() != "workqueue"
        return result


def _limited(entry: entries.Entry, threads: int, arguments: tuple[Any, ...]) -> Any:
    """Call a kernel with numba's number of threads set for this call."""
    before = numba.get_num_threads()
    if threads == before:
        return entry(*arguments, threads)
    numba.set_num_threads(threads)
    try:
        return entry(*arguments, threads)
    finally:
        numba.set_num_threads(before)


_pool = _Pool()


def _rows(tensor: Tensor) -> Tensor:
    return tensor.detach().reshape(-1, tensor.size(-1)).contiguous()


def _array(orders: float | Tensor) -> np.ndarray:
    if isinstance(orders, Tensor):
        return orders.detach().reshape(-1).double().contiguous().numpy()
    return np.array([orders])


def forward(scores: Tensor, orders: float | Tensor) -> Tensor:
    """``p`` along the last axis; one order, or one for each row."""
    return _forward(scores, orders, None, 0)[0]


def loss(scores: Tensor, target: Tensor, order: float, ignored: int) -> tuple[Tensor, Tensor]:
    """Losses and ``p`` along the last axis.

    Raises:
        IndexError: a target is neither a class nor the ignored value.
    """
    probs, losses, wrong = _forward(scores, order, target, ignored)
    if wrong:
        raise IndexError(f"{wrong} of the targets are not in [0, {scores.size(-1)})")
    return losses.view(target.shape), probs


def _forward(
    scores: Tensor, orders: float | Tensor, target: Tensor | None, ignored: int
) -> tuple[Tensor, Tensor, int]:
    rows = _rows(scores)
    probs = torch.empty_like(rows)
    losses = rows.new_empty(0 if target is None else rows.size(0))
    classes = _NO_CLASSES if target is None else target.reshape(-1).contiguous().numpy()
    largest = torch.finfo(rows.dtype).max
    wrong = _pool.run(
        entries.forward, rows, rows.numpy(), _array(orders), largest, classes, ignored,
        probs.numpy(), losses.numpy(),
    )  # fmt: skip
    return probs.view(scores.shape), losses, wrong


def backward(
    probs: Tensor, grads: Tensor, orders: float | Tensor, with_orders: bool
) -> tuple[Tensor, Tensor]:
    """Gradients of the scores; those of the orders, one for each row, are empty unless wanted."""
    rows = _rows(probs)
    out = torch.empty_like(rows)
    order_grads = rows.new_empty(rows.size(0) if with_orders else 0)
    _pool.run(
        entries.backward, rows, rows.numpy(), _rows(grads).numpy(), _array(orders), out.numpy(),
        order_grads.numpy(),
    )  # fmt: skip
    return out.view(probs.shape), order_grads


def loss_backward(probs: Tensor, target: Tensor, grads: Tensor, ignored: int) -> Tensor:
    """``g (p - e_y)``."""
    rows = _rows(probs)
    out = torch.empty_like(rows)
    classes = target.reshape(-1).contiguous().numpy()
    weights = grads.detach().reshape(-1).contiguous().numpy()
    _pool.run(entries.loss_backward, rows, rows.numpy(), classes, ignored, weights, out.numpy())
    return out.view(probs.shape)
