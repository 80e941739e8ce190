"""From tensors to the kernels of csoftmax, csparsemax and budget: rows, memory, threads."""

import numpy as np
import torch
from torch import Tensor

from repro.mappings.kernels.cpu._compile import SOURCES, on_disk
from repro.mappings.kernels.cpu.bounded_backward import bounded_backward_rows
from repro.mappings.kernels.cpu.bounded_rows import bounded_rows
from repro.mappings.kernels.cpu.entries import Entry, matrix, vector
from repro.mappings.kernels.cpu.workers import split

_KINDS = {torch.float32: np.float32(0), torch.float64: np.float64(0)}
"""By their types the compiled kernels are told apart."""
_ONE = torch.ones(1, dtype=torch.float64)
"""The total of a distribution."""
_BOX = 1.0
"""The order of csparsemax and budget."""
_COST = 4
"""What an entry costs, against one that is only read and written."""


def _solver(sources: int) -> Entry:
    @on_disk
    def solve(
        kind, scores, uppers, bounded, totals, many, order, slack, largest, probs, place, size,
        start, stop,
    ):  # fmt: skip
        rows = stop * (sources > 0)
        return bounded_rows(
            matrix(scores, kind, rows, size), matrix(uppers, kind, bounded, size),
            vector(totals, np.float64(0), many), order, slack, largest,
            matrix(probs, kind, rows, size), matrix(place, np.uint8(0), rows, size), start, stop,
        )  # fmt: skip

    return solve


def _differentiator(sources: int) -> Entry:
    @on_disk
    def differentiate(
        kind, probs, place, grads, order, out, upper_grads, total_grads, size, start, stop
    ):
        rows = stop * (sources > 0)
        charged = rows if upper_grads != 0 else 0
        bounded_backward_rows(
            matrix(probs, kind, rows, size), matrix(place, np.uint8(0), rows, size),
            matrix(grads, kind, rows, size), order, matrix(out, kind, rows, size),
            matrix(upper_grads, kind, charged, size), vector(total_grads, kind, rows), start, stop,
        )  # fmt: skip
        return 0

    return differentiate


_solve = _solver(SOURCES)
_differentiate = _differentiator(SOURCES)


def bounded_forward(
    scores: Tensor, upper: Tensor, order: float, slack: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Csoftmax or csparsemax along the last axis, by order; places; how many rows are faulty."""
    return _forward(scores, upper.contiguous(), _ONE, order, slack)


def budget_forward(scores: Tensor, total: float) -> tuple[Tensor, Tensor, Tensor]:
    """Budget along the last axis; places; how many rows are faulty."""
    return budget_forward_rows(scores, torch.tensor([total], dtype=torch.float64))


def budget_forward_rows(scores: Tensor, totals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same with a total for each row, or one for all."""
    ones = scores.new_ones(scores.size(-1))
    return _forward(scores, ones, totals.detach().double().contiguous(), _BOX, 0.0)


def _forward(
    scores: Tensor, uppers: Tensor, totals: Tensor, order: float, slack: float
) -> tuple[Tensor, Tensor, Tensor]:
    scores, size = scores.contiguous(), scores.size(-1)
    probs, place = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.uint8)
    faults = split(
        _solve, scores.numel() // size, _COST * scores.numel(), _KINDS[scores.dtype],
        scores.data_ptr(), uppers.data_ptr(), uppers.numel() // size, totals.data_ptr(),
        totals.numel(), order, slack, torch.finfo(scores.dtype).max, probs.data_ptr(),
        place.data_ptr(), size,
    )  # fmt: skip
    return probs, place, torch.tensor(faults)


def bounded_backward(
    probs: Tensor, place: Tensor, grad: Tensor, order: float, to_upper: bool, to_total: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the scores; those of the bounds and of the totals are empty unless wanted."""
    probs, place, grad = probs.contiguous(), place.contiguous(), grad.contiguous()
    size, out = probs.size(-1), torch.empty_like(probs)
    count = probs.numel() // size
    upper_grads = torch.empty_like(probs) if to_upper else probs.new_empty(0)
    total_grads = probs.new_empty(count if to_total else 0)
    split(
        _differentiate, count, probs.numel(), _KINDS[probs.dtype], probs.data_ptr(),
        place.data_ptr(), grad.data_ptr(), order, out.data_ptr(), upper_grads.data_ptr(),
        total_grads.data_ptr(), size,
    )  # fmt: skip
    return out, upper_grads, total_grads
