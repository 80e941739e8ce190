"""Launchers of the kernels of α-normmax and sq-pnorm-max: rows, grids and memory."""

import torch
from torch import Tensor

from repro.mappings.kernels.cuda import policy
from repro.mappings.kernels.cuda.entmax import solve
from repro.mappings.kernels.cuda.launch import (
    Numbers,
    bits,
    extent,
    numbers_of,
    programs_for,
    rows_of,
    run,
)
from repro.mappings.kernels.cuda.norm_rows import (
    normmax_backward_kernel,
    pnorm_backward_kernel,
    pnorm_kernel,
)

_CLOSED = 3
"""The rule of ``α = 2``; see ``thresholds.py``."""


def normmax_forward(scores: Tensor, alpha: float) -> Tensor:
    """``p`` along the last axis at one ``α``; above two in double precision, as not Lipschitz."""
    rule = _CLOSED if alpha == 2.0 else 0
    return solve(scores, numbers_of(alpha), rule, wide=alpha > 2.0, norm=True)


def normmax_forward_rows(scores: Tensor, alphas: Tensor) -> Tensor:
    """``p`` along the last axis with an ``α`` for each row, or one for all."""
    return solve(scores, numbers_of(alphas), 0, norm=True)


def normmax_backward(probs: Tensor, grad: Tensor, alpha: float) -> Tensor:
    """``J g``."""
    return _normmax_backward(probs, grad, numbers_of(alpha))[0]


def normmax_backward_rows(probs: Tensor, grad: Tensor, alphas: Tensor) -> tuple[Tensor, Tensor]:
    """``J g``, and for each row the gradient of its ``α``."""
    return _normmax_backward(probs, grad, numbers_of(alphas))


def _normmax_backward(probs: Tensor, grad: Tensor, numbers: Numbers) -> tuple[Tensor, Tensor]:
    rows, grads = rows_of(probs), rows_of(grad)
    out = torch.empty_like(rows)
    count, length = extent(rows)
    drifts = rows.new_empty(0 if numbers.each is None else count)
    tile = policy.tile(length, 2 * rows.element_size(), policy.POWERS)
    run(
        normmax_backward_kernel, programs_for(count, tile.rows), rows, grads, out,
        rows if numbers.each is None else numbers.each, numbers.pace, numbers.bits, drifts,
        count, length, ROWS=numbers.each is not None,
        M=tile.rows, N=tile.entries, HELD=tile.held, warps=tile.warps,
    )  # fmt: skip
    return out, drifts


def sq_pnorm_max_forward(scores: Tensor, p: float) -> Tensor:
    """``y`` along the last axis."""
    rows = rows_of(scores)
    probs = torch.empty_like(rows)
    count, length = extent(rows)
    tile = policy.tile(length, rows.element_size(), policy.POWERS)
    run(
        pnorm_kernel, programs_for(count, tile.rows), rows, probs, bits(p / (p - 1)), count, length,
        M=tile.rows, N=tile.entries, HELD=tile.held, warps=tile.warps,
    )  # fmt: skip
    return probs


def sq_pnorm_max_backward(probs: Tensor, grad: Tensor, p: float) -> Tensor:
    """``J g``."""
    rows, grads = rows_of(probs), rows_of(grad)
    out = torch.empty_like(rows)
    count, length = extent(rows)
    tile = policy.tile(length, 2 * rows.element_size(), policy.POWERS)
    run(
        pnorm_backward_kernel, programs_for(count, tile.rows), rows, grads, out, bits(p),
        count, length, M=tile.rows, N=tile.entries, HELD=tile.held, warps=tile.warps,
    )  # fmt: skip
    return out
