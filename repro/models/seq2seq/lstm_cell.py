r"""One step of an LSTM from the two summands of its gates; one kernel each way on accelerators.

.. math:: c = \sigma(f) \odot c' + \sigma(i) \odot \tanh(g), \quad h = \sigma(o) \odot \tanh(c)
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_library = torch.library.Library("repro", "FRAGMENT")
_library.define("lstm_cell(Tensor base, Tensor product, Tensor cell) -> (Tensor, Tensor, Tensor)")
_library.define(
    "lstm_cell_backward(Tensor? hidden_grad, Tensor? cell_grad, Tensor before, Tensor after,"
    " Tensor activated) -> (Tensor, Tensor)"
)


def _cell(base: Tensor, product: Tensor, cell: Tensor) -> Any:
    return torch.ops.aten._thnn_fused_lstm_cell(base, product, cell)


def _cell_backward(*arguments: Tensor | None) -> Any:
    return torch.ops.aten._thnn_fused_lstm_cell_backward_impl(*arguments, False)[:2]


_library.impl("lstm_cell", _cell, "CUDA")
_library.impl("lstm_cell_backward", _cell_backward, "CUDA")
torch.library.register_fake(
    "repro::lstm_cell",
    lambda base, product, cell: tuple(torch.empty_like(one) for one in (cell, cell, base)),
    lib=_library,
)
torch.library.register_fake(
    "repro::lstm_cell_backward",
    lambda hidden, cell, before, after, activated: (
        torch.empty_like(activated),
        torch.empty_like(before),
    ),
    lib=_library,
)


class _FusedCell(Function):
    """Hidden and cell state by PyTorch's kernel, which reads and writes each number once."""

    @staticmethod
    def forward(ctx: Any, base: Tensor, product: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        hidden, after, activated = torch.ops.repro.lstm_cell(base, product, cell)
        ctx.save_for_backward(cell, after, activated)
        ctx.set_materialize_grads(False)
        return hidden, after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if grads[0] is None and grads[1] is None:
            return None, None, None
        gates, cell = torch.ops.repro.lstm_cell_backward(*grads, *ctx.saved_tensors)
        return gates, gates, cell


def lstm_cell(base: Tensor, product: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Return the next hidden and cell state, ``(rows, units)`` like ``cell``.

    Args:
        base: one summand of the gates, ``(rows, 4 units)``: input, forget, cell and output gate
            before activation, ordered as in ``torch.nn.LSTM``.
        product: the other summand, in the dtype of ``base``.
        cell: the cell state before the step, ``(rows, units)``.
    """
    found: tuple[Tensor, Tensor] = _FusedCell.apply(base, product, cell)
    return found
