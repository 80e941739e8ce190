"""α-normmax: values, derivatives in scores and alpha, refusals, laws."""

import pytest
import torch
from drawn import draw, leaf
from enumeration import entmax15_by_enumeration
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import ABSOLUTE, GRADIENT, LOSS, assert_close
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jacrev

from repro.mappings import Normmax, normmax, sparsemax

ALPHAS = (1.1, 1.5, 2.0, 2.5, 4.0)


def exponent(value, *shape):
    return torch.full(shape, value, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("size", range(1, 7))
def test_every_support_enumerated(size):
    """For alpha 2 the condition ``Σ [z - τ]_+² = 1`` is that of 1.5-entmax at twice the scores."""
    for row in draw(8, size, seed=size):
        heights = entmax15_by_enumeration(2 * row).sqrt()
        assert_close(normmax(row), heights / heights.sum(), ABSOLUTE)


def test_limits_in_alpha():
    scores = torch.tensor([0.3, 0.1, 0.29, -2.0], dtype=torch.float64)
    assert_close(normmax(scores, 1.0001), torch.tensor([1.0, 0, 0, 0]), {torch.float64: 1e-9})
    support = (sparsemax(scores) > 0).double()
    uniform = support / support.sum()
    assert_close(normmax(scores, 1e6), uniform, {torch.float64: 1e-5})


@pytest.mark.parametrize(("dim", "alpha"), [(-2, 1.1), (1, 1.5), (-2, 2.0), (1, 4.0)])
def test_gradients_for_scores_and_alpha(dim, alpha):
    shape = (2, 1, 5) if dim == -2 else (2, 1, 1)
    inputs = leaf(2, 4, 5, seed=3), exponent(alpha, *shape)

    def function(scores, alphas):
        return normmax(scores, alphas, dim=dim)

    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_jacobian_is_the_closed_form(alpha):
    """``(I - p 1ᵀ) diag(d) (I - 1 pᵀ)``, here from the threshold's own derivative."""
    scores = draw(6, seed=8)
    probs = normmax(scores, alpha)
    heights = (scores - (probs @ scores - (probs**alpha).sum() ** (1 / alpha))).clamp(min=0)
    powers = heights ** (1 / (alpha - 1))
    assert_close(powers / powers.sum(), probs, GRADIENT)
    inside = torch.where(probs > 0, heights, 1.0)
    slope = torch.where(probs > 0, inside ** (1 / (alpha - 1) - 1), 0.0)
    centring = torch.eye(6, dtype=torch.float64) - probs
    expected = centring.t() @ (slope / (alpha - 1) / powers.sum()).diag() @ centring
    table = {torch.float64: 1e-9}
    assert_close(jacrev(normmax)(scores, alpha), expected, table)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_value_is_the_threshold_above_one(alpha):
    """``<p, z> - ‖p‖`` is the threshold ``τ`` where ``Σ [z - τ]_+^{α/(α-1)} = 1``."""
    scores = draw(5, seed=5)
    tau = Normmax(alpha).value(scores) - 1
    total = ((scores - tau).clamp(min=0) ** (alpha / (alpha - 1))).sum()
    assert_close(total, torch.tensor(1.0), LOSS)


@pytest.mark.parametrize("alpha", [1.3, 2.0, 3.0])
def test_value_has_its_derivative_in_alpha(alpha):
    inputs = leaf(3, 5, seed=6), exponent(alpha, 3, 1)
    assert gradcheck(lambda s, a: Normmax(a).value(s), inputs)
    assert gradgradcheck(lambda s, a: Normmax(a).value(s), inputs)


def test_alpha_can_be_learned():
    module = Normmax(nn.Parameter(torch.tensor(1.5)))
    module(torch.randn(4, 6) / 4).square().sum().backward()
    assert module.alpha.grad.abs() > 0


ROWS = st.lists(st.integers(-128, 128), min_size=1, max_size=10).map(
    lambda row: torch.tensor(row, dtype=torch.float64) / 64
)
EXAMPLES = settings(max_examples=40)


@EXAMPLES
@given(scores=ROWS, alpha=st.sampled_from([1.2, 1.5, 2.0, 3.0]))
def test_optimality_conditions(scores, alpha):
    """``z - (p / ‖p‖)^{α-1}`` is one level on the support, and no other score lies above it."""
    probs = normmax(scores, alpha)
    norm = (probs**alpha).sum() ** (1 / alpha)
    levels = scores - (probs / norm) ** (alpha - 1)
    kept = probs > 0
    tolerance = 1e-11
    assert (levels[kept] - levels[kept][0]).abs().max() < tolerance
    assert (scores[~kept] <= levels[kept][0] + tolerance).all()
