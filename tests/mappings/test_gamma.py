"""The strength of the regularizer: ``γ`` divides differences of scores, not the scores."""

import math

import pytest
import torch
from tolerances import ABSOLUTE, GRADIENT, assert_close
from torch.autograd import gradcheck

from repro.losses import FenchelYoungLoss
from repro.mappings import (
    Fusedmax,
    Oscarmax,
    Softmax,
    Sparsemax,
    SqPnormMax,
    fusedmax,
    oscarmax,
    softmax,
    sparsemax,
    sq_pnorm_max,
)

FUNCTIONS = (softmax, sparsemax, sq_pnorm_max, fusedmax, oscarmax)
MAPS = (Softmax, Sparsemax, SqPnormMax, Fusedmax, Oscarmax)
GAMMAS = (0.3, 0.7, 3.0)
QUARTERS = torch.tensor([[0.0, -0.25, -0.5, -1.5], [-0.75, 0.0, -0.25, 0.25]])
"""Scores that no shift below two million rounds."""


@pytest.fixture(params=FUNCTIONS, ids=lambda function: function.__name__)
def function(request):
    return request.param


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("dim", [0, 1])
def test_a_common_shift_changes_nothing(function, gamma, dim):
    scores = (QUARTERS.t().contiguous() if dim == 0 else QUARTERS).requires_grad_()
    probs, moved = (
        function(scores, gamma=gamma, dim=dim),
        function(scores + 1e4, gamma=gamma, dim=dim),
    )
    assert torch.equal(probs, moved)
    weight = torch.randn(probs.shape)
    for result in (probs, moved):
        (found,) = torch.autograd.grad(result, scores, weight)
        wide = scores.detach().double().requires_grad_()
        exact = function(wide, gamma=gamma, dim=dim)
        (expected,) = torch.autograd.grad(exact, wide, weight.double())
        assert_close(found, expected, GRADIENT)
    assert_close(probs, exact, ABSOLUTE)


@pytest.mark.parametrize("kind", MAPS, ids=lambda kind: kind.__name__)
def test_a_common_shift_changes_no_loss(kind):
    found = []
    for shift in (0.0, 1e4):
        scores = (QUARTERS + shift).requires_grad_()
        loss = FenchelYoungLoss(kind(gamma=0.3), reduction="sum")(scores, torch.tensor([1, 0]))
        found.append((loss.detach(), torch.autograd.grad(loss, scores)[0]))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_gamma_divides_the_scores(function):
    scores = torch.randn(4, 6, dtype=torch.float64)
    assert_close(function(scores, gamma=4.0), function(scores / 4), ABSOLUTE)


@pytest.mark.parametrize("gamma", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("build", [*FUNCTIONS, *MAPS], ids=lambda build: build.__name__)
def test_gamma_must_be_positive(build, gamma):
    with pytest.raises(ValueError, match="gamma must be positive"):
        build(torch.ones(2), gamma=gamma) if build in FUNCTIONS else build(gamma=gamma)


@pytest.mark.parametrize("gamma", [1e-3, 0.1, 10.0])
def test_scores_that_overflow_when_divided(function, gamma):
    scores = torch.tensor([[2e38, 1e38, 0.0], [2e38, 2e38, -2e38], [-2e38, -3e38, -3e38]])
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    assert torch.equal(function(scores, gamma=gamma), expected)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_infinities_and_nan(function, gamma):
    inf = math.inf
    scores = torch.tensor(
        [[inf, 0.0, inf], [-inf, 1.0, -inf], [-inf, -inf, -inf], [0, math.nan, 1]]
    )
    probs = function(scores, gamma=gamma)
    expected = torch.tensor([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert torch.equal(probs[:3], expected)
    assert probs[3].isnan().all()


def test_a_low_entry_still_separates_its_neighbors():
    """Scaled below the lowest number an entry is not forbidden: segments end there."""
    scores = torch.tensor([0.0, -1e38, 0.0])
    near = torch.tensor([0.0, -100.0, 0.0])
    module = Fusedmax(lam=0.5, gamma=0.1)
    assert torch.equal(module(scores), module(near))
    left_out = fusedmax(near, 0.5, gamma=0.1, mask=torch.tensor([True, False, True]))
    assert torch.equal(left_out, module(scores))
    uneven = torch.tensor([0.05, -1e38, 0.0])
    assert torch.equal(module(uneven), module(torch.tensor([0.05, -100.0, 0.0])))
    assert not torch.equal(module(uneven), module(torch.tensor([0.05, -math.inf, 0.0])))


def test_derivatives(function):
    scores = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda z: function(z, gamma=0.4), scores)


def test_the_published_variant_of_oscarmax_still_depends_on_the_shift():
    scores = torch.tensor([0.1, 0.02, -0.1], dtype=torch.float64)
    found = oscarmax(scores, 0.1, gamma=0.5, variant="paper")
    assert torch.equal(found, oscarmax(scores / 0.5, 0.1, variant="paper"))
    assert not torch.allclose(found, oscarmax(scores - 0.1, 0.1, gamma=0.5, variant="paper"))


def test_a_gamma_below_the_smallest_float_is_an_argmax():
    assert sparsemax(torch.tensor([0.2, 0.5, -1.0]), gamma=1e-46).tolist() == [0, 1, 0]
