"""The one table of test tolerances, by dtype; self-checks of kernels share two of them."""

import torch
from torch import Tensor

from repro.mappings.kernels.selfcheck import ADVERSARIAL, GRADIENT

__all__ = ["ABSOLUTE", "ADVERSARIAL", "GRADIENT", "LOSS", "SUM", "assert_close"]

ABSOLUTE = {
    torch.float64: 1e-12,
    torch.float32: 2e-7,
    torch.float16: 5e-4,
    torch.bfloat16: 4e-3,
}
"""Largest absolute error of one probability on ordinary rows: a few roundings of one."""

LOSS = {torch.float64: 1e-12, torch.float32: 2e-6}
"""Largest error of a loss, relative to its size or absolute below one."""

SUM = {
    torch.float64: 1e-13,
    torch.float32: 1e-6,
    torch.float16: 1e-2,
    torch.bfloat16: 2e-2,
}
"""Largest distance of a row's sum from one (entries of half types are rounded one by one)."""


def assert_close(actual: Tensor, expected: Tensor, table: dict[torch.dtype, float]) -> None:
    """Compare values with the tolerance of ``actual``'s dtype, relative above one."""
    bound = table[actual.dtype]
    torch.testing.assert_close(
        actual.double(), expected.double(), atol=bound, rtol=bound, equal_nan=True
    )
