"""How the mappings choose between kernels and PyTorch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from repro.mappings.kernels import ops


def chosen(
    plain: type[Function], forward_mode: type[Function], scores: Tensor
) -> Callable[..., Any]:
    """How to apply a function: ``torch.compile`` refuses those with forward mode.

    A kernel is applied without what ``Function.apply`` does for functorch, which takes longer than
    a small kernel.
    """
    if torch.compiler.is_compiling():
        return plain.apply
    if ops.usable(scores):
        directly: Callable[..., Any] = super(Function, forward_mode).apply  # type: ignore[misc]
        return directly
    return forward_mode.apply


def to_last(tensor: Tensor, dim: int) -> Tensor:
    """The axis moved to the end, where kernels want it."""
    return tensor if dim in (-1, tensor.dim() - 1) else tensor.movedim(dim, -1)


def from_last(tensor: Tensor, dim: int) -> Tensor:
    """The last axis moved back; a copy, as forward mode wants tangents laid out as a view is."""
    return tensor if dim in (-1, tensor.dim() - 1) else tensor.movedim(-1, dim).contiguous()
