"""The one table of test tolerances, by dtype."""

import torch
from torch import Tensor

ABSOLUTE = {
    torch.float64: 1e-12,
    torch.float32: 2e-7,
    torch.float16: 5e-4,
    torch.bfloat16: 4e-3,
}
"""Largest absolute error of one probability on ordinary rows: a few roundings of one."""

ADVERSARIAL = {torch.float64: 1e-12, torch.float32: 1.5e-6}
"""Largest error on rows built to be hard: long ladders and thousands of near ties."""

GRADIENT = {torch.float64: 1e-11, torch.float32: 1e-5}
"""Largest absolute error of a gradient entry against its closed form."""

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
