"""Products of successive steps with the same matrices, whose gradients are computed once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def product_dtype(values: Tensor) -> torch.dtype:
    """Precision of products of ``values``: that of autocast where it is enabled."""
    device = values.device.type
    if not torch.is_autocast_enabled(device) or values.dtype == torch.float64:
        return values.dtype
    return torch.get_autocast_dtype(device)


def sum_dtype(values: Tensor) -> torch.dtype:
    """Precision of states and sums: single at least."""
    return torch.promote_types(values.dtype, torch.float32)


class StepProduct(NamedTuple):
    r"""The affine map :math:`y_t = b_t + \sum_i x_{t,i} M_i^\top` of one step ``t``.

    Attributes:
        base: ``b_t``, shape ``(..., rows, out)``.
        matrices: ``M_i``, shape ``(..., out, in)`` each, in the precision of the products.
        inputs: receives the ``x_{t,i}`` of the call, for the gradients of the matrices.
    """

    base: Tensor
    matrices: Sequence[Tensor]
    inputs: list[Tensor]

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Return ``y_t`` in the precision of ``base``, given one ``(..., rows, in)`` per matrix."""
        result = self.base
        for value, matrix in zip(inputs, self.matrices, strict=True):
            value = value.to(matrix.dtype)
            self.inputs.append(value.detach())
            if value.dtype != result.dtype:
                result = result + value @ matrix.mT
            elif value.dim() == 2:
                result = torch.addmm(result, value, matrix.mT)
            else:
                result = torch.baddbmm(result, value, matrix.mT)
        return result


def step_products(
    base: Tensor, matrices: Sequence[Tensor], steps: int, dtype: torch.dtype | None = None
) -> list[StepProduct]:
    r"""Return the products of ``steps`` steps, each of which may depend on those before it.

    Autograd alone would add a small product to the gradient of ``M`` at every step. Here the steps
    treat the matrices as constants and keep their inputs, and one product of all steps gives

    .. math:: \nabla M = \sum_t (\nabla y_t)^\top x_t = (\nabla Y)^\top X.

    Every step must be called once. The gradients can be computed once only (no second derivatives).

    Args:
        base: ``b``, the steps one after the other along the rows, ``(..., steps * rows, out)``.
        matrices: ``M_i``, shape ``(..., out, in)`` each.
        steps: number of steps.
        dtype: precision of the products, by default that of each matrix; sums are in that of
            ``base``.
    """
    inputs: list[list[Tensor]] = [[] for _ in range(steps)]
    base = _MatrixGradients.apply(inputs, base, *matrices)
    constants = [matrix.detach().to(dtype or matrix.dtype) for matrix in matrices]
    bases = base.chunk(steps, dim=-2)
    return [StepProduct(*step) for step in zip(bases, [constants] * steps, inputs, strict=True)]


class _MatrixGradients(torch.autograd.Function):
    """Identity of ``base``, through whose gradient all steps pass; it adds those of the matrices.

    ``inputs`` is empty in the forward pass and filled by the steps before the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, inputs: list[list[Tensor]], base: Tensor, *matrices: Tensor) -> Tensor:
        """Return ``base``."""
        ctx.inputs, ctx.dtypes = inputs, [matrix.dtype for matrix in matrices]
        return base.view_as(base)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of ``base`` and, one product each, of the matrices."""
        gradients: list[Tensor | None] = []
        for number, dtype in enumerate(ctx.dtypes):
            if not ctx.needs_input_grad[2 + number]:
                gradients.append(None)
                continue
            inputs = torch.cat([step[number] for step in ctx.inputs], dim=-2)
            gradients.append((gradient.to(inputs.dtype).mT @ inputs).to(dtype))
        return None, gradient, *gradients
