"""Kernels of a decoder's step: its LSTM cell and its output, operators of ``models/seq2seq``.

Gradients of several uses are added. They may be parts of the columns of other matrices, so how far
apart their rows are is an argument.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from repro.mappings.kernels.cuda.elementary import expm1
from repro.mappings.kernels.cuda.launch import run

BLOCK, WARPS = 256, 4


def lstm_cell(gates: Tensor, cell: Tensor, mask: Tensor | None) -> tuple[Tensor, ...]:
    """Return the hidden state, the same times ``mask``, the cell state, and activated gates."""
    gates, cell = gates.contiguous(), cell.contiguous()
    hidden, after, activated = (torch.empty_like(one) for one in (cell, cell, gates))
    dropped = cell.new_empty(0) if mask is None else torch.empty_like(cell)
    _run(cell_kernel, cell, gates, mask, hidden, dropped, after, activated)
    return hidden, dropped, after, activated


def lstm_cell_backward(
    activated: Tensor, cell: Tensor, after: Tensor, mask: Tensor | None,
    grads: Sequence[Tensor | None], cell_grad: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the gradients of the gates and the cell state; the last of ``grads`` is masked."""
    gates, cell = torch.empty_like(activated), cell.contiguous()
    before = torch.empty_like(cell)
    above = None if cell_grad is None else cell_grad.contiguous()
    _run(cell_backward_kernel, cell, after, activated, mask, *_rows(grads), above, gates, before)
    return gates, before


def dropped_tanh(sums: Tensor, mask: Tensor | None) -> Tensor:
    """Return the hyperbolic tangent times ``mask``."""
    sums = sums.contiguous()
    _run(tanh_kernel, sums, mask, found := torch.empty_like(sums))
    return found


def dropped_tanh_backward(
    sums: Tensor, mask: Tensor | None, grads: Sequence[Tensor | None]
) -> Tensor:
    """Return the gradient of ``sums``."""
    sums = sums.contiguous()
    _run(tanh_backward_kernel, sums, mask, *_rows(grads), found := torch.empty_like(sums))
    return found


def _rows(grads: Sequence[Tensor | None]) -> list[Any]:
    """Return three gradients, the last ones given, and how far apart their rows are."""
    given = [one if one is None or one.stride(1) == 1 else one.contiguous() for one in grads]
    three = [*[None] * (3 - len(given)), *given]
    return [*three, *(0 if one is None else one.stride(0) for one in three)]


def _run(kernel, first: Tensor, *arguments) -> None:
    programs, units = -(-first.numel() // BLOCK), first.size(-1)
    run(kernel, programs, WARPS, first, *arguments, first.numel(), units, BLOCK=BLOCK)


@triton.jit
def _places(size, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    return place, place < size


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _tanh(x):
    below = expm1(-2.0 * tl.abs(x))
    height = -below / (2.0 + below)
    return tl.where(x < 0.0, -height, height)


@triton.jit
def _sum(place, real, units, mask, like, one, two, last, of_one, of_two, of_last):
    row, unit, total = place // units, place % units, tl.zeros_like(like)
    if last is not None:
        total += tl.load(last + row * of_last + unit, real, 0.0)
        if mask is not None:
            total *= tl.load(mask + place, real, 0.0)
    if one is not None:
        total += tl.load(one + row * of_one + unit, real, 0.0)
    if two is not None:
        total += tl.load(two + row * of_two + unit, real, 0.0)
    return total


@triton.jit
def cell_kernel(
    cell, gates, mask, hidden, dropped, after, activated, size, units, BLOCK: tl.constexpr
):
    """``c = σ(f) c' + σ(i) tanh(g)``, ``h = σ(o) tanh(c)`` of gates ``i, f, g, o`` of a row."""
    place, real = _places(size, BLOCK)
    first = place + place // units * 3 * units
    i = _sigmoid(tl.load(gates + first, real, 0.0))
    f = _sigmoid(tl.load(gates + first + units, real, 0.0))
    g = _tanh(tl.load(gates + first + 2 * units, real, 0.0))
    o = _sigmoid(tl.load(gates + first + 3 * units, real, 0.0))
    c = f * tl.load(cell + place, real, 0.0) + i * g
    h = o * _tanh(c)
    tl.store(hidden + place, h, real)
    tl.store(after + place, c, real)
    if mask is not None:
        tl.store(dropped + place, h * tl.load(mask + place, real, 0.0), real)
    tl.store(activated + first, i, real)
    tl.store(activated + first + units, f, real)
    tl.store(activated + first + 2 * units, g, real)
    tl.store(activated + first + 3 * units, o, real)


@triton.jit
def cell_backward_kernel(
    cell, after, activated, mask, one, two, last, of_one, of_two, of_last, above, gates, before,
    size, units, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of the gates before activation and of the cell state before the step."""
    place, real = _places(size, BLOCK)
    first = place + place // units * 3 * units
    i, f = tl.load(activated + first, real, 0.0), tl.load(activated + first + units, real, 0.0)
    g = tl.load(activated + first + 2 * units, real, 0.0)
    o = tl.load(activated + first + 3 * units, real, 0.0)
    bent = _tanh(tl.load(after + place, real, 0.0))
    h = _sum(place, real, units, mask, bent, one, two, last, of_one, of_two, of_last)
    c = h * o * (1.0 - bent * bent)
    if above is not None:
        c += tl.load(above + place, real, 0.0)
    tl.store(gates + first, c * g * i * (1.0 - i), real)
    tl.store(gates + first + units, c * tl.load(cell + place, real, 0.0) * f * (1.0 - f), real)
    tl.store(gates + first + 2 * units, c * i * (1.0 - g * g), real)
    tl.store(gates + first + 3 * units, h * bent * o * (1.0 - o), real)
    tl.store(before + place, c * f, real)


@triton.jit
def tanh_kernel(sums, mask, found, size, units, BLOCK: tl.constexpr):
    """``tanh(x)``, dropped."""
    place, real = _places(size, BLOCK)
    value = _tanh(tl.load(sums + place, real, 0.0))
    if mask is not None:
        value *= tl.load(mask + place, real, 0.0)
    tl.store(found + place, value, real)


@triton.jit
def tanh_backward_kernel(
    sums, mask, one, two, last, of_one, of_two, of_last, found, size, units, BLOCK: tl.constexpr
):
    """Gradient of ``x``, given those of two uses of the output."""
    place, real = _places(size, BLOCK)
    value = _tanh(tl.load(sums + place, real, 0.0))
    grad = _sum(place, real, units, None, value, one, two, last, of_one, of_two, of_last)
    if mask is not None:
        grad *= tl.load(mask + place, real, 0.0)
    tl.store(found + place, grad * (1.0 - value * value), real)
