"""Scores in double precision, the same for the same shape and seed."""

import torch
from torch import Tensor


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def leaf(*shape: int, seed: int = 0) -> Tensor:
    """As ``draw``, with a gradient."""
    return draw(*shape, seed=seed).requires_grad_()
