"""Sq-pnorm-max: optimality conditions, a program, the paper's linear system, limits in p."""

import math

import numpy as np
import pytest
import torch
from hard_rows import hard_rows
from pairwise import pairwise
from scipy.optimize import minimize
from tolerances import ABSOLUTE, GRADIENT, LOSS, SUM, assert_close
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jacrev

from repro.mappings import SqPnormMax, softmax, sparsemax, sq_pnorm_max
from repro.mappings._norm import PnormFunction
from repro.mappings._reference import sq_pnorm_max_by_bisection

INF = math.inf
NORMS = (1.1, 1.3, 1.5, 1.8)
jit = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # inside torch


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("p", NORMS)
def test_solves_its_program(p):
    for row in draw(4, 6, seed=1):
        scores = row.numpy()
        solution = minimize(
            lambda y, z=scores: (y**p).sum() ** (2 / p) / 2 - y @ z,
            np.full(6, 1 / 6),
            jac=lambda y, z=scores: y ** (p - 1) * (y**p).sum() ** (2 / p - 1) - z,
            bounds=[(0, 1)] * 6,
            constraints={"type": "eq", "fun": lambda y: y.sum() - 1, "jac": np.ones_like},
            options={"ftol": 1e-15, "maxiter": 500},
        )
        np.testing.assert_allclose(sq_pnorm_max(row, p).numpy(), solution.x, atol=1e-6)


@pytest.mark.parametrize("p", [1.05, *NORMS, 1.99])
@pytest.mark.parametrize("size", [1, 2, 20, 400])
def test_optimality_conditions(size, p):
    """``z - γ ∇Ω(y)`` is one number on the support and at most that number off it."""
    scores = hard_rows(size)
    probs = sq_pnorm_max(scores, p)
    norm = probs.pow(p).sum(-1, keepdim=True).pow(1 / p)
    gap = scores - probs.pow(p - 1) * norm.pow(2 - p)
    level = (probs * gap).sum(-1, keepdim=True)
    # A tiny entry says little about the level: its power p - 1 has few digits.
    on = torch.where(probs > 1e-6, gap - level, 0.0)
    off = torch.where(probs == 0, gap - level, -1.0)
    size_of_scores = scores.abs().clamp(min=1)
    assert (on.abs() / size_of_scores).max() < 1e-11
    assert (off / size_of_scores).max() < 1e-11
    assert_close(probs.sum(-1), torch.ones(len(scores)), SUM)


@pytest.mark.parametrize(
    ("size", "dtype", "p", "offset"),
    pairwise([60, 100, 1500], [torch.float64, torch.float32], NORMS, [0.0, 1e4]),
)
def test_hard_rows_at_any_offset(size, dtype, p, offset):
    scores = (hard_rows(size) + offset).to(dtype)
    probs = sq_pnorm_max(scores, p)
    assert_close(probs, sq_pnorm_max_by_bisection(scores, p), ABSOLUTE)
    assert_close(probs.sum(-1), torch.ones(len(scores)), SUM)


def test_hard_rows_of_an_output_vocabulary():
    scores = hard_rows(32000)[::6].float()
    probs = sq_pnorm_max(scores)
    assert_close(probs, sq_pnorm_max_by_bisection(scores), ABSOLUTE)


def test_two_is_sparsemax_and_two_is_approached():
    scores = torch.cat([draw(20, 8, seed=2), hard_rows(8)])
    assert torch.equal(sq_pnorm_max(scores, 2), sparsemax(scores))
    assert_close(PnormFunction.apply(scores, 2 - 1e-12), sparsemax(scores), {torch.float64: 1e-10})
    assert_close(sq_pnorm_max(scores, 2 - 1e-6), sparsemax(scores), {torch.float64: 1e-5})


def test_one_is_argmax_in_the_limit():
    """``½ ‖y‖_1²`` is constant on the simplex: what is left is the largest score, ties shared."""
    scores = torch.tensor([[0.3, 0.1, -1.0], [0.2, 0.2, 0.0]], dtype=torch.float64)
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], dtype=torch.float64)
    assert_close(sq_pnorm_max(scores, 1.01), expected, {torch.float64: 1e-6})


def test_flat_rows_are_uniform():
    for p in NORMS:
        probs = sq_pnorm_max(torch.full((2, 32000), 1e4), p)
        assert_close(probs, torch.full((2, 32000), 1 / 32000), {torch.float32: 1e-10})


def test_gamma_divides_the_scores():
    scores = draw(4, 6)
    assert_close(sq_pnorm_max(scores, gamma=4.0), sq_pnorm_max(scores / 4), ABSOLUTE)


