"""Derivatives: against finite differences, the closed-form Jacobian, and under transforms."""

import math

import pytest
import torch
from plain import plain
from tolerances import ABSOLUTE, GRADIENT, assert_close
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import jacrev, vmap

from repro.mappings import MAPPINGS, LearnedAlphaEntmax, entmax, normmax, oscarmax

ALPHAS = (1.0, 1.2, 1.5, 1.8, 2.0, 2.5)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("dim", [-3, -2, -1, 0, 1, 2])
@pytest.mark.parametrize("spec", MAPPINGS.values(), ids=MAPPINGS)
def test_gradcheck_on_every_dim(spec, dim):
    assert gradcheck(lambda scores: plain(spec.function, spec)(scores, dim=dim), draw(3, 4, 2))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_second_derivatives_with_zeros_in_the_output(alpha):
    scores = draw(3, 6, seed=1) if alpha <= 2 else draw(2, 4, seed=2)
    if alpha > 1.1:
        assert (entmax(scores, alpha) == 0).any()
    assert gradgradcheck(lambda scores: entmax(scores, alpha), scores)


@pytest.mark.parametrize("dim", [-2, 1])
@pytest.mark.parametrize("alpha", [1.05, 1.3, 1.5, 1.9])
def test_gradients_for_alpha(alpha, dim):
    shape = (2, 1, 5) if dim == -2 else (2, 1, 1)
    exponent = torch.full(shape, alpha, dtype=torch.float64, requires_grad=True)
    scores = draw(2, 4, 5, seed=3)
    assert gradcheck(lambda s, a: entmax(s, a, dim=dim), (scores, exponent))
    assert gradgradcheck(lambda s, a: entmax(s, a, dim=dim), (scores, exponent))


def test_alpha_gradient_does_not_depend_on_broadcasting():
    scores, weights = draw(2, 3, 5), draw(2, 3, 5, seed=9).detach()
    shared = torch.tensor(1.4, dtype=torch.float64, requires_grad=True)
    spread = torch.full((2, 3, 1), 1.4, dtype=torch.float64, requires_grad=True)
    (entmax(scores, shared) * weights).sum().backward()
    (entmax(scores, spread) * weights).sum().backward()
    assert_close(shared.grad, spread.grad.sum(), GRADIENT)


def test_alpha_derivative_from_the_right_at_one():
    scores = draw(2, 5, seed=4).detach()
    one = torch.ones((), dtype=torch.float64, requires_grad=True)
    weights = draw(2, 5, seed=5).detach()
    (entmax(scores, one) * weights).sum().backward()
    step = 1e-5
    ahead = (entmax(scores, 1 + step) * weights).sum()
    further = (entmax(scores, 1 + 2 * step) * weights).sum()
    here = (entmax(scores, 1.0) * weights).sum()
    forward_difference = (4 * ahead - further - 3 * here) / (2 * step)
    assert_close(one.grad, forward_difference, {torch.float64: 1e-8})


@pytest.mark.parametrize("alpha", [1 + 1e-9, 1 + 1e-6, 1 + 1e-3])
def test_alpha_derivative_is_continuous_at_one(alpha):
    scores, weights = draw(4, 6, seed=6).detach(), draw(4, 6, seed=7).detach()
    grads = []
    for value in (1.0, alpha):
        exponent = torch.tensor(value, dtype=torch.float64, requires_grad=True)
        (entmax(scores, exponent) * weights).sum().backward()
        grads.append(exponent.grad)
    assert abs(grads[0] - grads[1]) <= 1e-9 + 20 * (alpha - 1)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_jacobian_is_the_closed_form(alpha):
    """Peters et al. (2019), Proposition 1: ``diag(s) - s sᵀ / Σs``."""
    scores = draw(6, seed=8).detach()
    probs = entmax(scores, alpha)
    slope = torch.where(probs > 0, probs ** (2 - alpha), 0.0)
    expected = slope.diag() - torch.outer(slope, slope) / slope.sum()
    assert_close(jacrev(lambda s: entmax(s, alpha))(scores), expected, GRADIENT)
    assert_close(
        torch.autograd.functional.jacobian(lambda s: entmax(s, alpha), scores), expected, GRADIENT
    )


def test_masked_entries_have_no_gradient():
    scores = draw(3, 5)
    mask = torch.tensor([True, False, True, True, False])
    for spec in MAPPINGS.values():
        function = plain(spec.function, spec)
        (grad,) = torch.autograd.grad(function(scores, mask=mask).square().sum(), scores)
        assert torch.equal(grad[:, ~mask], torch.zeros(3, 2, dtype=torch.float64))
        assert grad.isfinite().all()
        assert gradcheck(lambda s, f=function: f(s, mask=mask), scores)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_no_second_derivative_is_nan(alpha):
    """Ties at the threshold and forbidden entries: the boundary of the support."""
    scores = torch.tensor([[1.0, 0.0, -1.0, -math.inf], [0.0, 0.0, 0.0, -9.0]], dtype=torch.float64)
    scores.requires_grad_()
    weights = draw(2, 4, seed=10).detach()
    (first,) = torch.autograd.grad(
        (entmax(scores, alpha) * weights).sum(), scores, create_graph=True
    )
    (second,) = torch.autograd.grad(first.square().sum(), scores)
    assert first.isfinite().all()
    assert second.isfinite().all()
    if alpha == 2:
        assert torch.equal(second, torch.zeros_like(second))


@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # inside torch
def test_function_transforms(alpha):
    scores = draw(4, 6, seed=11).detach()
    mapped = vmap(lambda s: entmax(s, alpha), in_dims=1, out_dims=1)(scores)
    assert_close(mapped, entmax(scores, alpha, dim=0), ABSOLUTE)
    jacobian = jacrev(lambda s: entmax(s, alpha))
    rows = torch.stack([jacobian(row) for row in scores])
    assert_close(vmap(jacobian)(scores), rows, GRADIENT)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # inside torch
def test_function_transforms_over_alpha():
    scores = draw(4, 6, seed=12).detach()
    alpha = torch.tensor([1.0, 1.3, 1.6, 2.0], dtype=torch.float64)
    assert_close(vmap(entmax)(scores, alpha), entmax(scores, alpha[:, None]), ABSOLUTE)
    jacobian = jacrev(entmax, argnums=1)
    rows = torch.stack([jacobian(*pair) for pair in zip(scores, alpha, strict=True)])
    assert_close(vmap(jacobian)(scores, alpha), rows, GRADIENT)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # inside torch
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


@pytest.mark.parametrize("function", COMPILED.values(), ids=COMPILED)
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # in dynamo
def test_compiles_without_a_graph_break(function):
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    eager_scores = torch.randn(3, 5).requires_grad_()
    scores = eager_scores.detach().clone().requires_grad_()
    weights = torch.randn(3, 5)
    expected, probs = function(eager_scores), compiled(scores)
    expected.backward(weights)
    probs.backward(weights)
    assert_close(probs, expected, ABSOLUTE)
    assert_close(scores.grad, eager_scores.grad, GRADIENT)
