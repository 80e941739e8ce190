"""The modules: same values as the functions, the maximum and its gradient, learned alphas."""

import math

import pytest
import torch
from drawn import draw, leaf
from plain import plain
from tolerances import ABSOLUTE, LOSS, assert_close
from torch import nn
from torch.autograd import gradcheck, gradgradcheck

from repro.mappings import (
    MAPPINGS,
    Budget,
    Entmax,
    Entmax15,
    Fusedmax,
    LearnedAlphaEntmax,
    Normmax,
    Oscarmax,
    ProbabilityMap,
    Softmax,
    Sparsemax,
    SqPnormMax,
    entmax,
    sparsemax,
)

MODULES = {
    "softmax": Softmax(),
    "softmax-gamma": Softmax(0.5),
    "sparsemax": Sparsemax(),
    "sparsemax-gamma": Sparsemax(3.0),
    "entmax-1": Entmax(1.0),
    "entmax-1.02": Entmax(1.02),
    "entmax-1.3": Entmax(1.3),
    "entmax-1.5": Entmax(),
    "entmax-tensor": Entmax(torch.tensor(1.3, dtype=torch.float64)),
    "learned": LearnedAlphaEntmax().double(),
    "normmax": Normmax(),
    "normmax-1.4": Normmax(1.4),
    "normmax-tensor": Normmax(torch.tensor(1.4, dtype=torch.float64)),
    "budget": Budget(1.0),
    "fusedmax": Fusedmax(0.2, gamma=0.7),
    "oscarmax": Oscarmax(0.1, gamma=1.5),
    "sq_pnorm_max": SqPnormMax(1.2, gamma=0.7),
    "sq_pnorm_max-2": SqPnormMax(2.0),
}


class EuclideanMap(ProbabilityMap):
    """A map that gives nothing but the two required methods."""

    def forward(self, scores, mask=None, dim=-1):
        return sparsemax(scores, mask=mask, dim=dim)

    def omega(self, probs, dim=-1):
        return (probs.square().sum(dim) - 1) / 2


MODULES["own"] = EuclideanMap()


@pytest.fixture(params=MODULES.values(), ids=MODULES)
def module(request):
    return request.param


@pytest.mark.parametrize("spec", MAPPINGS.values(), ids=MAPPINGS)
def test_module_is_the_function(spec):
    scores, mask = torch.randn(3, 4, 5), torch.rand(3, 4, 5) > 0.2
    module, function = plain(spec.module(), spec), plain(spec.function, spec)
    assert torch.equal(module(scores, mask=mask, dim=1), function(scores, mask=mask, dim=1))


def test_omega_vanishes_on_one_hot_rows(module):
    omega = module.omega(torch.eye(4, dtype=torch.float64))
    if not isinstance(module, Fusedmax):  # one neighbor costs less than two
        assert torch.equal(omega.detach(), torch.zeros(4, dtype=torch.float64))
    flat = torch.full((2, 4), 0.25, dtype=torch.float64)
    assert (module.omega(flat) < 0).all()
    assert module.omega(flat.t(), dim=0).shape == (2,)


def test_distribution_maximizes_the_objective(module):
    """``<p, z> - Ω(p)`` is the value, and no other distribution reaches more."""
    scores = draw(5)
    best = module.value(scores)
    probs = module(scores)
    assert_close((probs * scores).sum() - module.omega(probs), best, LOSS)
    others = torch.distributions.Dirichlet(torch.full((5,), 0.3, dtype=torch.float64))
    trials = torch.cat([others.sample((500,)), torch.eye(5, dtype=torch.float64)])
    assert ((trials * scores).sum(-1) - module.omega(trials) <= best + 1e-12).all()


def test_value_has_the_distribution_as_gradient(module):
    scores = leaf(4, 5, seed=1)
    mask = torch.tensor([True, True, False, True, True])
    (grad,) = torch.autograd.grad(module.value(scores, mask=mask).sum(), scores)
    assert torch.equal(grad, module(scores, mask=mask))
    rows = leaf(30, 5, seed=2) / 2
    assert_close(module.value(rows, mask=mask), module.value(rows[:, mask]), LOSS)
    assert gradcheck(module.value, scores)
    assert gradgradcheck(module.value, scores)
    assert gradcheck(lambda s: module.value(s, dim=0), scores)


def test_value_of_softmax_is_log_sum_exp():
    scores = leaf(4, 5) * 30
    assert_close(Softmax().value(scores), scores.logsumexp(-1), LOSS)
    assert_close(Softmax(2.0).value(scores), 2 * (scores / 2).logsumexp(-1), LOSS)


def test_value_at_infinity(module):
    scores = torch.tensor([[-math.inf, -math.inf], [0.0, math.inf], [3.0, -math.inf]]).double()
    values = module.value(scores)
    assert torch.equal(values.detach(), torch.tensor([-math.inf, math.inf, 3.0]).double())


