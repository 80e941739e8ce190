"""Fusedmax: independent solutions, segments, derivative, what its peers get wrong."""

import math

import numpy as np
import pytest
import torch
from hard_rows import hard_rows
from structured_oracles import fused_rows, simplex_program, total_variation_by_enumeration
from tolerances import ABSOLUTE, GRADIENT, LOSS, SUM, assert_close
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jacrev

from repro.mappings import Fusedmax, fusedmax, sparsemax
from repro.mappings._reference import fusedmax_by_splitting

INF = math.inf
LAMS = (0.01, 0.1, 0.5)


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def segments(probs):
    """Matrix that averages over runs of equal positive entries."""
    runs = torch.zeros(len(probs), len(probs), dtype=torch.float64)
    start = 0
    for stop in range(1, len(probs) + 1):
        if stop == len(probs) or probs[stop] != probs[start]:
            runs[start:stop, start:stop] = 1 / (stop - start)
            start = stop
    return runs


@pytest.mark.parametrize("lam", LAMS)
@pytest.mark.parametrize("size", range(1, 7))
def test_every_face_enumerated(size, lam):
    rows = draw(6, size, seed=size)
    for row in rows:
        levels = total_variation_by_enumeration(row.numpy(), lam)
        assert_close(fusedmax(row, lam), sparsemax(torch.from_numpy(levels)), ABSOLUTE)


@pytest.mark.parametrize("lam", LAMS)
def test_solves_its_program(lam):
    """Penalty and simplex together, not one after the other."""
    for row in draw(4, 6, seed=1):
        expected = simplex_program(row.numpy(), fused_rows(6), lam)
        np.testing.assert_allclose(fusedmax(row, lam).numpy(), expected, atol=2e-7)


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("lam", LAMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_hard_rows_at_any_offset(dtype, lam, offset):
    scores = (hard_rows(24) + offset).to(dtype)
    probs = fusedmax(scores, lam)
    assert_close(probs, fusedmax_by_splitting(scores, lam), ABSOLUTE)
    assert_close(probs.sum(-1), torch.ones(len(scores)), SUM)


@pytest.mark.parametrize("lam", [1e-300, 1e-12])
def test_continuous_at_zero(lam):
    scores = torch.cat([draw(20, 9, seed=2), hard_rows(9)])
    assert torch.equal(fusedmax(scores, 0.0), sparsemax(scores))
    assert_close(fusedmax(scores, lam), sparsemax(scores), {torch.float64: 1e-11})


def test_a_large_penalty_fuses_everything():
    scores = draw(5, 8, seed=3)
    mask = torch.ones(5, 8, dtype=torch.bool)
    mask[2, 3:] = False
    expected = mask / mask.sum(-1, keepdim=True).double()
    for lam in (50.0, 1e30):
        assert_close(fusedmax(scores, lam, mask=mask), expected, ABSOLUTE)


def test_flat_rows_are_uniform_and_do_not_move():
    scores = torch.full((2, 7), 1e4).requires_grad_()
    probs = fusedmax(scores)
    assert_close(probs, torch.full((2, 7), 1 / 7), ABSOLUTE)
    (grad,) = torch.autograd.grad(probs[:, 2].sum(), scores)
    assert_close(grad, torch.zeros(2, 7), ABSOLUTE)


def test_segments_are_exactly_equal():
    """Levels by hand: (1 - λ) / 2, 2 λ and (.55 - λ) / 2; the threshold is .55 / 5."""
    probs = fusedmax(torch.tensor([0.5, 0.5, 0.0, 0.3, 0.25]), 0.1)
    assert_close(probs, torch.tensor([0.34, 0.34, 0.09, 0.115, 0.115]), ABSOLUTE)
    assert probs[0] == probs[1]
    assert probs[3] == probs[4]


def test_gamma_divides_the_scores():
    scores = draw(4, 6)
    assert_close(fusedmax(scores, 0.2, gamma=4.0), fusedmax(scores / 4, 0.2), ABSOLUTE)


def test_no_other_distribution_does_better():
    scores, module = draw(5, seed=4), Fusedmax(0.2, gamma=0.7)
    best = module.value(scores)
    probs = module(scores)
    assert_close((probs * scores).sum() - module.omega(probs), best, LOSS)
    others = torch.distributions.Dirichlet(torch.full((5,), 0.3, dtype=torch.float64))
    trials = torch.cat([others.sample((2000,)), torch.eye(5, dtype=torch.float64)])
    assert ((trials * scores).sum(-1) - module.omega(trials) <= best + 1e-12).all()


def test_omega_by_hand():
    probs = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.25, 0.25]])
    omega = Fusedmax(0.1, gamma=2.0).omega(probs)
    # γ (½ ‖p‖² - ½ + λ TV): one neighbour, two neighbours, 2 (.1875 - .5 + .1 * .25)
    assert_close(omega, torch.tensor([0.2, 0.4, -0.575]), LOSS)
    assert torch.equal(Fusedmax(0.1, gamma=2.0).omega(probs.t(), dim=0), omega)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # inside torch
@pytest.mark.parametrize("lam", LAMS)
def test_jacobian_is_the_closed_form(lam):
    """Proposition 3 and the chain rule: ``(diag(s) - s sᵀ / Σs) M``."""
    for row in draw(8, 9, seed=5):
        probs = fusedmax(row, lam)
        support = (probs > 0).double()
        projection = support.diag() - torch.outer(support, support) / support.sum()
        expected = projection @ segments(probs)
        actual = jacrev(lambda s: fusedmax(s, lam))(row)
        assert_close(actual, expected, GRADIENT)


