"""Derivatives: against finite differences, the closed-form Jacobian, and under transforms."""

import math
from itertools import product

import pytest
import torch
from drawn import draw, leaf
from plain import plain
from tolerances import ABSOLUTE, GRADIENT, assert_close
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import jacrev, vmap

from repro.mappings import (
    MAPPINGS,
    LearnedAlphaEntmax,
    budget,
    csoftmax,
    csparsemax,
    entmax,
    fusedmax,
    normmax,
    oscarmax,
    sparsemax,
    sq_pnorm_max,
)

ALPHAS = (1.0, 1.2, 1.5, 1.8, 2.0, 2.5)


MASKED = {name: plain(spec.function, spec) for name, spec in MAPPINGS.items()} | {
    "fusedmax, 0.3": lambda scores, **how: fusedmax(scores, 0.3, **how),
    "oscarmax, 0.05": lambda scores, **how: oscarmax(scores, 0.05, **how),
    "oscarmax, paper": lambda scores, **how: oscarmax(scores, 0.05, variant="paper", **how),
}


def test_a_result_is_a_node_of_the_graph_if_an_argument_needs_a_gradient():
    scores = torch.randn(1, 4)
    assert sparsemax(scores).grad_fn is None
    scores.requires_grad_()
    assert sparsemax(scores).grad_fn is not None
    with torch.no_grad():
        assert sparsemax(scores).grad_fn is None


@pytest.mark.parametrize("dim", [-2, 0, 2])
@pytest.mark.parametrize("spec", MAPPINGS.values(), ids=MAPPINGS)
def test_gradcheck_on_every_dim(spec, dim):
    assert gradcheck(lambda scores: plain(spec.function, spec)(scores, dim=dim), leaf(3, 4, 2))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_second_derivatives_with_zeros_in_the_output(alpha):
    scores = leaf(3, 6, seed=1) if alpha <= 2 else leaf(2, 4, seed=2)
    if alpha > 1.1:
        assert (entmax(scores, alpha) == 0).any()
    assert gradgradcheck(lambda scores: entmax(scores, alpha), scores)


@pytest.mark.parametrize(("dim", "alpha"), [(-2, 1.05), (1, 1.3), (1, 1.5), (-2, 1.9)])
def test_gradients_for_alpha(dim, alpha):
    shape = (2, 1, 5) if dim == -2 else (2, 1, 1)
    exponent = torch.full(shape, alpha, dtype=torch.float64, requires_grad=True)
    scores = leaf(2, 4, 5, seed=3)
    assert gradcheck(lambda s, a: entmax(s, a, dim=dim), (scores, exponent))
    assert gradgradcheck(lambda s, a: entmax(s, a, dim=dim), (scores, exponent))


def test_alpha_gradient_does_not_depend_on_broadcasting():
    scores, weights = leaf(2, 3, 5), draw(2, 3, 5, seed=9)
    shared = torch.tensor(1.4, dtype=torch.float64, requires_grad=True)
    spread = torch.full((2, 3, 1), 1.4, dtype=torch.float64, requires_grad=True)
    (entmax(scores, shared) * weights).sum().backward()
    (entmax(scores, spread) * weights).sum().backward()
    assert_close(shared.grad, spread.grad.sum(), GRADIENT)


def test_alpha_derivative_from_the_right_at_one():
    scores = draw(2, 5, seed=4)
    one = torch.ones((), dtype=torch.float64, requires_grad=True)
    weights = draw(2, 5, seed=5)
    (entmax(scores, one) * weights).sum().backward()
    step = 1e-5
    ahead = (entmax(scores, 1 + step) * weights).sum()
    further = (entmax(scores, 1 + 2 * step) * weights).sum()
    here = (entmax(scores, 1.0) * weights).sum()
    forward_difference = (4 * ahead - further - 3 * here) / (2 * step)
    assert_close(one.grad, forward_difference, {torch.float64: 1e-8})


@pytest.mark.parametrize("alpha", [1 + 1e-9, 1 + 1e-6, 1 + 1e-3])
def test_alpha_derivative_is_continuous_at_one(alpha):
    scores, weights = draw(4, 6, seed=6), draw(4, 6, seed=7)
    grads = []
    for value in (1.0, alpha):
        exponent = torch.tensor(value, dtype=torch.float64, requires_grad=True)
        (entmax(scores, exponent) * weights).sum().backward()
        grads.append(exponent.grad)
    assert abs(grads[0] - grads[1]) <= 1e-9 + 20 * (alpha - 1)


