"""Kernels for total variation and isotonic regression against the versions in PyTorch."""

import pytest
import torch
from hard_rows import hard_rows
from operator_count import Operators
from tolerances import ABSOLUTE, assert_close

from repro.mappings._segments import decreasing_blocks, group_means, saturated
from repro.mappings.kernels import dispatch

segments = pytest.importorskip("repro.mappings.kernels.cpu.segments")


@pytest.fixture
def without_kernels(monkeypatch):
    """Leaves the versions in PyTorch, as on an accelerator or without numba."""
    monkeypatch.setattr(dispatch, "has_kernel", lambda tensor: False)
    monkeypatch.setattr("repro.mappings._segments.AVAILABLE", False)


def drawn(size):
    generator = torch.Generator().manual_seed(size)
    return torch.randn(30, size, generator=generator, dtype=torch.float64)


def tied(size):
    """Rows on which two pieces or blocks may meet, so that rounding says whether they are one."""
    ties = torch.randint(0, 3, (20, size), generator=torch.Generator().manual_seed(size))
    return torch.cat([ties.double(), hard_rows(size).clamp(-3, 3)])


def levels(scores, present, lam, jumps):
    before = torch.nn.functional.pad(jumps[:, :-1], (1, 0))
    segment = torch.nn.functional.pad((jumps[:, :-1] != 0).cumsum(-1), (1, 0))
    shifted = scores * present + lam * (jumps - before).double()
    return group_means(shifted, present.double(), segment).masked_fill(~present, 0.0)


@pytest.mark.usefixtures("without_kernels")
@pytest.mark.parametrize("lam", [1e-300, 1e-9, 0.01, 0.1, 1.0, 1e9])
@pytest.mark.parametrize("size", [1, 2, 9, 60])
def test_total_variation(size, lam):
    scores = torch.cat([drawn(size), tied(size)])
    some = torch.rand(scores.shape) < 0.7
    for present in (some, torch.ones_like(some), torch.zeros_like(some)):
        expected = saturated(scores, present, lam)
        found = segments.saturated(scores, present, lam)
        assert found.dtype == expected.dtype
        if lam > 1e-300:
            assert torch.equal(found[:30], expected[:30])
        pair = [levels(scores, present, lam, jumps) for jumps in (found, expected)]
        assert_close(*pair, ABSOLUTE)


@pytest.mark.usefixtures("without_kernels")
def test_total_variation_takes_no_launch_per_position():
    """On an accelerator, a loop over the positions would take 25 operators for each."""
    scores = drawn(1000)
    with Operators() as operators:
        saturated(scores, torch.ones_like(scores, dtype=torch.bool), 0.1)
    assert operators.count < 1_500


@pytest.mark.usefixtures("without_kernels")
@pytest.mark.parametrize("size", [1, 2, 9, 60, 300])
def test_isotonic_regression(size):
    values = torch.cat([drawn(size), tied(size)])
    found, expected = segments.decreasing_blocks(values), decreasing_blocks(values)
    assert found.dtype == expected.dtype
    assert torch.equal(found[:30], expected[:30])
    weights = torch.ones_like(values)
    pair = [group_means(values, weights, blocks) for blocks in (found, expected)]
    assert_close(*pair, ABSOLUTE)
