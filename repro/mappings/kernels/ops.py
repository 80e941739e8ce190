"""The kernels as operators of torch: what autograd functions call and ``torch.compile`` keeps.

All act on the last axis of contiguous tensors of single or double precision. They have no
derivatives of their own.
"""

import os
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from repro.mappings.kernels.registration import define, launchers
from repro.mappings.kernels.shapes import like, like_and_rows


def _numba_compiles() -> bool:
    """Whether numba is installed, and not told by ``NUMBA_DISABLE_JIT`` to leave code in Python.

    The variable is read here, as importing numba to ask it takes longer than importing this
    package.
    """
    disabled = os.environ.get("NUMBA_DISABLE_JIT", "").strip() not in ("", "0")
    return find_spec("numba") is not None and not disabled


_INSTALLED = {"cpu": _numba_compiles(), "cuda": find_spec("triton") is not None}
"""What compiles the kernels of a kind of device; it is imported in the first call."""
AVAILABLE = _INSTALLED["cpu"]
"""Without numba no kernel is used on the processor, and nothing is said."""
_PRECISIONS = (torch.float32, torch.float64)
_TYPES = (Tensor, torch.nn.Parameter, FakeTensor)


def usable(tensor: Tensor) -> bool:
    """Whether kernels take a tensor: single or double, no subclass, not under ``vmap``.

    Batched gradients (``is_grads_batched``, ``vectorize=True``) come as tensors of an older
    ``vmap``, which have the plain type but no storage.
    """
    device = "cpu" if tensor.is_cpu else tensor.device.type
    if not _INSTALLED.get(device, False) or tensor.dtype not in _PRECISIONS:
        return False
    if torch.compiler.is_compiling():
        return True
    return (
        type(tensor) in _TYPES
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._functorch.is_legacy_batchedtensor(tensor)
    )


def launch(name: str, *arguments: Any) -> Any:
    """Call an operator, without torch's dispatcher where that has nothing to do.

    A row of a few scores is solved in less time than the dispatcher takes.
    """
    first = arguments[0]
    if (
        torch.compiler.is_compiling()
        or type(first) is FakeTensor
        or torch._C._len_torch_dispatch_stack() > 0
    ):
        return getattr(torch.ops.repro, name)(*arguments)
    return launchers["cpu" if first.is_cpu else first.device.type, name](*arguments)


def differentiable_once(probs: Tensor, grad: Tensor) -> bool:
    """Whether a backward pass may use kernels: nobody asks for the derivative of its result."""
    return not torch.is_grad_enabled() and usable(probs) and usable(grad)


def _losses_and_like(scores: Tensor, target: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return scores.new_empty(target.shape), like(scores)


_OPERATORS = (
    ("entmax_forward(Tensor scores, float order) -> Tensor", like),
    ("entmax_forward_rows(Tensor scores, Tensor orders) -> Tensor", like),
    ("entmax_backward(Tensor probs, Tensor grad, float order) -> Tensor", like),
    ("entmax_backward_scores(Tensor probs, Tensor grad, Tensor orders) -> Tensor", like),
    (
        "entmax_backward_rows(Tensor probs, Tensor grad, Tensor orders) -> (Tensor, Tensor)",
        like_and_rows,
    ),
    (
        "entmax_loss(Tensor scores, Tensor target, float order, int ignore_index)"
        " -> (Tensor, Tensor)",
        _losses_and_like,
    ),
    (
        "entmax_loss_backward(Tensor probs, Tensor target, Tensor grad, int ignore_index)"
        " -> Tensor",
        like,
    ),
)
for _schema, _shapes in _OPERATORS:
    define("entmax", _schema, _shapes)
