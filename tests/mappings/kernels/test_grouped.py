"""Kernels of fusedmax and oscarmax against the versions in PyTorch, and their groups."""

import math

import pytest
import torch
from hard_rows import hard_rows
from tolerances import ABSOLUTE, GRADIENT, assert_close

from repro.mappings import fusedmax, oscarmax
from repro.mappings._grouped import grouped_backward
from repro.mappings.kernels import dispatch
from repro.mappings.kernels.dispatch import launch

pytest.importorskip("numba")

SIZES = (1, 2, 3, 17, 50, 130, 400, 600)
TYPES = (torch.float32, torch.float64)


def generator(seed):
    return torch.Generator().manual_seed(seed)


def normal(size):
    return torch.randn(40, size, generator=generator(size))


def staircases(size):
    """Rows that fall ever more slowly: the mean of a run splits little off."""
    rates = torch.linspace(0.5, 0.98, 40).unsqueeze(-1)
    return rates ** torch.arange(size)


ROWS = {
    "alone": normal,
    "close": lambda size: normal(size) * 0.2,
    "smooth": lambda size: normal(size).cumsum(-1) * 0.3,
    "tied": lambda size: (normal(size) * 3).round() / 3,
    "masked": lambda size: normal(size).masked_fill(normal(size + 1)[:, 1:] < -0.4, -math.inf),
    "staircases": staircases,
    "hard": lambda size: hard_rows(size).float(),
}


def without_kernels(monkeypatch, mapping, scores, lam):
    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "has_kernel", lambda tensor: False)
        return mapping(scores, lam)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("mapping", [fusedmax, oscarmax])
def test_rows_solved_with_others(monkeypatch, mapping, rows):
    for size in SIZES:
        scores = ROWS[rows](size)
        for lam in (1e-6, 1e-3, 0.05, 0.4, 0.6):
            expected = without_kernels(monkeypatch, mapping, scores.double(), lam)
            for dtype in TYPES:
                assert_close(mapping(scores.to(dtype), lam), expected, ABSOLUTE)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [50, 400])
@pytest.mark.parametrize("name", ["fusedmax_forward", "oscarmax_forward"])
def test_rows_do_not_see_each_other(name, size, dtype):
    scores = torch.cat([ROWS[rows](size)[:7] for rows in ROWS]).to(dtype)
    scores[3, 1], scores[4, 2], scores[5] = math.nan, math.inf, -math.inf
    probs, groups = launch(name, scores, 0.05)
    assert probs[3].isnan().all()
    assert probs[4, 2] == 1
    assert (probs[5] == 0).all()
    for k in range(len(scores)):
        alone, own = launch(name, scores[k : k + 1], 0.05)
        assert torch.equal(alone[0].nan_to_num(7.0), probs[k].nan_to_num(7.0))
        assert torch.equal(own[0], groups[k])


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", ["fusedmax_forward", "oscarmax_forward"])
def test_groups_are_numbered_and_have_equal_shares(name, rows):
    for size in SIZES:
        for dtype in TYPES:
            scores = ROWS[rows](size).to(dtype)
            probs, groups = launch(name, scores, 0.05)
            assert ((groups >= 0) & (groups < size)).all()
            for share, group in zip(probs, groups, strict=True):
                for number in group[share > 0].unique():
                    members = share[(group == number) & (share > 0)]
                    assert (members == members[0]).all()


@pytest.mark.parametrize("name", ["fusedmax_forward", "oscarmax_forward"])
def test_groups_are_named_after_one_of_them(name):
    for rows in (normal, ROWS["close"], ROWS["smooth"]):
        for size in SIZES:
            probs, groups = launch(name, rows(size), 0.05)
            named = groups.gather(-1, groups.long())
            assert (named == groups)[probs > 0].all()
            assert (probs.gather(-1, groups.long()) == probs)[probs > 0].all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [1, 5, 50, 400])
def test_backward_takes_any_numbers(size, dtype):
    probs, groups = launch("fusedmax_forward", ROWS["close"](size).to(dtype), 0.1)
    grad = torch.randn(probs.shape, generator=generator(0), dtype=torch.float64).to(dtype)
    order = torch.randperm(size, generator=generator(1)).int()
    for numbers in (groups, order[groups.long()], (groups + 1) % size):
        found = launch("grouped_backward", probs, numbers, grad)
        expected = grouped_backward(probs.double(), numbers, grad.double())
        assert_close(found, expected, GRADIENT)
        assert (found[probs == 0] == 0).all()
