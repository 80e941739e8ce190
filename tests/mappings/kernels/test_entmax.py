"""The kernels of α-entmax against bisection and the Jacobian in double precision, row by row."""

import math

import pytest
import torch
from hard_rows import hard_rows
from pairwise import pairwise
from tolerances import ABSOLUTE, GRADIENT, LOSS, SUM, assert_close

from repro.mappings import entmax, softmax, sparsemax
from repro.mappings._entmax import EntmaxFunction, apply_jacobian, order_derivative
from repro.mappings._reference import entmax_by_bisection, sparsemax_by_sorting
from repro.mappings.kernels import dispatch

pytestmark = pytest.mark.usefixtures("poisoned")
SIZES = (1, 2, 63, 100, 127, 129, 1000)
FLOATS = (torch.float64, torch.float32)
ALPHAS = (1.01, 1.25, 1.5, 1.9, 2.0)
CLOSED = (1.5, 2.0)


def oracle(scores, alpha):
    if alpha == 2:
        return sparsemax_by_sorting(scores)
    return entmax_by_bisection(scores, alpha, passes=80)


def rows_of(size):
    """Ordinary rows, and hard ones, in units of the support's width."""
    generator = torch.Generator().manual_seed(size)
    ordinary = torch.randn(9, size, generator=generator, dtype=torch.float64) * 3
    return torch.cat([ordinary, hard_rows(size)]) if size > 1 else ordinary


