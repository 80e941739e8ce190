"""From tensors to the kernels of α-entmax: rows, memory, threads."""

import numpy as np
import torch
from torch import Tensor

from repro.mappings.kernels.cpu import entries
from repro.mappings.kernels.cpu.workers import split

_KINDS = {torch.float32: np.float32(0), torch.float64: np.float64(0)}
"""By their types the compiled kernels are told apart."""
_CLOSED = (1.0, 0.5)
_POWER = 6
"""What an entry costs where powers are taken, against one where none are."""


def entmax_forward(scores: Tensor, order: float) -> Tensor:
    """``p`` along the last axis at one order."""
    return _forward(scores, order, None, None, 0)[0]


def entmax_forward_rows(scores: Tensor, orders: Tensor) -> Tensor:
    """``p`` along the last axis with an order for each row, or one for all."""
    order, each = _orders(orders)
    return _forward(scores, order, each, None, 0)[0]


def entmax_backward(probs: Tensor, grad: Tensor, order: float) -> Tensor:
    """``J g``."""
    return _backward(probs, grad, order, None, None)


def entmax_backward_scores(probs: Tensor, grad: Tensor, orders: Tensor) -> Tensor:
    """``J g`` with an order for each row, or one for all."""
    order, each = _orders(orders)
    return _backward(probs, grad, order, each, None)


def entmax_backward_rows(probs: Tensor, grad: Tensor, orders: Tensor) -> tuple[Tensor, Tensor]:
    """``J g``, and for each row the gradient of its order."""
    order, each = _orders(orders)
    order_grads = probs.new_empty(probs.numel() // probs.size(-1))
    return _backward(probs, grad, order, each, order_grads), order_grads


def entmax_loss(
    scores: Tensor, target: Tensor, order: float, ignored: int
) -> tuple[Tensor, Tensor]:
    """Losses and ``p`` along the last axis.

    Raises:
        IndexError: a target is neither a class nor the ignored value.
    """
    losses = scores.new_empty(target.shape)
    probs, wrong = _forward(scores, order, None, (target.contiguous(), losses), ignored)
    if wrong:
        raise IndexError(f"targets must be in [0, {scores.size(-1)}) or the ignored value")
    return losses, probs


def entmax_loss_backward(probs: Tensor, target: Tensor, grads: Tensor, ignored: int) -> Tensor:
    """``g (p - e_y)``."""
    probs, target, grads = probs.contiguous(), target.contiguous(), grads.contiguous()
    out, size = torch.empty_like(probs), probs.size(-1)
    split(
        entries.loss_backward, probs.numel() // size, probs.numel(), _KINDS[probs.dtype],
        probs.data_ptr(), target.data_ptr(), ignored, grads.data_ptr(), out.data_ptr(), size,
    )  # fmt: skip
    return out


def _orders(orders: Tensor) -> tuple[float, Tensor | None]:
    """One order for all rows, or else one for each."""
    if orders.numel() == 1:
        return orders.item(), None
    return 0.0, orders.detach().double().contiguous()


def _forward(
    scores: Tensor, order: float, orders: Tensor | None,
    judged: tuple[Tensor, Tensor] | None, ignored: int,
) -> tuple[Tensor, int]:  # fmt: skip
    """``p``, and how many targets are no class; writes losses next to their targets."""
    scores = scores.contiguous()
    probs, size, kind = torch.empty_like(scores), scores.size(-1), _KINDS[scores.dtype]
    target, losses = (_address(tensor) for tensor in judged or (None, None))
    count, outputs = scores.numel() // size, (target, ignored, probs.data_ptr(), losses, size)
    if orders is None and order in _CLOSED:
        wrong = split(
            entries.closed, count, scores.numel(), kind, scores.data_ptr(), order, *outputs
        )
    else:
        wrong = split(
            entries.level, count, _POWER * scores.numel(), kind, scores.data_ptr(), order,
            _address(orders), *outputs,
        )  # fmt: skip
    return probs, wrong


def _backward(
    probs: Tensor, grads: Tensor, order: float, orders: Tensor | None, order_grads: Tensor | None
) -> Tensor:
    """Gradients of the scores; writes those of the orders."""
    probs, grads = probs.contiguous(), grads.contiguous()
    out, size = torch.empty_like(probs), probs.size(-1)
    split(
        entries.backward, probs.numel() // size, probs.numel(), _KINDS[probs.dtype],
        probs.data_ptr(), grads.data_ptr(), order, _address(orders), out.data_ptr(),
        _address(order_grads), size,
    )  # fmt: skip
    return out


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
