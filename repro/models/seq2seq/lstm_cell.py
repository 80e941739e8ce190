r"""One step of an LSTM; one kernel each way on accelerators, PyTorch's operators on a CPU.

.. math:: c = \sigma(f) \odot c' + \sigma(i) \odot \tanh(g), \quad h = \sigma(o) \odot \tanh(c)
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from repro.models.seq2seq.operators import define
from repro.models.seq2seq.step_products import StepProduct


def _cell(gates: Tensor, cell: Tensor, mask: Tensor | None) -> tuple[Tensor, ...]:
    """Return the hidden state, the same times ``mask``, the cell state, and activated gates."""
    # Autocast would round the states, and the backward pass refuses two precisions.
    with torch.autocast("cuda", enabled=False):
        hidden, after, activated = torch.ops.aten._thnn_fused_lstm_cell(
            gates, torch.zeros_like(gates), cell
        )
    return hidden, hidden.new_empty(0) if mask is None else hidden * mask, after, activated


def _cell_backward(
    activated: Tensor, cell: Tensor, after: Tensor, mask: Tensor | None,
    grads: Sequence[Tensor | None], cell_grad: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the gradients of gates and cell state; the last of ``grads`` is masked."""
    *others, last = grads
    parts = [*others, last if last is None or mask is None else last * mask]
    found = [one for one in parts if one is not None]
    hidden_grad = torch.stack(found).sum(0) if found else None
    gates, before = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(
        hidden_grad, cell_grad, cell, after, activated, False
    )[:2]
    return gates, before


define(
    "lstm_cell(Tensor gates, Tensor cell, Tensor? mask) -> (Tensor, Tensor, Tensor, Tensor)",
    _cell,
    lambda gates, cell, mask: (
        torch.empty_like(cell),
        cell.new_empty(0) if mask is None else torch.empty_like(cell),
        torch.empty_like(cell),
        torch.empty_like(gates),
    ),
)
define(
    "lstm_cell_backward(Tensor activated, Tensor cell, Tensor after, Tensor? mask, Tensor?[] grads,"
    " Tensor? cell_grad) -> (Tensor, Tensor)",
    _cell_backward,
    lambda activated, cell, *_: (torch.empty_like(activated), torch.empty_like(cell)),
)


class _FusedCell(Function):
    """Cell state, and the hidden state for several uses, whose gradients meet in one kernel."""

    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, cell: Tensor, uses: int, mask: Tensor | None
    ) -> tuple[Tensor, ...]:
        hidden, dropped, after, activated = torch.ops.repro.lstm_cell(gates, cell, mask)
        ctx.save_for_backward(activated, cell, after, mask)
        ctx.set_materialize_grads(False)
        states = [hidden, *(hidden.detach() for _ in range(uses - 1))]
        return after, *(states if mask is None else [*states[:-1], dropped])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cell_grad: Tensor | None, *grads: Tensor | None) -> Any:
        if cell_grad is None and all(one is None for one in grads):
            return None, None, None, None
        gates, cell = torch.ops.repro.lstm_cell_backward(*ctx.saved_tensors, [*grads], cell_grad)
        return gates, cell, None, None


def lstm_step(
    gates: StepProduct,
    inputs: Tensor,
    hidden: Tensor,
    cell: Tensor,
    uses: int = 1,
    mask: Tensor | None = None,
) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return the next hidden state for each use, and the cell state, like ``hidden`` and ``cell``.

    Args:
        gates: the map from inputs and hidden state to the input, forget, cell and output gates
            before activation, ordered as in ``torch.nn.LSTM``, ``(rows, 4 units)``.
        inputs: input of the layer, ``(rows, input)``.
        hidden: the hidden state before the step.
        cell: the cell state before the step.
        uses: number of uses, at most three. On accelerators, the same numbers are one tensor for
            each, as autograd would add the gradients of a single one by an operator for each.
        mask: factors of the last use.
    """
    if not inputs.is_cpu:
        return fused_cell(gates(inputs, hidden), cell, uses, mask)
    i, f, g, o = gates(inputs, hidden).chunk(4, dim=-1)
    after = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    found = o.sigmoid() * after.tanh()
    return (*[found] * (uses - 1), found if mask is None else found * mask), after


def fused_cell(
    gates: Tensor, cell: Tensor, uses: int = 1, mask: Tensor | None = None
) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return what :func:`lstm_step` does on an accelerator, given the gates."""
    after, *states = _FusedCell.apply(gates, cell, uses, mask)
    return tuple(states), after
