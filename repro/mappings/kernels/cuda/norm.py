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
    rows_of,
    run_tiles,
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
    rows, by_row = rows_of(probs), numbers.each is not None
    out, drifts = torch.empty_like(rows), rows.new_empty(extent(rows)[0] if by_row else 0)
    run_tiles(
        normmax_backward_kernel, _tile(rows, 2), rows, rows_of(grad), out,
        *numbers.arguments(rows), drifts, ROWS=by_row,
    )  # fmt: skip
    return out, drifts


def sq_pnorm_max_forward(scores: Tensor, p: float) -> Tensor:
    """``y`` along the last axis."""
    rows = rows_of(scores)
    probs = torch.empty_like(rows)
    run_tiles(pnorm_kernel, _tile(rows, 1), rows, probs, bits(p / (p - 1)))
    return probs


def sq_pnorm_max_backward(probs: Tensor, grad: Tensor, p: float) -> Tensor:
    """``J g``."""
    rows = rows_of(probs)
    out = torch.empty_like(rows)
    run_tiles(pnorm_backward_kernel, _tile(rows, 2), rows, rows_of(grad), out, bits(p))
    return out


def _tile(rows: Tensor, arrays: int) -> policy.Tile:
    """Return the tile of a kernel that holds so many arrays."""
    return policy.tile(rows.size(-1), arrays * rows.element_size(), policy.POWERS)