@jit
@pytest.mark.parametrize("gamma", [1.0, 0.3])
@pytest.mark.parametrize("p", NORMS)
def test_jacobian_solves_the_system_of_proposition_one(p, gamma):
    """``(I + A (B - I)) J = A`` with the Hessian of Eq. 8."""
    for row in draw(6, 7, seed=3):
        probs = sq_pnorm_max(row, p, gamma=gamma)
        support = probs > 0
        kept = probs[support]
        norm = kept.pow(p).sum().pow(1 / p)
        diagonal = (p - 1) * kept.pow(p - 2) / norm.pow(p - 2)
        vector = math.sqrt(2 - p) * kept.pow(p - 1) / norm.pow(p - 1)
        hessian = gamma * (diagonal.diag() + torch.outer(vector, vector))
        identity = torch.eye(len(kept), dtype=torch.float64)
        projection = identity - 1 / len(kept)
        inner = torch.linalg.solve(identity + projection @ (hessian - identity), projection)
        expected = torch.zeros(7, 7, dtype=torch.float64)
        expected[support.nonzero(), support.nonzero().T] = inner
        actual = jacrev(lambda s: sq_pnorm_max(s, p, gamma=gamma))(row)
        assert_close(actual, expected, GRADIENT)


@pytest.mark.parametrize("p", NORMS)
def test_first_and_second_derivatives_with_zeros_in_the_output(p):
    scores = draw(3, 6, seed=4).requires_grad_()
    assert (sq_pnorm_max(scores, p) == 0).any()
    assert gradcheck(lambda s: sq_pnorm_max(s, p), scores)
    assert gradgradcheck(lambda s: sq_pnorm_max(s, p), scores)


def test_no_derivative_is_nan():
    rows = [[1.0, 0.0, -1.0, -INF], [0.0, 0.0, 0.0, -9.0], [-INF] * 4]
    scores = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
    weights = draw(3, 4, seed=5)
    probs = sq_pnorm_max(scores)
    (first,) = torch.autograd.grad((probs * weights).sum(), scores, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), scores)
    assert first.isfinite().all()
    assert second.isfinite().all()
    assert torch.equal(first[2], torch.zeros(4, dtype=torch.float64))


def test_masks_equal_removal_in_value_and_gradient():
    generator = torch.Generator().manual_seed(6)
    scores = draw(20, 9, seed=7).requires_grad_()
    mask = torch.rand(20, 9, generator=generator) < 0.6
    mask[:, 4] = True
    weights = draw(20, 9, seed=8)
    probs = sq_pnorm_max(scores, mask=mask)
    (grad,) = torch.autograd.grad((probs * weights).sum(), scores)
    assert torch.equal(grad[~mask], torch.zeros_like(grad[~mask]))
    for i in range(20):
        kept = scores[i, mask[i]].detach().requires_grad_()
        alone = sq_pnorm_max(kept)
        assert_close(probs[i, mask[i]], alone, ABSOLUTE)
        (expected,) = torch.autograd.grad((alone * weights[i, mask[i]]).sum(), kept)
        assert_close(grad[i, mask[i]], expected, GRADIENT)


@pytest.mark.parametrize("p", [1.2, 1.5, 2.0])
def test_module(p):
    module, scores = SqPnormMax(p, gamma=0.7), draw(4, 5, seed=9).requires_grad_()
    assert torch.equal(module.omega(torch.eye(4)), torch.zeros(4))
    probs, values = module(scores), module.value(scores)
    assert_close((probs * scores).sum(-1) - module.omega(probs), values, LOSS)
    others = torch.distributions.Dirichlet(torch.full((5,), 0.3, dtype=torch.float64))
    trials = others.sample((500, 1))
    assert ((trials * scores).sum(-1) - module.omega(trials) <= values + 1e-12).all()
    (grad,) = torch.autograd.grad(values.sum(), scores)
    assert torch.equal(grad, probs)
    assert gradcheck(module.value, scores)
    assert gradgradcheck(module.value, scores)
    assert repr(module) == f"SqPnormMax(p={p}, gamma=0.7)"


def test_omega_gradients():
    probs = softmax(draw(3, 4)).requires_grad_()
    for p in (1.2, 1.5, 2.0):
        assert gradcheck(SqPnormMax(p).omega, probs)


def test_stopping_early_changes_no_bit(monkeypatch):
    scores = torch.cat([hard_rows(60), draw(20, 60)])
    early = [sq_pnorm_max(scores, p) for p in NORMS]
    monkeypatch.setattr("repro.mappings._norm.is_concrete", lambda tensor: False)
    for p, expected in zip(NORMS, early, strict=True):
        assert torch.equal(sq_pnorm_max(scores, p), expected)


def test_a_batch_is_its_rows():
    scores = draw(64, 20, seed=10).float()
    alone = torch.stack([sq_pnorm_max(row) for row in scores])
    assert torch.equal(sq_pnorm_max(scores), alone)


@pytest.mark.parametrize("p", [1.0, 0.5, 2.001, INF, math.nan])
def test_p_is_checked(p):
    for build in (lambda: sq_pnorm_max(torch.ones(2), p), lambda: SqPnormMax(p)):
        with pytest.raises(ValueError, match="p must be larger than 1 and at most 2"):
            build()


def test_gamma_is_checked():
    for build in (
        lambda: sq_pnorm_max(torch.ones(2), gamma=-1.0),
        lambda: sq_pnorm_max(torch.ones(2), 2.0, gamma=0.0),
        lambda: SqPnormMax(gamma=math.nan),
    ):
        with pytest.raises(ValueError, match="gamma must be positive"):
            build()