@pytest.mark.parametrize("lam", LAMS)
def test_second_derivatives_are_zero(lam):
    scores = draw(3, 6, seed=6).requires_grad_()
    assert gradcheck(lambda s: fusedmax(s, lam), scores)
    assert gradgradcheck(lambda s: fusedmax(s, lam), scores)
    probs = fusedmax(scores, lam)
    (first,) = torch.autograd.grad(probs.square().sum() / 2, scores, create_graph=True)
    weights = draw(3, 6, seed=7)
    (second,) = torch.autograd.grad((first * weights).sum(), scores)
    moved = torch.stack([jacrev(lambda s: fusedmax(s, lam))(row) for row in scores.detach()])
    # p is J-projected: the gradient of ½‖p‖² is J p, and its derivative is J J.
    expected = torch.einsum("bij,bjk,bk->bi", moved, moved, weights)
    assert_close(second, expected, GRADIENT)


def test_masked_neighbours_become_adjacent():
    scores = torch.tensor([0.9, -5.0, 0.8, 0.1])
    mask = torch.tensor([True, False, True, True])
    probs = fusedmax(scores, 0.1, mask=mask)
    assert torch.equal(probs[mask], fusedmax(scores[mask], 0.1))
    assert probs[0] == probs[2]
    assert fusedmax(scores, 0.1)[0] != fusedmax(scores, 0.1)[2]


def test_masks_equal_removal_in_value_and_gradient():
    generator = torch.Generator().manual_seed(8)
    scores = draw(30, 9, seed=9).requires_grad_()
    mask = torch.rand(30, 9, generator=generator) < 0.6
    mask[:, 4] = True
    weights = draw(30, 9, seed=10)
    module = Fusedmax(0.3)
    probs, values = module(scores, mask=mask), module.value(scores, mask=mask)
    (grad,) = torch.autograd.grad((probs * weights).sum(), scores)
    assert torch.equal(grad[~mask], torch.zeros_like(grad[~mask]))
    for i in range(30):
        kept = scores[i, mask[i]].detach().requires_grad_()
        alone = module(kept)
        assert_close(probs[i, mask[i]], alone, ABSOLUTE)
        assert_close(values[i], module.value(kept), LOSS)
        (expected,) = torch.autograd.grad((alone * weights[i, mask[i]]).sum(), kept)
        assert_close(grad[i, mask[i]], expected, GRADIENT)


def test_value_has_the_distribution_as_gradient():
    scores = draw(4, 5, seed=11).requires_grad_()
    mask = torch.tensor([True, False, True, True, True])
    module = Fusedmax(0.2, gamma=1.5)
    (grad,) = torch.autograd.grad(module.value(scores, mask=mask).sum(), scores)
    assert torch.equal(grad, module(scores, mask=mask))
    assert gradcheck(lambda s: module.value(s, mask=mask), scores)
    assert gradgradcheck(lambda s: module.value(s, mask=mask), scores)
    assert gradcheck(lambda s: module.value(s, dim=0), scores)
    lone = module.value(torch.tensor([[-INF, -INF], [0.0, INF], [3.0, -INF]]))
    assert torch.equal(lone, torch.tensor([-INF, INF, 3.0]))


def test_a_batch_is_its_rows():
    """No row is treated alone; a peer loops over them in Python."""
    scores = draw(64, 20, seed=12).float()
    alone = torch.stack([fusedmax(row) for row in scores])
    assert torch.equal(fusedmax(scores), alone)
    assert torch.equal(fusedmax(scores.view(4, 16, 20)).view(64, 20), alone)


def test_what_a_peer_cannot_do():
    """Infinities, half types, one dimension, double backward, offsets, the lowest number."""
    assert torch.equal(fusedmax(torch.tensor([0.0, -INF])), torch.tensor([1.0, 0.0]))
    for dtype in (torch.float16, torch.bfloat16):
        assert fusedmax(torch.tensor([0.3, 0.1], dtype=dtype)).dtype == dtype
    sums = fusedmax(draw(20, 50, seed=13).float() + 1e6).sum(-1)
    assert_close(sums, torch.ones(20), SUM)
    lowest = torch.full((6,), torch.finfo(torch.float32).min)
    lowest[:3] = torch.tensor([0.2, 0.4, 0.1])
    assert_close(fusedmax(lowest)[:3], fusedmax(lowest[:3]), ABSOLUTE)


@pytest.mark.parametrize("lam", [-0.1, INF, math.nan])
def test_lam_is_checked(lam):
    for build in (lambda: fusedmax(torch.ones(2), lam), lambda: Fusedmax(lam)):
        with pytest.raises(ValueError, match="lam must be at least 0"):
            build()


@pytest.mark.parametrize("gamma", [0.0, -1.0, INF, math.nan])
def test_gamma_is_checked(gamma):
    for build in (lambda: fusedmax(torch.ones(2), gamma=gamma), lambda: Fusedmax(gamma=gamma)):
        with pytest.raises(ValueError, match="gamma must be positive"):
            build()


def test_settings_are_shown():
    assert repr(Fusedmax(0.2)) == "Fusedmax(lam=0.2, gamma=1.0)"
