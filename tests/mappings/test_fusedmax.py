"""Fusedmax: independent solutions, segments, derivative, what its peers get wrong."""

import numpy as np
import pytest
import torch
from drawn import draw, leaf
from hard_rows import hard_rows
from structured_oracles import fused_rows, simplex_program, total_variation_by_enumeration
from tolerances import ABSOLUTE, GRADIENT, LOSS, assert_close
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jacrev

from repro.mappings import Fusedmax, fusedmax, sparsemax

LAMS = (0.01, 0.1, 0.5)


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


def test_segments_are_exactly_equal():
    """Levels by hand: (1 - λ) / 2, 2 λ and (.55 - λ) / 2; the threshold is .55 / 5."""
    probs = fusedmax(torch.tensor([0.5, 0.5, 0.0, 0.3, 0.25]), 0.1)
    assert_close(probs, torch.tensor([0.34, 0.34, 0.09, 0.115, 0.115]), ABSOLUTE)
    assert probs[0] == probs[1]
    assert probs[3] == probs[4]


def test_omega_by_hand():
    probs = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.25, 0.25]])
    omega = Fusedmax(0.1, gamma=2.0).omega(probs)
    # γ (½ ‖p‖² - ½ + λ TV): one neighbor, two neighbors, 2 (.1875 - .5 + .1 * .25)
    assert_close(omega, torch.tensor([0.2, 0.4, -0.575]), LOSS)
    assert torch.equal(Fusedmax(0.1, gamma=2.0).omega(probs.t(), dim=0), omega)


@pytest.mark.parametrize("lam", LAMS)
def test_second_derivatives_are_zero(lam):
    scores = leaf(3, 6, seed=6)
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


def test_masked_neighbors_become_adjacent():
    scores = torch.tensor([0.9, -5.0, 0.8, 0.1])
    mask = torch.tensor([True, False, True, True])
    probs = fusedmax(scores, 0.1, mask=mask)
    assert torch.equal(probs[mask], fusedmax(scores[mask], 0.1))
    assert probs[0] == probs[2]
    assert fusedmax(scores, 0.1)[0] != fusedmax(scores, 0.1)[2]
