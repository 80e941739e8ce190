"""Products of successive steps with one matrix, whose gradient is computed once for all steps."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def product_dtype(values: Tensor) -> torch.dtype:
    """Return the dtype in which to multiply ``values``: that of autocast if it is enabled."""
    device = values.device.type
    known = torch.amp.is_autocast_available(device)
    if not known or not torch.is_autocast_enabled(device) or values.dtype == torch.float64:
        return values.dtype
    return torch.get_autocast_dtype(device)


def sum_dtype(values: Tensor) -> torch.dtype:
    """Return the dtype of states and sums of ``values``: float32 at least."""
    return torch.promote_types(values.dtype, torch.float32)


class StepProduct(NamedTuple):
    r"""The affine map :math:`y_t = b_t + x_t M^\top` of one step ``t``."""

    base: Tensor  # b_t, (..., rows, out)
    matrix: Tensor  # M, (..., out, in), in the precision of the product
    inputs: list[Tensor]  # x_t is appended, for the gradient of the matrix

    def __call__(self, *parts: Tensor) -> Tensor:
        """Return ``y_t`` in the dtype of ``base``; ``x_t`` is the concatenation of ``parts``."""
        value = self._input(parts)
        if value.dtype != self.base.dtype:
            return self.base + value @ self.matrix.mT
        if not value.is_cpu:
            return added_product(self.base, value, self.matrix)
        product = torch.addmm if value.dim() == 2 else torch.baddbmm
        return product(self.base, value, self.matrix.mT)

    def _input(self, parts: tuple[Tensor, ...]) -> Tensor:
        """Concatenate ``x_t``, and store it for the gradient of the matrix."""
        if self.inputs:
            raise RuntimeError("the product of this step has been computed")
        value = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        value = value.to(self.matrix.dtype)
        self.inputs.append(value.detach())
        return value


def step_products(
    base: Tensor, matrix: Tensor, steps: int, dtype: torch.dtype | None = None
) -> list[StepProduct]:
    r"""Return the products of ``steps`` steps, whose inputs may depend on earlier steps.

    Autograd would add one small product per step to the gradient of ``M``. Here the steps treat the
    matrix as a constant and store their inputs, and one large product gives

    .. math:: \nabla M = \sum_t (\nabla y_t)^\top x_t = (\nabla Y)^\top X.

    Every product must be called exactly once, as on accelerators it is added to its base in place:
    a second call raises RuntimeError, a missing one is an error of the backward pass. Second
    derivatives are not supported.

    Args:
        base: ``b`` of all steps, concatenated along the rows, ``(..., steps * rows, out)``.
        matrix: ``M``, shape ``(..., out, in)``.
        steps: number of steps.
        dtype: dtype of the products, by default that of the matrix; sums have that of ``base``.
    """
    # One list per step: a compiled step must not depend on the number of steps before it.
    inputs: list[list[Tensor]] = [[] for _ in range(steps)]
    base = _MatrixGradient.apply(inputs, base, matrix)
    constant = matrix.detach().to(dtype or matrix.dtype)
    bases = base.chunk(steps, dim=-2)
    return [StepProduct(*step) for step in zip(bases, [constant] * steps, inputs, strict=True)]


def added_product(base: Tensor, value: Tensor, matrix: Tensor) -> Tensor:
    """Return ``base + value @ matrixᵀ`` in the memory of ``base``, which is overwritten.

    CUDA would copy ``base`` in a launch of its own if the sum had other memory. Autograd is not
    told, so nothing may have saved ``base`` for a backward pass; the matrix gets no gradient.
    """
    found: Tensor = _AddedProduct.apply(base, value, matrix)
    return found


class _AddedProduct(torch.autograd.Function):
    """Sum of a matrix and a product, whose backward pass computes the gradients of both inputs."""

    @staticmethod
    def forward(ctx: Any, base: Tensor, value: Tensor, matrix: Tensor) -> Tensor:
        ctx.matrix = matrix
        # A tensor with a version of its own: steps share the memory of all bases, and another's
        # sum, saved for a backward pass, is not changed by this one.
        found = base.data
        add = found.addmm_ if value.dim() == 2 else found.baddbmm_
        return add(value, matrix.mT)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        return gradient, gradient @ ctx.matrix, None


class _MatrixGradient(torch.autograd.Function):
    """Identity function of ``base`` whose backward pass also computes the gradient of the matrix.

    The gradients of all steps meet in ``base``; the steps fill ``inputs`` before the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, inputs: list[list[Tensor]], base: Tensor, matrix: Tensor) -> Tensor:
        """Return ``base``; on accelerators a copy, to which the products of steps are added."""
        ctx.inputs, ctx.dtype = inputs, matrix.dtype
        if base.is_cpu:
            return base.view_as(base)
        return base.clone(memory_format=torch.contiguous_format)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, Tensor | None]:
        """Return the gradient of ``base`` and, from one product, that of the matrix."""
        if not ctx.needs_input_grad[2]:
            return None, gradient, None
        inputs = torch.cat([value for step in ctx.inputs for value in step], dim=-2)
        return None, gradient, (gradient.to(inputs.dtype).mT @ inputs).to(ctx.dtype)
