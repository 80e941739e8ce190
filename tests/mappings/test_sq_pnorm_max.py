"""Sq-pnorm-max: optimality conditions, a program, the paper's linear system, limits in p."""

import pytest
import torch
from drawn import draw, leaf
from hard_rows import hard_rows
from mapping_references import sq_pnorm_max_by_bisection
from tolerances import ABSOLUTE, SUM, assert_close
from torch.autograd import gradcheck, gradgradcheck

from repro.mappings import sparsemax, sq_pnorm_max
from repro.mappings._norm import PnormFunction

NORMS = (1.1, 1.3, 1.5, 1.8)


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


@pytest.mark.parametrize("p", NORMS)
def test_first_and_second_derivatives_with_zeros_in_the_output(p):
    scores = leaf(3, 6, seed=4)
    assert (sq_pnorm_max(scores, p) == 0).any()
    assert gradcheck(lambda s: sq_pnorm_max(s, p), scores)
    assert gradgradcheck(lambda s: sq_pnorm_max(s, p), scores)