def in_torch(scores, alpha):
    """The path without kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "has_kernel", lambda tensor: False)
        return EntmaxFunction.forward(scores, alpha - 1, False)


def lowest_first(scores, alpha):
    """Bisection for the logarithm of the height of the lowest entry with mass.

    Beside the threshold that height may have no digits, and above two its root is no small number.
    """
    order = alpha - 1
    below = order * (scores.double() - scores.double().amax(-1, keepdim=True))

    def halved(heights, low, high):
        for _ in range(200):
            middle = (low + high) / 2
            large = heights(middle).clamp(min=0).pow(1 / order).sum(-1, keepdim=True) > 1
            low, high = torch.where(large, low, middle), torch.where(large, middle, high)
        return low, high

    ends = torch.zeros_like(below[:, :1]), torch.ones_like(below[:, :1])
    high = halved(lambda c: below + c, *ends)[1]
    lowest = torch.where(below + high > 0, below, 0.0).amin(-1, keepdim=True)
    rise = halved(lambda log: below - lowest + log.exp(), ends[0] - 745, ends[1])[0]
    return (below - lowest + rise.exp()).clamp(min=0).pow(1 / order)


@pytest.mark.parametrize(("size", "dtype", "alpha"), pairwise(SIZES, FLOATS, [2.2, 2.5, 3.0, 5.0]))
def test_values_above_two(size, dtype, alpha):
    scores = (rows_of(size) / (alpha - 1)).to(dtype)
    probs = dispatch.launch("entmax_forward", scores, alpha - 1)
    # In double, a score next to the threshold is as uncertain as that root of its rounding.
    root = 4 * torch.finfo(torch.float64).eps ** (1 / (alpha - 1))
    assert_close(probs, lowest_first(scores, alpha), {torch.float64: root, torch.float32: 2e-7})
    assert_close(probs.sum(-1), torch.ones(len(scores)), SUM)


@pytest.mark.parametrize("alpha", [3.0, 5.0, 9.0])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", [3, 50, 600])
def test_ties_at_the_threshold(size, dtype, alpha):
    """A leader, and the rest tied just so far below it that little is left for them."""
    order, shares = alpha - 1, torch.tensor([1e-2, 1e-4, 1e-6], dtype=torch.float64)
    least, most = shares / (size - 1), 1 - shares
    distance = (most**order - least**order) / order
    scores = torch.zeros(3, size, dtype=torch.float64)
    scores[:, 1:] = -distance.unsqueeze(-1)
    probs = dispatch.launch("entmax_forward", scores.to(dtype), order)
    expected = lowest_first(scores.to(dtype), alpha)
    assert_close(probs, expected, {torch.float64: 1e-8, torch.float32: 2e-7})
    tied = probs[:, 1:]
    assert (tied == tied[:, :1]).all()


@pytest.mark.parametrize("alpha", [1.0, *ALPHAS, 2.5])
@pytest.mark.parametrize("size", SIZES)
def test_values_and_gradients_of_the_path_in_torch(size, alpha):
    scores = torch.randn(7, size, dtype=torch.float64, requires_grad=True)
    grad = torch.randn(7, size, dtype=torch.float64)
    probs = entmax(scores, alpha)
    assert_close(probs.detach(), in_torch(scores.detach(), alpha), {torch.float64: 1e-11})
    (moved,) = torch.autograd.grad(probs, scores, grad)
    expected = apply_jacobian(probs.detach(), alpha - 1, grad)[0]
    assert_close(moved, expected, GRADIENT)


@pytest.mark.parametrize(
    ("size", "dtype", "alpha"), pairwise([*SIZES, 32000], FLOATS, [*ALPHAS, 2.5])
)
def test_gradients(size, dtype, alpha):
    scores = torch.randn(5, size).to(dtype) * 2
    grad = torch.randn(5, size).to(dtype)
    probs = dispatch.launch("entmax_forward", scores, alpha - 1)
    moved = dispatch.launch("entmax_backward", probs, grad, alpha - 1)
    expected = apply_jacobian(probs.double(), alpha - 1, grad.double())[0]
    assert_close(moved, expected, GRADIENT)
    assert not moved[probs == 0].any()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", [2, 63, 129, 1000])
def test_an_order_for_each_row(size, dtype):
    scores, grad = torch.randn(6, size).to(dtype) * 2, torch.randn(6, size).to(dtype)
    alphas = torch.tensor([1.0, 1.02, 1.3, 1.5, 1.9, 2.0]).to(dtype)
    orders = alphas - 1
    probs = dispatch.launch("entmax_forward_rows", scores, orders)
    moved, drift = dispatch.launch("entmax_backward_rows", probs, grad, orders)
    assert torch.equal(moved, dispatch.launch("entmax_backward_scores", probs, grad, orders))
    for i, alpha in enumerate(alphas.tolist()):
        wide, weights = probs[i].double(), grad[i].double()
        expected = scores[i].double().softmax(-1) if alpha == 1 else oracle(scores[i], alpha)
        assert_close(probs[i], expected, ABSOLUTE)
        order = orders[i].double()
        assert_close(moved[i], apply_jacobian(wide, order, weights)[0], GRADIENT)
        slope = (order_derivative(wide, order) * weights).sum()
        assert_close(drift[i], slope, {torch.float64: 1e-10, torch.float32: 1e-4})


@pytest.mark.parametrize("size", [3, 50, 127])
def test_different_orders_in_neighbouring_rows(size):
    alphas = torch.linspace(1.05, 2, 19)
    scores = torch.randn(19, size) * 2
    probs = dispatch.launch("entmax_forward_rows", scores, alphas - 1)
    for row, alpha, found in zip(scores, alphas.double().tolist(), probs, strict=True):
        assert_close(found, entmax_by_bisection(row, alpha, passes=80), ABSOLUTE)


@pytest.mark.parametrize("size", [5, 300])
def test_softmax_of_rows_with_infinities_and_nan(size):
    scores = torch.randn(5, size)
    scores[0, 1], scores[1], scores[2, :2] = math.nan, -math.inf, math.inf
    scores[3, 2:] = -math.inf
    probs = softmax(scores.requires_grad_())
    assert probs[0].isnan().all()
    assert not probs[1].any()
    assert_close(probs[2, :2].detach(), torch.tensor([0.5, 0.5]), ABSOLUTE)
    assert_close(probs[3:].detach(), scores[3:].detach().double().softmax(-1), ABSOLUTE)
    weight = torch.randn(5, size)
    (moved,) = torch.autograd.grad(probs, scores, weight)
    expected = apply_jacobian(probs[1:].detach().double(), 0.0, weight[1:].double())[0]
    assert_close(moved[1:], expected, GRADIENT)


def test_one_order_in_a_tensor_is_that_number():
    scores, grad = torch.randn(4, 70), torch.randn(4, 70)
    probs = dispatch.launch("entmax_forward_rows", scores, torch.tensor(0.5))
    assert torch.equal(probs, dispatch.launch("entmax_forward", scores, 0.5))
    moved, _ = dispatch.launch("entmax_backward_rows", probs, grad, torch.tensor([[0.5]]))
    assert torch.equal(moved, dispatch.launch("entmax_backward", probs, grad, 0.5))


@pytest.mark.parametrize("alpha", [1.3, 1.5, 2.0])
@pytest.mark.parametrize("size", [5, 129, 300])
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


def test_an_undefined_order_gives_an_undefined_row():
    probs = dispatch.launch("entmax_forward_rows", torch.randn(2, 9), torch.tensor([math.nan, 0.4]))
    assert probs[0].isnan().all()
    assert probs[1].isfinite().all()


def test_a_gradient_without_memory_of_its_own():
    scores = torch.randn(3, 8, requires_grad=True)
    sparsemax(scores).sum().backward()
    assert_close(scores.grad, torch.zeros(3, 8), GRADIENT)


@pytest.mark.parametrize(
    ("size", "dtype", "alpha"), pairwise([1, 2, 63, 129, 1000], FLOATS, [1.05, 1.3, 1.5, 2.0, 2.5])
)
def test_losses(size, dtype, alpha):
    """``<p, z> - Ω(p) - z_y`` in double precision, and its gradient."""
    scores = torch.randn(6, size).to(dtype) * 2
    target, grad = torch.randint(size, (6,)), torch.randn(6).to(dtype)
    target[2] = -100
    losses, probs = dispatch.launch("entmax_loss", scores, target, alpha - 1, -100)
    moved = dispatch.launch("entmax_loss_backward", probs, target, grad, -100)
    exact, chosen = oracle(scores, alpha), target.clamp(min=0).unsqueeze(-1)
    omega = (exact**alpha - exact).sum(-1) / (alpha * (alpha - 1))
    gap = (exact * scores).sum(-1) - omega - scores.double().gather(-1, chosen).squeeze(-1)
    kept = target != -100
    assert_close(losses, torch.where(kept, gap.clamp(min=0), 0.0), LOSS)
    weight = torch.where(kept, grad, 0.0).double().unsqueeze(-1)
    expected = (weight * exact).scatter_add(-1, chosen, -weight)
    assert_close(moved, expected, GRADIENT)
    assert not moved[2].any()
