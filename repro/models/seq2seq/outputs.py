r"""Attentional outputs with dropout; one kernel each way on accelerators.

.. math:: o = m \odot \tanh(x)
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from repro.models.seq2seq.operators import define


def dropped_tanh(sums: Tensor, mask: Tensor | None) -> Tensor:
    """Return ``m tanh(x)``."""
    found = torch.tanh(sums)
    return found if mask is None else found * mask


def dropped_tanh_backward(
    sums: Tensor, mask: Tensor | None, grads: Sequence[Tensor | None]
) -> Tensor:
    """Return the gradient of ``x``, given those of two uses of the result."""
    first, *second = (one for one in grads if one is not None)
    total = first + second[0] if second else first
    found: Tensor = torch.ops.aten.tanh_backward(
        total if mask is None else total * mask, sums.tanh()
    )
    return found


define(
    "dropped_tanh(Tensor sums, Tensor? mask) -> Tensor",
    dropped_tanh,
    lambda sums, _: torch.empty_like(sums),
)
define(
    "dropped_tanh_backward(Tensor sums, Tensor? mask, Tensor?[] grads) -> Tensor",
    dropped_tanh_backward,
    lambda sums, *_: torch.empty_like(sums),
)


class _DroppedTanh(Function):
    """The result for two uses, whose gradients meet in one kernel."""

    @staticmethod
    def forward(ctx: Any, sums: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(sums, mask)
        ctx.set_materialize_grads(False)
        found = torch.ops.repro.dropped_tanh(sums, mask)
        return found, found.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        if grads[0] is None and grads[1] is None:
            return None, None
        return torch.ops.repro.dropped_tanh_backward(*ctx.saved_tensors, [*grads]), None


def attentional_outputs(sums: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the output for two uses: the next step, and the scores of symbols.

    Args:
        sums: ``x``, ``(rows, units)``.
        mask: ``m``, likewise; None without dropout.
    """
    if sums.is_cpu:
        found = dropped_tanh(sums, mask)
        return found, found
    two: tuple[Tensor, Tensor] = _DroppedTanh.apply(sums, mask)
    return two
