"""Solvers, which read values, below the transforms of ``torch.func``, which hide them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function


class Inputs(NamedTuple):
    """Arguments of structured inference.

    Attributes:
        unary: scores ``(B, ...)``.
        additional: scores ``(B, ...)``, or transitions ``(n - 1, m, m)`` shared by the batch.
        lengths: ``(B, ...)`` or None.
        mask: like ``unary`` or None.
    """

    unary: Tensor
    additional: Tensor | None
    lengths: Tensor | None
    mask: Tensor | None


Solve = Callable[[Inputs], tuple[Any, ...]]
"""Returns tensors ``(B, ...)``, and anything else, which belongs to all instances together."""


def solve_below_transforms(solve: Solve, inputs: Inputs) -> tuple[Any, ...]:
    """Call a solver with plain tensors; mapped dimensions become part of the batch.

    Args:
        solve: the solver. What it returns gets no derivative.
        inputs: inputs of one mapped instance.
    """
    unary, additional, lengths, mask = inputs
    if not torch._C._are_functorch_transforms_active():
        return solve(inputs)
    if additional is not None:
        additional = additional.detach()
        if additional.dim() == 3:
            additional = additional.expand(len(unary), *additional.shape)
    found: tuple[Any, ...] = _Solver.apply(unary.detach(), additional, lengths, mask, solve)
    return found


class _Solver(Function):
    """The solver as a function without derivative."""

    @staticmethod
    def forward(
        unary: Tensor,
        additional: Tensor | None,
        lengths: Tensor | None,
        mask: Tensor | None,
        solve: Solve,
    ) -> tuple[Any, ...]:
        return solve(Inputs(unary, additional, lengths, mask))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.mark_non_differentiable(*(part for part in output if isinstance(part, Tensor)))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[None, ...]:
        return None, None, None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *arguments: Any
    ) -> tuple[tuple[Any, ...], tuple[int | None, ...]]:
        *tensors, solve = arguments

        def fold(tensor: Tensor | None, dim: int | None) -> Tensor | None:
            if tensor is None:
                return None
            if dim is None:
                tensor = tensor.unsqueeze(0).expand(info.batch_size, *tensor.shape)
            else:
                tensor = tensor.movedim(dim, 0)
            return tensor.flatten(0, 1)

        folded = [fold(tensor, dim) for tensor, dim in zip(tensors, in_dims, strict=False)]
        found = _Solver.apply(*folded, solve)
        unfolded = tuple(
            part.unflatten(0, (info.batch_size, -1)) if isinstance(part, Tensor) else part
            for part in found
        )
        return unfolded, tuple(0 if isinstance(part, Tensor) else None for part in found)