@pytest.mark.parametrize("function", MASKED.values(), ids=MASKED)
def test_masks_equal_removal_in_value_and_gradient(function):
    generator = torch.Generator().manual_seed(8)
    scores, weights = leaf(20, 9, seed=9), draw(20, 9, seed=10)
    mask = torch.rand(20, 9, generator=generator) < 0.6
    mask[:, 4] = True
    probs = function(scores, mask=mask)
    (grad,) = torch.autograd.grad((probs * weights).sum(), scores)
    assert torch.equal(grad[~mask], torch.zeros_like(grad[~mask]))
    for i in range(20):
        kept = scores[i, mask[i]].detach().requires_grad_()
        alone = function(kept)
        assert_close(probs[i, mask[i]], alone, ABSOLUTE)
        (expected,) = torch.autograd.grad((alone * weights[i, mask[i]]).sum(), kept)
        assert_close(grad[i, mask[i]], expected, GRADIENT)


@pytest.mark.parametrize(
    ("function", "parameter"),
    [
        *product([entmax], ALPHAS),
        *product([normmax], [1.1, 1.5, 2.0, 2.5, 4.0]),
        (sq_pnorm_max, 1.5),
    ],
)
def test_no_second_derivative_is_nan(function, parameter):
    """Ties at the threshold and forbidden entries: the boundary of the support."""
    rows = [[1.0, 0.0, -1.0, -math.inf], [0.0, 0.0, 0.0, -9.0], [-math.inf] * 4]
    scores = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
    probs = function(scores, parameter)
    weights = draw(3, 4, seed=10)
    (first,) = torch.autograd.grad((probs * weights).sum(), scores, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), scores)
    assert first.isfinite().all()
    assert second.isfinite().all()
    assert torch.equal(first[2], torch.zeros_like(first[2]))
    if function is entmax and parameter == 2:
        assert torch.equal(second, torch.zeros_like(second))


PAIRS = {
    "entmax": (entmax, torch.tensor([1.0, 1.3, 1.6, 2.0]).double()),
    "normmax": (normmax, torch.tensor([1.2, 1.6, 2.0, 3.0]).double()),
    "budget": (budget, torch.tensor([0.5, 1.5, 2.5, 3.5]).double()),
    "csoftmax": (csoftmax, torch.full((4, 6), 0.3).double()),
    "csparsemax": (csparsemax, torch.full((4, 6), 0.3).double()),
}


@pytest.mark.parametrize(("function", "second"), PAIRS.values(), ids=PAIRS)
def test_function_transforms_over_both_arguments(function, second):
    scores = draw(4, 6, seed=12)
    spread = second if second.dim() == 2 else second[:, None]
    assert_close(vmap(function)(scores, second), function(scores, spread), ABSOLUTE)
    for argument in (0, 1):
        jacobian = jacrev(function, argnums=argument)
        rows = torch.stack([jacobian(*pair) for pair in zip(scores, second, strict=True)])
        assert_close(vmap(jacobian)(scores, second), rows, GRADIENT)


@pytest.mark.parametrize("name", sorted(MAPPINGS.keys() - {"softmax"}))
def test_forward_mode_is_refused(name):
    """Kernels drop tangents: a derivative of zero would be wrong in silence."""
    scores, spec = torch.randn(3, 5), MAPPINGS[name]
    bounds = (torch.ones(3, 5),) if spec.bounded else ()
    with pytest.raises((RuntimeError, NotImplementedError), match="jvp"):
        torch.func.jvp(lambda z: spec.function(z, *bounds), (scores,), (scores,))
    with forward_ad.dual_level(), pytest.raises((RuntimeError, NotImplementedError), match="jvp"):
        spec.function(forward_ad.make_dual(scores, scores), *bounds)


COMPILED = {name: plain(spec.function, spec) for name, spec in MAPPINGS.items()} | {
    "entmax, 1.3": lambda scores: entmax(scores, 1.3),
    "learned": LearnedAlphaEntmax(),
    "normmax, 1.4": lambda scores: normmax(scores, 1.4),
    "oscarmax, paper": lambda scores: oscarmax(scores, 0.1, variant="paper"),
}


@pytest.mark.parametrize("name", COMPILED)
def test_compiles_without_a_graph_break(name):
    torch._dynamo.reset()
    # The steps of normmax, which has no kernel, make a long graph.
    function, backend = COMPILED[name], "eager" if "normmax" in name else "aot_eager"
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    eager_scores = torch.randn(3, 5).requires_grad_()
    scores = eager_scores.detach().clone().requires_grad_()
    weights = torch.randn(3, 5)
    expected, probs = function(eager_scores), compiled(scores)
    expected.backward(weights)
    probs.backward(weights)
    assert_close(probs, expected, ABSOLUTE)
    assert_close(scores.grad, eager_scores.grad, GRADIENT)
