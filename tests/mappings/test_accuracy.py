"""Worst errors on hard rows, against bisection and Jacobians in extended precision."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from accuracy_cases import OTHERS
from hard_rows import hard_rows, tied_above_two
from mapping_references import sparsemax_by_sorting

from benchmarks import high_precision
from benchmarks.accuracy import CASES, measure
from repro.mappings import csparsemax, entmax, fusedmax, sparsemax
from repro.mappings.kernels import dispatch

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="the oracle needs extended precision"
)
SINGLE = 2.5e-7
"""Largest error of an entry in single precision."""


@pytest.fixture(params=["kernels", "torch"])
def path(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(dispatch, "has_kernel", lambda tensor: False)
    return request.param


@cache
def with_memory(case):
    """A case whose oracle computes each row once, for both paths."""
    known = {}

    def value(row):
        key = row.tobytes()
        if key not in known:
            known[key] = case.value(row)
        return known[key]

    return replace(case, value=value)


@pytest.mark.parametrize("case", [*CASES, *OTHERS], ids=lambda case: case.name)
def test_single_precision(case, path):
    worst = measure(with_memory(case), torch.float32, (2, 50) if path == "kernels" else (50,))
    # At α = 50 the height of a share below 6e-7 underflows.
    assert worst.value <= (5e-5 if case.name == "entmax, α = 50" else SINGLE)
    # In PyTorch, budget takes the side of a tie from numbers that are rounded afterwards.
    if path == "kernels" or not case.name.startswith("budget"):
        assert worst.gradient <= 1e-5
        assert worst.alpha <= 1e-4


@pytest.mark.parametrize("n", [50, 512, 2000, 5000, 32000])
def test_small_entries_tied_at_the_threshold_of_sparsemax(n, path):
    """A leader whose share is all but ``10^-1`` to ``10^-7``; the rest is spread evenly."""
    left = 10 ** -torch.linspace(1, 7, 40, dtype=torch.float64)
    scores = torch.zeros(40, n)
    scores[:, 0] = 1 - left
    expected = sparsemax_by_sorting(scores)
    found, bounded = sparsemax(scores), csparsemax(scores, torch.ones(n))
    assert (found - expected).abs().max() <= SINGLE
    assert (bounded - expected).abs().max() <= SINGLE
    assert (found[:, 1:] > 0).all()


@pytest.mark.parametrize("n", [300, 512, 2000])
@pytest.mark.parametrize("alpha", [1.25, 1.75, 1.9, 2.5])
def test_small_entries_tied_at_the_threshold_of_entmax(alpha, n):
    """Steps in single precision may end at a threshold that is rounded to the tied entries."""
    left = 10 ** -torch.linspace(1, 7, 40, dtype=torch.float64)
    scores = torch.zeros(40, n)
    scores[:, 0] = (1 - left) / (alpha - 1)
    found, expected = entmax(scores, alpha), entmax(scores.double(), alpha)
    assert (found - expected).abs().max() <= SINGLE


@pytest.mark.parametrize("alpha", [2.5, 3.0, 5.0, 15.0])
@pytest.mark.parametrize("n", [50, 512])
def test_double_precision_satisfies_the_optimality_conditions(alpha, n):
    """On the support ``p^r - r z`` is the same for every entry, ``r = α - 1``."""
    scores = hard_rows(n).double()
    scores -= scores.amax(-1, keepdim=True)
    probs = entmax(scores, alpha)
    levels = probs ** (alpha - 1) - (alpha - 1) * scores
    support = probs > 0
    highest = levels.masked_fill(~support, -math.inf).amax(-1)
    lowest = levels.masked_fill(~support, math.inf).amin(-1)
    assert (highest - lowest).max() < 2e-11
    assert (probs.sum(-1) - 1).abs().max() < 1e-13


@pytest.mark.parametrize("alpha", [2.5, 3.0, 5.0, 15.0])
@pytest.mark.parametrize("n", [50, 300, 5000])
def test_double_precision_keeps_the_digits_of_tied_entries(alpha, n):
    """One leader and ``n - 1`` entries next to the threshold."""
    scores, expected = tied_above_two(n, alpha)
    assert (entmax(scores, alpha) - expected).abs().max() < 2e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("scores", "alpha"),
    [
        ([0.0] * 7, 50.0),
        ([0.0] * 1000, 15.0),
        ([0.0] * 3000, 11.0),
        ([1e-4, 0.0], 50.0),
        ([0.0, -0.0713, -0.0713, -1.0], 15.0),
        ([0.3, 0.1, -0.2, 0.25], 3.0),
    ],
    ids=["flat-50", "flat-15", "flat-11", "pair", "tied", "ordinary"],
)
def test_gradients_of_large_alpha(scores, alpha, dtype, path):
    """Entries beyond the largest number are that number, all others are right."""
    z = torch.tensor(scores, dtype=dtype, requires_grad=True)
    exponent = torch.tensor(alpha, dtype=dtype, requires_grad=True)
    grad = torch.randn(len(scores), generator=torch.Generator().manual_seed(0)).to(dtype)
    probs = entmax(z, alpha)
    (moved,) = torch.autograd.grad(probs, z, grad)
    again, drift = torch.autograd.grad(entmax(z, exponent), (z, exponent), grad)
    share, vector = (t.detach().numpy().astype(np.longdouble) for t in (probs, grad))
    limit = np.longdouble(torch.finfo(dtype).max)
    product = high_precision.entmax_product(share, vector, alpha)
    expected = torch.from_numpy(np.clip(product, -limit, limit).astype(np.float64))
    rounding = 4 * alpha * torch.finfo(dtype).eps
    for found in (moved, again):
        error = found.double() / expected.abs().max() - expected / expected.abs().max()
        assert error.abs().max() <= rounding
    wanted = float(high_precision.entmax_drift(share, vector, alpha))
    assert abs(drift.item() - wanted) <= rounding


def test_forward_mode_and_second_derivatives_of_large_alpha_are_finite():
    scores = torch.tensor([[0.0, -0.01, -0.3]], dtype=torch.float64, requires_grad=True)
    alpha = torch.tensor(9.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z, a: entmax(z, a) ** 2, (scores, alpha))
    probs = entmax(scores, alpha)
    first = torch.autograd.grad((probs**2).sum(), (scores, alpha), create_graph=True)
    second = torch.autograd.grad(first[0].sum() + first[1], (scores, alpha))
    assert all(found.isfinite().all() for found in (*first, *second))


def test_segments_of_fusedmax_tied_at_the_threshold():
    scores = torch.zeros(40, 300)
    left = 10 ** -torch.linspace(1, 7, 40, dtype=torch.float64)
    scores[:, 0] = (1.1 + 0.1 / 299) * (1 - left)
    probs = fusedmax(scores, 0.1).double()
    assert (probs - fusedmax(scores.double(), 0.1)).abs().max() <= SINGLE
