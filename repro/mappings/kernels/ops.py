"""The kernels as operators of torch: what autograd functions call and ``torch.compile`` keeps.

All act on the last axis of contiguous tensors of single or double precision. They have no
derivatives of their own.
"""

import importlib.util

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

AVAILABLE = importlib.util.find_spec("numba") is not None
"""Without numba nothing here is used, and nothing is said."""
_WORTHWHILE = 2**18
"""Entries from which a kernel is called: numba and its threads are not woken for small tensors."""
_PRECISIONS = (torch.float32, torch.float64)
_TYPES = (Tensor, torch.nn.Parameter, FakeTensor)

_library = torch.library.Library("repro", "DEF")


def usable(tensor: Tensor) -> bool:
    """Whether kernels take a tensor: large, on the CPU, no subclass, not under ``vmap``."""
    if not AVAILABLE or tensor.device.type != "cpu" or tensor.dtype not in _PRECISIONS:
        return False
    if torch.compiler.is_compiling():
        return True
    if tensor.numel() < _WORTHWHILE:
        return False
    return type(tensor) in _TYPES and not torch._C._are_functorch_transforms_active()


def differentiable_once(probs: Tensor, grad: Tensor) -> bool:
    """Whether a backward pass may use kernels: nobody asks for the derivative of its result."""
    return not torch.is_grad_enabled() and usable(probs) and usable(grad)


def entmax_forward(scores: Tensor, order: float) -> Tensor:
    """``p`` at one order."""
    from repro.mappings.kernels.cpu import launch

    return launch.forward(scores, order)


def entmax_forward_rows(scores: Tensor, orders: Tensor) -> Tensor:
    """``p`` with an order for each row, or one for all."""
    from repro.mappings.kernels.cpu import launch

    return launch.forward(scores, orders)


def entmax_backward(probs: Tensor, grad: Tensor, order: float) -> Tensor:
    """``J g``."""
    from repro.mappings.kernels.cpu import launch

    return launch.backward(probs, grad, order, with_orders=False)[0]


def entmax_backward_rows(probs: Tensor, grad: Tensor, orders: Tensor) -> tuple[Tensor, Tensor]:
    """``J g``, and for each row the gradient of its order."""
    from repro.mappings.kernels.cpu import launch

    return launch.backward(probs, grad, orders, with_orders=True)


def entmax_loss(
    scores: Tensor, target: Tensor, order: float, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """Fenchel–Young losses, and ``p``."""
    from repro.mappings.kernels.cpu import launch

    return launch.loss(scores, target, order, ignore_index)


def entmax_loss_backward(probs: Tensor, target: Tensor, grad: Tensor, ignore_index: int) -> Tensor:
    """``g (p - e_y)``."""
    from repro.mappings.kernels.cpu import launch

    return launch.loss_backward(probs, target, grad, ignore_index)


def _like(first: Tensor, *_: object) -> Tensor:
    return torch.empty_like(first, memory_format=torch.contiguous_format)


def _like_and_rows(probs: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return _like(probs), probs.new_empty(probs.numel() // probs.size(-1))


def _losses_and_like(scores: Tensor, target: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return scores.new_empty(target.shape), _like(scores)


_OPERATORS = (
    ("entmax_forward(Tensor scores, float order) -> Tensor", entmax_forward, _like),
    ("entmax_forward_rows(Tensor scores, Tensor orders) -> Tensor", entmax_forward_rows, _like),
    ("entmax_backward(Tensor probs, Tensor grad, float order) -> Tensor", entmax_backward, _like),
    (
        "entmax_backward_rows(Tensor probs, Tensor grad, Tensor orders) -> (Tensor, Tensor)",
        entmax_backward_rows,
        _like_and_rows,
    ),
    (
        "entmax_loss(Tensor scores, Tensor target, float order, int ignore_index)"
        " -> (Tensor, Tensor)",
        entmax_loss,
        _losses_and_like,
    ),
    (
        "entmax_loss_backward(Tensor probs, Tensor target, Tensor grad, int ignore_index)"
        " -> Tensor",
        entmax_loss_backward,
        _like,
    ),
)
for _schema, _kernel, _shapes in _OPERATORS:
    _library.define(_schema, tags=torch.Tag.pt2_compliant_tag)
    _library.impl(_kernel.__name__, _kernel, "CPU")
    torch.library.register_fake(f"repro::{_kernel.__name__}", _shapes, lib=_library)
