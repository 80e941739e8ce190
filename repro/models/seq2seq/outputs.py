r"""Attentional outputs with dropout; one kernel each way on accelerators.

.. math:: o = m \odot \tanh(x)
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from repro.mappings.kernels.dispatch import CudaLauncher, has_kernel, in_torch

_library = torch.library.Library("repro", "FRAGMENT")
_library.define("dropped_tanh(Tensor sums, Tensor mask) -> Tensor")
_library.define(
    "dropped_tanh_backward(Tensor sums, Tensor mask, Tensor? grad, Tensor? other) -> Tensor"
)


@in_torch
def dropped_tanh(sums: Tensor, mask: Tensor) -> Tensor:
    """Return ``tanh(x) m``."""
    return sums.tanh() * mask


@in_torch
def dropped_tanh_backward(
    sums: Tensor, mask: Tensor, grad: Tensor | None, other: Tensor | None
) -> Tensor:
    """Return the gradient of ``x``, given those of two uses of the result."""
    first, *second = (one for one in (grad, other) if one is not None)
    total = first + second[0] if second else first
    found: Tensor = torch.ops.aten.tanh_backward(total * mask, sums.tanh())
    return found


def _implement(function: Callable[..., Tensor]) -> None:
    """Let an operator launch its kernel on CUDA; PyTorch computes it where there is none."""
    name = function.__name__
    launcher = CudaLauncher("outputs", name)
    launcher.kernel = lambda *given: getattr(
        import_module("repro.models.seq2seq.output_kernels"), name
    )(*given)

    def launch(*given: Any) -> Any:
        return (launcher if has_kernel(given[0]) else function)(*given)

    _library.impl(name, launch, "CUDA")
    _library.impl(name, function, "CPU")
    torch.library.register_fake(
        f"repro::{name}", lambda _, mask, *__: torch.empty_like(mask), lib=_library
    )


for _function in (dropped_tanh, dropped_tanh_backward):
    _implement(_function)


class _DroppedTanh(Function):
    """The result for two uses, whose gradients meet in one kernel."""

    @staticmethod
    def forward(ctx: Any, sums: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(sums, mask)
        ctx.set_materialize_grads(False)
        found = torch.ops.repro.dropped_tanh(sums, mask)
        return found, found.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        if grads[0] is None and grads[1] is None:
            return None, None
        return torch.ops.repro.dropped_tanh_backward(*ctx.saved_tensors, *grads), None


def attentional_outputs(sums: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the output for two uses: the next step, and the scores of symbols.

    Args:
        sums: ``x``, ``(rows, units)``.
        mask: ``m``, likewise; None without dropout.
    """
    if sums.is_cpu or mask is None:
        found = sums.tanh() if mask is None else sums.tanh() * mask
        return found, found
    two: tuple[Tensor, Tensor] = _DroppedTanh.apply(sums, mask)
    return two
