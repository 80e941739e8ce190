"""Oscarmax: independent solutions, clusters, derivative, and how far the published form is off."""

import math

import numpy as np
import pytest
import torch
from drawn import draw, leaf
from hard_rows import hard_rows
from mapping_references import sparsemax_by_sorting
from scipy.optimize import isotonic_regression
from structured_oracles import oscar_rows, simplex_program
from tolerances import ABSOLUTE, GRADIENT, LOSS, assert_close
from torch.autograd import gradcheck, gradgradcheck

from repro.mappings import Oscarmax, fusedmax, oscarmax, sparsemax
from repro.mappings._segments import decreasing_blocks

INF = math.inf
LAMS = (0.01, 0.05, 0.3)


def project(scores):
    return sparsemax_by_sorting(torch.from_numpy(scores)).numpy()


def published(scores, lam):
    """Eq. 10 by its parts: sort ``|x|``, scipy's isotonic regression, signs, projection."""
    sizes = np.abs(scores)
    order = np.argsort(-sizes)
    weights = lam * np.arange(len(scores) - 1, -1, -1.0)
    levels = np.empty_like(scores)
    levels[order] = isotonic_regression(sizes[order] - weights, increasing=False).x
    return project(np.sign(scores) * np.maximum(levels, 0))


@pytest.mark.parametrize("lam", LAMS)
def test_solves_its_program(lam):
    """Every pair's maximum and the simplex together; nothing is sorted."""
    for row in draw(4, 6, seed=1) / 2:
        expected = simplex_program(row.numpy(), oscar_rows(6), lam)
        np.testing.assert_allclose(oscarmax(row, lam).numpy(), expected, atol=2e-7)


@pytest.mark.parametrize("size", [1, 2, 9, 60])
def test_isotonic_regression(size):
    """Against scipy, on drawn rows and on rows full of ties."""
    rows = torch.cat([draw(20, size, seed=size), torch.randint(0, 3, (20, size)).double()])
    blocks = decreasing_blocks(rows)
    for row, block in zip(rows, blocks, strict=True):
        solution = isotonic_regression(row.numpy(), increasing=False)
        means = torch.stack([row[block == b].mean() for b in block])
        np.testing.assert_allclose(means.numpy(), solution.x, atol=1e-12)


@pytest.mark.parametrize("lam", [1e-300, 1e-12])
def test_continuous_at_zero(lam):
    scores = torch.cat([draw(20, 9, seed=3), hard_rows(9)])
    for variant in ("exact", "paper"):
        assert torch.equal(oscarmax(scores, 0.0, variant=variant), sparsemax(scores))
    assert_close(oscarmax(scores, lam), sparsemax(scores), {torch.float64: 1e-11})


@pytest.mark.parametrize("lam", [50.0, 1e30])
def test_a_large_penalty_fuses_everything(lam):
    assert_close(oscarmax(draw(5, 8), lam), torch.full((5, 8), 0.125), ABSOLUTE)


def test_two_entries_are_fusedmax_of_two():
    """Paper, Figure 2: both penalties are λ max(p_1, p_2) or λ |p_1 - p_2| up to a constant."""
    scores = draw(30, 2, seed=4)
    assert_close(oscarmax(scores, 0.4), fusedmax(scores, 0.2), ABSOLUTE)


def test_omega_is_the_definition_less_a_constant():
    probs = torch.distributions.Dirichlet(torch.ones(6, dtype=torch.float64)).sample((4,))
    pairs = torch.maximum(probs[:, :, None], probs[:, None, :]).triu(1).sum((1, 2))
    expected = 2.0 * ((probs.square().sum(-1) - 1) / 2 + 0.1 * (pairs - 5))
    module = Oscarmax(0.1, gamma=2.0)
    assert_close(module.omega(probs), expected, LOSS)
    assert_close(module.omega(probs.t(), dim=0), expected, LOSS)
    assert torch.equal(module.omega(torch.eye(6)), torch.zeros(6))
    padded = torch.nn.functional.pad(probs, (0, 3))
    assert_close(module.omega(padded), expected, LOSS)


