"""Kernels of α-entmax behind the public functions: long rows, an order for each row, bad rows."""

import math

import pytest
import torch
from mapping_references import entmax_by_bisection
from pairwise import pairwise
from tolerances import ABSOLUTE, GRADIENT, assert_close

from repro.mappings import entmax, sparsemax
from repro.mappings._entmax import apply_jacobian, curvature_in_r
from repro.mappings.kernels import dispatch

pytestmark = pytest.mark.usefixtures("poisoned")
FLOATS = (torch.float64, torch.float32)


def oracle(scores, alpha):
    if alpha == 1:
        return scores.double().softmax(-1)
    return entmax_by_bisection(scores, alpha, passes=80)


@pytest.mark.parametrize(
    ("size", "dtype", "alpha"),
    pairwise([1, 2, 63, 129, 1000, 32000], FLOATS, [1.0, 1.01, 1.25, 1.5, 1.9, 2.0, 2.5]),
)
def test_gradients(size, dtype, alpha):
    scores, grad = torch.randn(5, size).to(dtype) * 2, torch.randn(5, size).to(dtype)
    probs = entmax(scores.requires_grad_(), alpha)
    (moved,) = torch.autograd.grad(probs, scores, grad)
    expected = apply_jacobian(probs.detach().double(), alpha - 1, grad.double())[0]
    assert_close(moved, expected, GRADIENT)
    assert not moved[probs == 0].any()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", [2, 50, 129, 1000])
def test_an_order_for_each_row(size, dtype):
    alphas = torch.tensor([1.0, 1.02, 1.3, 1.5, 1.9, 2.0, *torch.linspace(1.05, 2, 13)]).to(dtype)
    alphas = alphas[:, None].requires_grad_()
    scores, grad = torch.randn(19, size).to(dtype) * 2, torch.randn(19, size).to(dtype)
    probs = entmax(scores.requires_grad_(), alphas)
    moved, drift = torch.autograd.grad(probs, (scores, alphas), grad)
    probs, scores = probs.detach(), scores.detach()
    for i, alpha in enumerate(alphas.flatten().tolist()):
        assert_close(probs[i], oracle(scores[i], alpha), ABSOLUTE)
        wide, order = probs[i].double(), alphas[i].detach().double() - 1
        assert_close(moved[i], apply_jacobian(wide, order, grad[i].double())[0], GRADIENT)
        curve, steep = curvature_in_r(wide, order), wide.pow(1 - order) * (wide > 0)
        along = steep * (curve.sum(-1, keepdim=True) / steep.sum(-1, keepdim=True)) - curve
        slope = (along * grad[i].double()).sum(-1, keepdim=True)
        assert_close(drift[i], slope, {torch.float64: 1e-10, torch.float32: 1e-4})


@pytest.mark.parametrize(("size", "alpha"), pairwise([5, 129, 300], [1.0, 1.3, 1.5, 2.0]))
def test_rows_with_infinities_and_nan(size, alpha):
    scores = torch.randn(7, size)
    scores[0, 1] = math.nan
    scores[1, -1] = math.nan
    scores[2] = -math.inf
    scores[3, :2] = math.inf
    scores[4, 2:] = -math.inf
    scores[5] = math.inf
    probs = entmax(scores, alpha)
    assert probs[:2].isnan().all()
    assert torch.equal(probs[2], torch.zeros(size))
    assert_close(probs[3], torch.tensor([0.5, 0.5] + [0.0] * (size - 2)), ABSOLUTE)
    assert_close(probs[4, :2], oracle(scores[4:5, :2], alpha)[0], ABSOLUTE)
    assert not probs[4, 2:].any()
    assert_close(probs[5], torch.full((size,), 1 / size), ABSOLUTE)
    assert_close(probs[6], oracle(scores[6:], alpha)[0], ABSOLUTE)


def test_a_gradient_without_memory_of_its_own():
    scores = torch.randn(3, 8, requires_grad=True)
    sparsemax(scores).sum().backward()
    assert_close(scores.grad, torch.zeros(3, 8), GRADIENT)


@pytest.mark.parametrize("alpha", [1.001, 1.003, 1.01])
def test_double_precision_just_above_softmax(alpha):
    scores = 3 * torch.randn(50, 30, dtype=torch.float64)
    expected = dispatch.references["entmax_forward"](scores, alpha - 1)
    torch.testing.assert_close(entmax(scores, alpha), expected, rtol=0, atol=1e-14)
