"""Attentional outputs: PyTorch's operators, and kernels in Triton's interpreter and for sm_90."""

import os
from pathlib import Path

import pytest
import torch
from child import run_tests
from torch import Tensor

from repro.models.layers import dropout_mask
from repro.models.seq2seq import outputs
from repro.models.seq2seq.outputs import _DroppedTanh, attentional_outputs

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
ROWS, UNITS = 7, 50
BOUND = {torch.float32: 1e-6, torch.float64: 1e-14}
KERNELS = pytest.mark.parametrize("dtype", BOUND, ids=["float32", "float64"])


def given(dtype: torch.dtype = torch.float64, rows: int = ROWS) -> tuple[Tensor, Tensor]:
    """Sums, of which some are near zero and some large, and a mask."""
    scale = torch.logspace(-6, 2, UNITS, dtype=torch.float64)
    sums = (torch.randn(rows, UNITS, dtype=torch.float64) * scale).to(dtype)
    return sums, dropout_mask(sums.shape, 0.3, sums).to(dtype)


def two_uses(dtype: torch.dtype, rows: int = ROWS) -> list[tuple[Tensor | None, Tensor | None]]:
    """Gradients as autograd gives them: whole ones, columns of others, some of no use."""
    whole, wide = torch.randn(rows, UNITS, dtype=dtype), torch.randn(rows, 3 * UNITS, dtype=dtype)
    columns, alike = wide[:, UNITS : 2 * UNITS], wide[:1, :1].expand(rows, UNITS)
    return [(whole, columns), (None, whole), (columns, None), (alike, whole)]


@pytest.mark.skipif(INTERPRETED, reason="runs the tests below")
def test_all_in_the_interpreter():
    pytest.importorskip("triton")
    options = ("-x", "-n0", "-W", "ignore::RuntimeWarning")
    run_tests(*options, __file__, paths=(Path(__file__).parents[1],), TRITON_INTERPRET="1")


def launched(name: str, *arguments: Tensor | None) -> Tensor:
    """Launch a kernel on a device or in the interpreter."""
    from repro.models.seq2seq import output_kernels

    device = "cpu" if INTERPRETED else "cuda"
    moved = [one if one is None else one.to(device) for one in arguments]
    return getattr(output_kernels, name)(*moved).cpu()


KERNEL = [] if INTERPRETED else [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.version.cuda is None or not torch.cuda.is_available(), reason="CUDA"),
]  # fmt: skip


@pytest.mark.parametrize("rows", [1, ROWS, 64])
@pytest.mark.parametrize("dtype", [pytest.param(one, marks=KERNEL) for one in BOUND])
def test_kernels_compute_what_pytorch_does(dtype, rows):
    sums, mask = given(dtype, rows)
    bound = BOUND[dtype]
    found = launched("dropped_tanh", sums, mask).double()
    torch.testing.assert_close(
        found, outputs.dropped_tanh(sums.double(), mask.double()), rtol=2 * bound, atol=0.0
    )
    for uses in two_uses(dtype, rows):
        found = launched("dropped_tanh_backward", sums, mask, *uses).double()
        wide = [one if one is None else one.double() for one in uses]
        right = outputs.dropped_tanh_backward(sums.double(), mask.double(), *wide)
        torch.testing.assert_close(found, right, rtol=bound, atol=2 * bound)


@pytest.mark.skipif(INTERPRETED, reason="compiles for a device")
@KERNELS
def test_kernels_compile_without_a_stack(dtype, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "mappings/kernels")
    from registers import compiled_only

    from repro.models.seq2seq import output_kernels

    sums, mask = given(dtype)
    with compiled_only() as found:
        output_kernels.dropped_tanh(sums, mask)
        for uses in two_uses(dtype):
            output_kernels.dropped_tanh_backward(sums, mask, *uses)
    assert {one.name for one in found} == {"tanh_kernel", "tanh_backward_kernel"}
    assert all(".target sm_90" in one.binary.asm["ptx"] for one in found)
    assert all(0 < one.registers <= 64 and one.stack == 0 for one in found)


@pytest.mark.skipif(INTERPRETED, reason="uses no kernel")
@pytest.mark.parametrize("uses", [(0,), (1,), (0, 1)])
def test_gradients_of_the_uses_are_added(uses):
    sums, mask = given()
    sums = (sums / 10).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: sum(_DroppedTanh.apply(x, mask)[use] * (use + 1) for use in uses), sums
    )
    plain = torch.autograd.grad(sum(one.sum() for one in attentional_outputs(sums, mask)), sums)
    fused = torch.autograd.grad(sum(one.sum() for one in _DroppedTanh.apply(sums, mask)), sums)
    torch.testing.assert_close(plain, fused)


@pytest.mark.skipif(INTERPRETED, reason="uses no kernel")
def test_outputs_on_an_accelerator_share_memory_not_gradients():
    sums, mask = (one.to("meta") for one in given())
    two = attentional_outputs(sums.requires_grad_(), mask)
    assert two[0].shape == two[1].shape == sums.shape
    assert torch.autograd.grad(two[0].sum(), sums)[0].shape == sums.shape
    once = attentional_outputs(sums, None)
    assert once[0] is once[1]