@pytest.mark.parametrize("variant", ["exact", "paper"])
@pytest.mark.parametrize("lam", LAMS)
def test_first_and_second_derivatives(lam, variant):
    scores = leaf(3, 6, seed=7)
    assert gradcheck(lambda s: oscarmax(s, lam, variant=variant), scores)
    assert gradgradcheck(lambda s: oscarmax(s, lam, variant=variant), scores)


def test_tied_scores_move_together():
    """Scores that meet stay together for a while: the group, not its members, has a derivative."""
    scores = torch.tensor([0.5, 0.5, 0.1], dtype=torch.float64).requires_grad_()
    (grad,) = torch.autograd.grad(oscarmax(scores, 0.1)[0], scores)
    expected = torch.tensor([1 / 6, 1 / 6, -1 / 3], dtype=torch.float64)
    assert_close(grad, expected, GRADIENT)


@pytest.mark.parametrize("lam", LAMS)
def test_published_form_is_equation_ten(lam):
    for row in draw(10, 12, seed=14):
        expected = torch.from_numpy(published(row.numpy(), lam))
        assert_close(oscarmax(row, lam, variant="paper"), expected, ABSOLUTE)


def test_published_form_is_an_approximation():
    """It misses the minimum for scores of both signs, by up to 0.18 for N(0, 1) and λ = 0.02."""
    scores, module = draw(2000, 50), Oscarmax(0.02)
    exact, paper = (oscarmax(scores, 0.02, variant=variant) for variant in ("exact", "paper"))
    distance = (exact - paper).abs().amax(-1)
    lost = (exact * scores).sum(-1) - module.omega(exact)
    lost = lost - (paper * scores).sum(-1) + module.omega(paper)
    assert 0.15 < distance.max() < 0.2
    assert (lost > -1e-12).all()
    assert (lost[distance > 1e-6] > 0).all()


def test_published_form_is_exact_on_one_side_of_zero():
    """The exact form is shift invariant, the published one only once signs and order agree."""
    scores = draw(200, 50, seed=15)
    exact = oscarmax(scores, 0.02)
    for offset in (-6.0, 6.0):
        assert_close(oscarmax(scores + offset, 0.02), exact, ABSOLUTE)
        assert_close(oscarmax(scores + offset, 0.02, variant="paper"), exact, ABSOLUTE)
    assert (oscarmax(scores, 0.02, variant="paper") - exact).abs().max() > 0.01


def test_published_form_has_no_value():
    with pytest.raises(ValueError, match="only variant='exact'"):
        Oscarmax(variant="paper").value(torch.zeros(3))


def test_published_form_with_awkward_rows():
    rows = torch.tensor([[-INF, -INF, -INF], [INF, 0.0, INF], [0.0, math.nan, 1.0], [0.3, 0.2, 0]])
    probs = oscarmax(rows, variant="paper")
    assert torch.equal(probs[:2], torch.tensor([[0.0, 0.0, 0.0], [0.5, 0.0, 0.5]]))
    assert probs[2].isnan().all()
    assert torch.equal(probs[3], oscarmax(rows[3], variant="paper"))
    assert oscarmax(torch.empty(2, 0), variant="paper").shape == (2, 0)
    for dtype in (torch.bfloat16, torch.float16):
        half = rows[3:].to(dtype)
        expected = oscarmax(half.float(), variant="paper").to(dtype)
        assert torch.equal(oscarmax(half, variant="paper"), expected)


def test_variant_is_checked():
    for build in (
        lambda: oscarmax(torch.ones(2), variant="fast"),
        lambda: Oscarmax(variant="fast"),
    ):
        with pytest.raises(ValueError, match="variant must be 'exact' or 'paper'"):
            build()
