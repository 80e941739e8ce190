"""Launchers of the kernels of distributions under upper bounds: rows, grids and memory."""

import torch
from torch import Tensor

from repro.mappings.kernels.cuda import policy
from repro.mappings.kernels.cuda.bounded_rows import bounded_backward_kernel, bounded_kernel
from repro.mappings.kernels.cuda.launch import (
    Numbers,
    bits,
    extent,
    numbers_of,
    rows_of,
    run_tiles,
)

Solution = tuple[Tensor, Tensor, Tensor]
"""Distributions, places of their entries, and room for a number of faults that nobody reads."""
_CSOFTMAX, _CSPARSEMAX, _BUDGET = 0, 1, 2


def bounded_forward(scores: Tensor, upper: Tensor, order: float, slack: float) -> Solution:
    """``p`` of constrained softmax (order 0) or sparsemax (order 1) along the last axis."""
    mode = _CSOFTMAX if order == 0.0 else _CSPARSEMAX
    return _forward(scores, rows_of(upper), numbers_of(1.0), slack, mode)


def budget_forward(scores: Tensor, total: float) -> Solution:
    """``p`` of a budget along the last axis."""
    return _forward(scores, None, numbers_of(total), 0.0, _BUDGET)


def budget_forward_rows(scores: Tensor, totals: Tensor) -> Solution:
    """``p`` of a budget along the last axis, with a total for each row, or one for all."""
    return _forward(scores, None, numbers_of(totals), 0.0, _BUDGET)


def _forward(
    scores: Tensor, upper: Tensor | None, numbers: Numbers, slack: float, mode: int
) -> Solution:
    rows = rows_of(scores)
    probs, places = torch.empty_like(rows), torch.empty_like(rows, dtype=torch.uint8)
    arrays = 1 if upper is None else 2
    tile = policy.tile(rows.size(-1), arrays * rows.element_size(), policy.POWERS)
    run_tiles(
        bounded_kernel, tile, rows, rows if upper is None else upper, probs, places,
        *numbers.arguments(rows), bits(slack), MODE=mode, ROWS=numbers.each is not None,
    )  # fmt: skip
    faults = scores.new_empty((), dtype=torch.int64)
    return probs, places, faults


def bounded_backward(
    probs: Tensor, place: Tensor, grad: Tensor, order: float, to_upper: bool, to_total: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the scores, of the bounds and of the totals; the last two empty if unwanted."""
    rows, places, grads = rows_of(probs), rows_of(place), rows_of(grad)
    count, length = extent(rows)
    out = torch.empty_like(rows)
    uppers = torch.empty_like(rows) if to_upper else rows.new_empty(0)
    totals = rows.new_empty(count if to_total else 0)
    tile = policy.tile(length, 2 * rows.element_size(), policy.POWERS)
    run_tiles(
        bounded_backward_kernel, tile, rows, places, grads, out, uppers, totals,
        ORDER=int(order), UPPER=to_upper, TOTAL=to_total,
    )  # fmt: skip
    return out, uppers, totals
