"""Kernels for CUDA of the operators in ``outputs.py``."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from repro.mappings.kernels.cuda.elementary import expm1
from repro.mappings.kernels.cuda.launch import run

BLOCK, WARPS = 256, 4


def dropped_tanh(sums: Tensor, mask: Tensor) -> Tensor:
    """Return ``tanh(x) m``."""
    sums, found = sums.contiguous(), torch.empty_like(mask)
    programs = -(-sums.numel() // BLOCK)
    run(tanh_kernel, programs, WARPS, sums, mask.contiguous(), found, sums.numel(), BLOCK=BLOCK)
    return found


def dropped_tanh_backward(
    sums: Tensor, mask: Tensor, grad: Tensor | None, other: Tensor | None
) -> Tensor:
    """Return the gradient of ``x``, given those of two uses: parts of the columns of others."""
    sums, found = sums.contiguous(), torch.empty_like(mask)
    uses = [one if one is None or one.stride(1) == 1 else one.contiguous() for one in (grad, other)]
    strides = [0 if one is None else one.stride(0) for one in uses]
    run(
        tanh_backward_kernel, -(-sums.numel() // BLOCK), WARPS, sums, mask.contiguous(), *uses,
        found, *strides, sums.size(1), sums.numel(), BLOCK=BLOCK,
    )  # fmt: skip
    return found


@triton.jit
def _tanh(x):
    below = expm1(-2.0 * tl.abs(x))
    height = -below / (2.0 + below)
    return tl.where(x < 0.0, -height, height)


@triton.jit
def tanh_kernel(sums, mask, found, size, BLOCK: tl.constexpr):
    """Read and write each number once."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = place < size
    value = _tanh(tl.load(sums + place, real, 0.0)) * tl.load(mask + place, real, 0.0)
    tl.store(found + place, value, real)


@triton.jit
def tanh_backward_kernel(
    sums, mask, one, two, found, of_one, of_two, units, size, BLOCK: tl.constexpr
):
    """``(g + g') m (1 - tanh(x)²)``, given how far rows of ``g`` and of ``g'`` are apart."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = place < size
    value = _tanh(tl.load(sums + place, real, 0.0))
    grad = tl.zeros_like(value)
    if one is not None:
        grad += tl.load(one + place // units * of_one + place % units, real, 0.0)
    if two is not None:
        grad += tl.load(two + place // units * of_two + place % units, real, 0.0)
    grad *= tl.load(mask + place, real, 0.0)
    tl.store(found + place, grad * (1.0 - value * value), real)
