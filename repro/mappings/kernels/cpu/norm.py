"""From tensors to the kernels of normmax and sq-pnorm-max: memory, threads."""

import numpy as np
import torch
from torch import Tensor

from repro.mappings.kernels.cpu._compile import SOURCES, on_disk
from repro.mappings.kernels.cpu.entries import Entry, matrix, vector
from repro.mappings.kernels.cpu.norm_rows import norm_backward_rows, norm_rows
from repro.mappings.kernels.cpu.workers import split

_KINDS = {torch.float32: np.float32(0), torch.float64: np.float64(0)}
"""By their types the compiled kernels are told apart."""
_FORWARD, _BACKWARD = 4, 2
"""What an entry costs, against one that is only read and written."""


def _solver(sources: int) -> Entry:
    @on_disk
    def solve(kind, scores, exponent, exponents, squared, largest, probs, size, start, stop):
        rows = stop * (sources > 0)
        norm_rows(
            matrix(scores, kind, rows, size), exponent, vector(exponents, np.float64(0), rows),
            squared, largest, matrix(probs, kind, rows, size), start, stop,
        )  # fmt: skip
        return 0

    return solve


def _differentiator(sources: int) -> Entry:
    @on_disk
    def differentiate(
        kind, probs, grads, order, orders, squared, out, order_grads, size, start, stop
    ):
        rows = stop * (sources > 0)
        norm_backward_rows(
            matrix(probs, kind, rows, size), matrix(grads, kind, rows, size), order,
            vector(orders, np.float64(0), rows), squared, matrix(out, kind, rows, size),
            vector(order_grads, kind, rows), start, stop,
        )  # fmt: skip
        return 0

    return differentiate


_solve = _solver(SOURCES)
_differentiate = _differentiator(SOURCES)


def normmax_forward(scores: Tensor, alpha: float) -> Tensor:
    """Normmax along the last axis."""
    return _forward(scores, 1.0 / (alpha - 1.0), None, False)


def normmax_forward_rows(scores: Tensor, alphas: Tensor) -> Tensor:
    """The same with an alpha for each row, or one for all."""
    return _forward(scores, 0.0, 1.0 / (_each(alphas, scores) - 1.0), False)


def normmax_backward(probs: Tensor, grad: Tensor, alpha: float) -> Tensor:
    """``J g``."""
    return _backward(probs, grad, alpha, None, False, None)


def normmax_backward_rows(probs: Tensor, grad: Tensor, alphas: Tensor) -> tuple[Tensor, Tensor]:
    """``J g``, and for each row the gradient of its alpha."""
    alpha_grads = probs.new_empty(probs.numel() // probs.size(-1))
    return _backward(probs, grad, 0.0, _each(alphas, probs), False, alpha_grads), alpha_grads


def sq_pnorm_max_forward(scores: Tensor, p: float) -> Tensor:
    """Sq-pnorm-max along the last axis."""
    return _forward(scores, 1.0 / (p - 1.0), None, True)


def sq_pnorm_max_backward(probs: Tensor, grad: Tensor, p: float) -> Tensor:
    """``J g``."""
    return _backward(probs, grad, p, None, True, None)


def _each(orders: Tensor, rows: Tensor) -> Tensor:
    """A number for each row."""
    count = rows.numel() // rows.size(-1)
    return orders.detach().double().reshape(-1).expand(count).contiguous()


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _forward(scores: Tensor, exponent: float, exponents: Tensor | None, squared: bool) -> Tensor:
    scores, size = scores.contiguous(), scores.size(-1)
    probs = torch.empty_like(scores)
    split(
        _solve, scores.numel() // size, _FORWARD * scores.numel(), _KINDS[scores.dtype],
        scores.data_ptr(), exponent, _address(exponents), squared,
        torch.finfo(scores.dtype).max, probs.data_ptr(), size,
    )  # fmt: skip
    return probs


def _backward(
    probs: Tensor, grad: Tensor, order: float, orders: Tensor | None, squared: bool,
    order_grads: Tensor | None,
) -> Tensor:  # fmt: skip
    """Gradients of the scores; writes those of the orders."""
    probs, grad = probs.contiguous(), grad.contiguous()
    out, size = torch.empty_like(probs), probs.size(-1)
    split(
        _differentiate, probs.numel() // size, _BACKWARD * probs.numel(), _KINDS[probs.dtype],
        probs.data_ptr(), grad.data_ptr(), order, _address(orders), squared, out.data_ptr(),
        _address(order_grads), size,
    )  # fmt: skip
    return out
