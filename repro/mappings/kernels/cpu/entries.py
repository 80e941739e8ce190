"""What Python calls: each kernel over all rows, split evenly among threads.

Rows do not depend on each other, so results are the same to the last bit for any number of threads.
"""

from collections.abc import Callable
from typing import Any

from numba import njit, prange

from repro.mappings.kernels.cpu._compile import SOURCES
from repro.mappings.kernels.cpu.backward import backward_rows, loss_backward_rows
from repro.mappings.kernels.cpu.forward import forward_rows

Entry = Callable[..., Any]


def _on_disk(function: Entry) -> Entry:
    """Compile and keep the code on disk; where no folder can be written, in memory only."""
    try:
        return njit(nogil=True, parallel=True, cache=True)(function)
    except RuntimeError:
        return njit(nogil=True, parallel=True)(function)


def _forward(sources: int) -> Entry:
    """Distributions, and losses where there is room for them; returns the number of bad targets."""

    def forward(scores, orders, largest, targets, ignored, probs, losses, threads):
        rows, wrong = scores.shape[0] * (sources > 0), 0
        for t in prange(threads):
            start, stop = t * rows // threads, (t + 1) * rows // threads
            wrong += forward_rows(
                scores, orders, largest, targets, ignored, probs, losses, start, stop
            )
        return wrong

    return _on_disk(forward)


def _backward(sources: int) -> Entry:
    """Gradients of the scores, and of the orders where there is room for them."""

    def backward(probs, grads, orders, out, order_grads, threads):
        rows = probs.shape[0] * (sources > 0)
        for t in prange(threads):
            start, stop = t * rows // threads, (t + 1) * rows // threads
            backward_rows(probs, grads, orders, out, order_grads, start, stop)

    return _on_disk(backward)


def _loss_backward(sources: int) -> Entry:
    """Gradients of losses."""

    def loss_backward(probs, targets, ignored, grads, out, threads):
        rows = probs.shape[0] * (sources > 0)
        for t in prange(threads):
            start, stop = t * rows // threads, (t + 1) * rows // threads
            loss_backward_rows(probs, targets, ignored, grads, out, start, stop)

    return _on_disk(loss_backward)


forward = _forward(SOURCES)
backward = _backward(SOURCES)
loss_backward = _loss_backward(SOURCES)
