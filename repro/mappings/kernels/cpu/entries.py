"""What Python calls: each kernel over a range of rows, given the addresses of contiguous tensors.

Rows do not depend on each other, so results are the same to the last bit however rows are split
among threads.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray

from repro.mappings.kernels.cpu._compile import SOURCES, on_disk, pointer, small
from repro.mappings.kernels.cpu.backward import backward_rows, loss_backward_rows
from repro.mappings.kernels.cpu.forward import closed_rows
from repro.mappings.kernels.cpu.level_forward import level_rows

Entry = Callable[..., Any]


@small
def matrix(address, kind, rows, size):
    """The tensor at an address."""
    return carray(pointer(address, kind), (rows, size))


@small
def vector(address, kind, size):
    """The same with one axis; empty if there is no address."""
    return carray(pointer(address, kind), (size if address != 0 else 0,))


def _closed(sources: int) -> Entry:
    """Sparsemax and 1.5-entmax, and losses if there are targets; returns how many are bad."""

    @on_disk
    def closed(kind, scores, order, targets, ignored, probs, losses, size, start, stop):
        rows = stop * (sources > 0)
        return closed_rows(
            matrix(scores, kind, rows, size), order, vector(targets, np.int64(0), rows), ignored,
            matrix(probs, kind, rows, size), vector(losses, kind, rows), start, stop,
        )  # fmt: skip

    return closed


def _level(sources: int) -> Entry:
    """The same at any order, or at one order for each row."""

    @on_disk
    def level(kind, scores, order, orders, targets, ignored, probs, losses, size, start, stop):
        rows = stop * (sources > 0)
        return level_rows(
            matrix(scores, kind, rows, size), order, vector(orders, np.float64(0), rows),
            vector(targets, np.int64(0), rows), ignored,
            matrix(probs, kind, rows, size), vector(losses, kind, rows), start, stop,
        )  # fmt: skip

    return level


def _backward(sources: int) -> Entry:
    """Gradients of the scores, and of the orders where there is room for them."""

    @on_disk
    def backward(kind, probs, grads, order, orders, out, order_grads, size, start, stop):
        rows = stop * (sources > 0)
        backward_rows(
            matrix(probs, kind, rows, size), matrix(grads, kind, rows, size), order,
            vector(orders, np.float64(0), rows), matrix(out, kind, rows, size),
            vector(order_grads, kind, rows), start, stop,
        )  # fmt: skip
        return 0

    return backward


def _loss_backward(sources: int) -> Entry:
    """Gradients of losses."""

    @on_disk
    def loss_backward(kind, probs, targets, ignored, grads, out, size, start, stop):
        rows = stop * (sources > 0)
        loss_backward_rows(
            matrix(probs, kind, rows, size), vector(targets, np.int64(0), rows), ignored,
            vector(grads, kind, rows), matrix(out, kind, rows, size), start, stop,
        )  # fmt: skip
        return 0

    return loss_backward


closed = _closed(SOURCES)
level = _level(SOURCES)
backward = _backward(SOURCES)
loss_backward = _loss_backward(SOURCES)