def test_value_keeps_the_type():
    scores = torch.randn(3, 4).bfloat16()
    assert Entmax().value(scores).dtype == torch.bfloat16


@pytest.mark.parametrize("alpha", [1.0, 1.0 + 1e-7, 1.05, 1.5, 2.0])
def test_value_has_its_derivative_in_alpha(alpha):
    """Danskin: ``-∂Ω/∂α`` at the maximizer, checked one-sidedly because alpha starts at one."""
    scores = draw(3, 5, seed=2)
    exponent = nn.Parameter(torch.tensor(alpha, dtype=torch.float64))
    (grad,) = torch.autograd.grad(Entmax(exponent).value(scores).sum(), exponent)
    step = 1e-5
    here, ahead, further = (Entmax(alpha + k * step).value(scores).sum() for k in range(3))
    assert_close(grad, (4 * ahead - further - 3 * here) / (2 * step), {torch.float64: 1e-7})


@pytest.mark.parametrize("shape", [(), (3, 1)])
def test_second_derivatives_of_the_value_in_alpha(shape):
    exponent = torch.full(shape, 1.4, dtype=torch.float64, requires_grad=True)
    scores = leaf(3, 5, seed=3)

    def value(s, a):
        return Entmax(a).value(s)

    assert gradcheck(value, (scores, exponent))
    assert gradgradcheck(value, (scores, exponent))


def test_omega_gradients():
    probs = torch.distributions.Dirichlet(torch.ones(4, dtype=torch.float64)).sample((3,))
    probs.requires_grad_()
    for module in (*map(Entmax, (1.0, 1.05, 1.5, 2.0)), *map(SqPnormMax, (1.2, 2.0))):
        assert gradcheck(module.omega, probs)
    exponent = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda p, a: Entmax(a).omega(p), (probs, exponent))


def test_learned_alpha_starts_where_asked_and_moves():
    module = LearnedAlphaEntmax(alpha=1.3)
    assert_close(module.alpha.detach(), torch.tensor(1.3), ABSOLUTE)
    module(torch.randn(4, 6))[:, 0].sum().backward()
    assert module.logit.grad.abs() > 0


def test_learned_alpha_has_one_value_per_head():
    module = LearnedAlphaEntmax(heads=3)
    with torch.no_grad():
        module.logit += torch.tensor([-2.0, 0.0, 2.0]).view(3, 1, 1)
    scores = torch.randn(2, 3, 4, 5)
    probs, alphas = module(scores), module.alpha.flatten().tolist()
    for head, alpha in enumerate(alphas):
        assert_close(
            probs[:, head],
            entmax(scores[:, head], alpha),
            {torch.float32: 4 * ABSOLUTE[torch.float32]},
        )
    probs.square().sum().backward()
    assert (module.logit.grad != 0).all()
    with pytest.raises(ValueError, match="does not broadcast"):
        module(torch.randn(2, 4, 5))


def test_alpha_tensors_follow_the_module():
    assert "alpha" in dict(Entmax(torch.tensor([[1.2], [1.7]])).named_buffers())
    assert "alpha" in dict(Entmax(nn.Parameter(torch.tensor(1.4))).named_parameters())
    assert list(LearnedAlphaEntmax(2).state_dict()) == ["logit"]
    assert not Entmax(1.4).state_dict()


@pytest.mark.parametrize("module", [Sparsemax(dim=0), Entmax15(dim=0)])
def test_a_module_has_its_axis_everywhere(module):
    scores = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(module.value(scores).sum(), scores)
    torch.testing.assert_close(grad, module(scores))
    torch.testing.assert_close(module.omega(grad), module.omega(grad, dim=0))


def test_a_parameter_stays_one():
    for module in (Entmax, Normmax, Budget):
        assert len([*module(nn.Parameter(torch.tensor(1.5))).parameters()]) == 1
        assert len([*module(torch.tensor(1.5)).buffers()]) == 1


def test_settings_are_shown():
    shown = {
        "Softmax(gamma=2.0)": Softmax(2.0),
        "Sparsemax(gamma=1.0, dim=-1)": Sparsemax(),
        "Entmax(alpha=1.5)": Entmax(),
        "LearnedAlphaEntmax(heads=4)": LearnedAlphaEntmax(4),
        "Normmax(alpha=2.0)": Normmax(),
        "Budget(k=2.0)": Budget(2),
        "SqPnormMax(p=1.2, gamma=0.7)": SqPnormMax(1.2, gamma=0.7),
        "Fusedmax(lam=0.2, gamma=1.0)": Fusedmax(0.2),
        "Oscarmax(lam=0.01, gamma=1.0, variant='exact')": Oscarmax(),
    }
    assert [repr(module) for module in shown.values()] == [*shown]
