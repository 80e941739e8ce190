r"""One step of an LSTM; one kernel each way on accelerators, PyTorch's operators on a CPU.

.. math:: c = \sigma(f) \odot c' + \sigma(i) \odot \tanh(g), \quad h = \sigma(o) \odot \tanh(c)
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from repro.models.seq2seq.step_products import StepProduct

_library = torch.library.Library("repro", "FRAGMENT")
_library.define("lstm_cell(Tensor base, Tensor product, Tensor cell) -> (Tensor, Tensor, Tensor)")
_library.define(
    "lstm_cell_backward(Tensor? hidden_grad, Tensor? cell_grad, Tensor before, Tensor after,"
    " Tensor activated) -> (Tensor, Tensor)"
)


def _cell(base: Tensor, product: Tensor, cell: Tensor) -> Any:
    # Autocast would round the states, and the backward pass refuses two precisions.
    with torch.autocast("cuda", enabled=False):
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


def lstm_step(
    gates: StepProduct, inputs: Tensor, hidden: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the next hidden and cell state, ``(rows, units)`` like ``hidden`` and ``cell``.

    Args:
        gates: the map from inputs and hidden state to the input, forget, cell and output gates
            before activation, ordered as in ``torch.nn.LSTM``, ``(rows, 4 units)``.
        inputs: input of the layer, ``(rows, input)``.
        hidden: the hidden state before the step.
        cell: the cell state before the step.
    """
    if not inputs.is_cpu:
        return fused_cell(gates.base, gates.product(inputs, hidden), cell)
    i, f, g, o = gates(inputs, hidden).chunk(4, dim=-1)
    after = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * after.tanh(), after


def fused_cell(base: Tensor, product: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Return the next states on an accelerator, given two summands of the gates of one dtype."""
    found: tuple[Tensor, Tensor] = _FusedCell.apply(base, product, cell)
    return found
