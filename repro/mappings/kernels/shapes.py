"""Empty results of operators, for where no values exist."""

import torch
from torch import Tensor


def like(first: Tensor, *_: object) -> Tensor:
    """One result like the first argument, contiguous."""
    return torch.empty_like(first, memory_format=torch.contiguous_format)


def like_and_rows(first: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    """The same, and one number for each row."""
    return like(first), rows(first)


def rows(first: Tensor) -> Tensor:
    """One number for each row along the last axis."""
    return first.new_empty(first.numel() // first.size(-1))
