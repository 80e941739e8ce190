"""Kernels of a decoder's step against formulas: on a device, or in Triton's interpreter."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from child import run_tests
from torch import Tensor

from repro.models.layers import dropout_mask
from repro.models.seq2seq.outputs import _DroppedTanh, attentional_outputs, dropped_tanh

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
UNITS = 50
BOUND = {torch.float32: 2e-6, torch.float64: 1e-14}
ON_A_DEVICE = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.version.cuda is None, reason="a simulated card has no kernels"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
]
each_kernel = pytest.mark.parametrize(
    "dtype", [pytest.param(one, marks=[] if INTERPRETED else ON_A_DEVICE) for one in BOUND]
)
in_pytorch = pytest.mark.skipif(INTERPRETED, reason="uses no interpreted kernel")


@in_pytorch
def test_all_in_the_interpreter():
    pytest.importorskip("triton")
    options = ("-x", "-n0", "-W", "ignore::RuntimeWarning")
    run_tests(*options, __file__, paths=(Path(__file__).parents[1],), TRITON_INTERPRET="1")


def numbers(rows: int, units: int, dtype: torch.dtype) -> Tensor:
    """Numbers near zero, and others that saturate."""
    scale = torch.logspace(-6, 2, rows * units, dtype=torch.float64)[torch.randperm(rows * units)]
    return (torch.randn(rows, units, dtype=torch.float64) * scale.view(rows, units)).to(dtype)


def mask_of(rows: int, dtype: torch.dtype) -> Tensor:
    return dropout_mask((rows, UNITS), 0.3, torch.empty(0)).to(dtype)


def gradients(rows: int, count: int, dtype: torch.dtype) -> list[list[Tensor | None]]:
    """Gradients as autograd gives them: whole ones, columns of others, some of no use."""
    wide = torch.randn(rows, 3 * UNITS, dtype=dtype)
    some = [
        torch.randn(rows, UNITS, dtype=dtype), wide[:, UNITS : 2 * UNITS],
        wide[:1, :1].expand(rows, UNITS),
    ]  # fmt: skip
    alone = [[some[k] if k == place else None for k in range(count)] for place in range(count)]
    return [some[:count], some[::-1][:count], *alone]


def launched(name: str, *arguments: object) -> Sequence[Tensor]:
    """Return the results of a kernel in double precision; arguments and results are on the CPU."""
    from repro.mappings.kernels.cuda import steps

    def moved(one: object) -> object:
        if isinstance(one, list):
            return [*map(moved, one)]
        return one.to("cpu" if INTERPRETED else "cuda") if isinstance(one, Tensor) else one

    found = getattr(steps, name)(*map(moved, arguments))
    return [one.cpu().double() for one in ((found,) if isinstance(found, Tensor) else found)]


def differentiated(
    formula: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
) -> Sequence[Tensor]:
    """Return the gradients of a formula in double precision, given those of its results."""
    leaves = [one.double().requires_grad_() for one in inputs]
    used = [
        (result * grad.double()).sum()
        for result, grad in zip(formula(*leaves), grads, strict=True)
        if grad is not None
    ]
    moved = torch.autograd.grad(sum(used), leaves, allow_unused=True)
    return [
        torch.zeros_like(x) if one is None else one for one, x in zip(moved, leaves, strict=True)
    ]


def check(found: Sequence[Tensor], expected: Sequence[Tensor], dtype: torch.dtype) -> None:
    for one, right in zip(found, expected, strict=True):
        scale = 1 + right.abs().amax() if right.numel() else 1
        torch.testing.assert_close(one / scale, right / scale, rtol=0.0, atol=BOUND[dtype])


def cell_formula(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, -1)
    after = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * after.tanh(), after


@pytest.mark.parametrize("rows", [1, 64])
@pytest.mark.parametrize("dropped", [False, True])
@each_kernel
def test_outputs(dtype, rows, dropped):
    sums, mask = numbers(rows, UNITS, dtype), mask_of(rows, dtype) if dropped else None
    factors = 1 if mask is None else mask.double()
    (found,) = launched("dropped_tanh", sums, mask)
    torch.testing.assert_close(found, sums.double().tanh() * factors, rtol=BOUND[dtype], atol=0.0)
    for grads in gradients(rows, 2, dtype):
        found = launched("dropped_tanh_backward", sums, mask, grads)
        check(found, differentiated(lambda x: [x.tanh() * factors] * 2, [sums], grads), dtype)


@pytest.mark.parametrize("rows", [1, 64])
@pytest.mark.parametrize("uses", [1, 2, 3])
@pytest.mark.parametrize("dropped", [False, True])
@each_kernel
def test_cells(dtype, rows, uses, dropped):
    gates, cell = numbers(rows, 4 * UNITS, dtype), torch.randn(rows, UNITS, dtype=dtype)
    mask = mask_of(rows, dtype) if dropped else None
    factors = 1 if mask is None else mask.double()

    def formula(gates: Tensor, cell: Tensor) -> list[Tensor]:
        hidden, after = cell_formula(gates, cell)
        return [*[hidden] * (uses - 1), hidden * factors, after]

    found = launched("lstm_cell", gates, cell, mask)
    hidden, after = cell_formula(gates.double(), cell.double())
    activated = torch.cat(
        [
            one.tanh() if k == 2 else one.sigmoid()
            for k, one in enumerate(gates.double().chunk(4, 1))
        ],
        dim=1,
    )
    none = hidden.new_empty(0)
    check(found, [hidden, none if mask is None else hidden * factors, after, activated], dtype)
    of_cell = torch.randn(rows, UNITS, dtype=dtype)
    for grads in gradients(rows, uses, dtype):
        for above in (None, of_cell):
            given = activated.to(dtype), cell, after.to(dtype), mask, grads, above
            right = differentiated(formula, [gates, cell], [*grads, above])
            check(launched("lstm_cell_backward", *given), right, dtype)
    given = activated.to(dtype), cell, after.to(dtype), mask, [None] * uses, of_cell
    right = differentiated(formula, [gates, cell], [*[None] * uses, of_cell])
    check(launched("lstm_cell_backward", *given), right, dtype)


@in_pytorch
@pytest.mark.parametrize("dtype", BOUND, ids=["float32", "float64"])
def test_kernels_compile_without_a_stack(dtype, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "mappings/kernels")
    from registers import compiled_only

    from repro.mappings.kernels.cuda import steps

    sums, mask, cell = numbers(7, UNITS, dtype), mask_of(7, dtype), numbers(7, UNITS, dtype)
    gates = numbers(7, 4 * UNITS, dtype)
    with compiled_only() as found:
        steps.dropped_tanh(sums, mask)
        steps.lstm_cell(gates, cell, mask)
        for count in (2, 3):
            for grads in gradients(7, count, dtype):
                steps.dropped_tanh_backward(sums, mask, grads[:2])
                steps.lstm_cell_backward(gates, cell, cell, mask, grads, cell)
    assert {one.name for one in found} == {
        "tanh_kernel", "tanh_backward_kernel", "cell_kernel", "cell_backward_kernel",
    }  # fmt: skip
    assert all(".target sm_90" in one.binary.asm["ptx"] for one in found)
    assert all(0 < one.registers <= 128 and one.stack == 0 for one in found)


@in_pytorch
@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("uses", [(0,), (1,), (0, 1)])
def test_gradients_of_the_uses_of_outputs_are_added(uses, dropped):
    sums = torch.randn(7, UNITS, dtype=torch.float64, requires_grad=True)
    mask = mask_of(7, torch.float64) if dropped else None
    assert torch.autograd.gradcheck(
        lambda x: sum(_DroppedTanh.apply(x, mask)[use] * (use + 1) for use in uses), sums
    )
    two = attentional_outputs(sums, mask)
    assert two[0] is two[1]
    torch.testing.assert_close(_DroppedTanh.apply(sums, mask), (dropped_tanh(sums, mask),) * 2)
