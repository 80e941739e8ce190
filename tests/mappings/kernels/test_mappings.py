"""Kernels of the mappings besides α-entmax, behind the public functions, against PyTorch."""

import math

import pytest
import torch
from pairwise import pairwise
from tolerances import ABSOLUTE, assert_close

from repro.mappings import budget, csoftmax, csparsemax, fusedmax, oscarmax, sq_pnorm_max
from repro.mappings.kernels import dispatch

pytest.importorskip("numba")
pytestmark = pytest.mark.usefixtures("poisoned")
INF = math.inf


def some_bounds(scores):
    """Bounds of which some are met, some exhausted, one infinite, and one off by rounding."""
    generator = torch.Generator().manual_seed(scores.size(-1))
    size = scores.size(-1)
    spread = torch.rand(scores.shape, generator=generator, dtype=torch.float64)
    upper = (1.2 / size) * (1 + 3 * spread)
    if size > 2:
        upper[..., 1], upper[..., -1] = 0.0, INF
    if size > 50:
        upper[..., 2] = -torch.finfo(scores.dtype).eps
    return (upper.to(scores.dtype),)


def totals(scores):
    return (torch.linspace(0.2, 1.0, len(scores), dtype=scores.dtype)[:, None],)


CASES = {
    "csoftmax": (csoftmax, some_bounds),
    "csparsemax": (csparsemax, some_bounds),
    "budget": (lambda scores: budget(scores, 0.7), lambda scores: ()),
    "budget-rows": (budget, totals),
    "fusedmax": (fusedmax, lambda scores: ()),
    "fusedmax-strong": (lambda scores: fusedmax(scores, 2.0), lambda scores: ()),
    "oscarmax": (oscarmax, lambda scores: ()),
    "oscarmax-strong": (lambda scores: oscarmax(scores, 0.2), lambda scores: ()),
    "sq_pnorm_max": (sq_pnorm_max, lambda scores: ()),
    "sq_pnorm_max-1.8": (lambda scores: sq_pnorm_max(scores, 1.8), lambda scores: ()),
}
every_case = pytest.mark.parametrize(("function", "parameters"), CASES.values(), ids=CASES)


def rows_of(size, dtype):
    generator = torch.Generator().manual_seed(size)
    scores = torch.randn(9, size, generator=generator, dtype=torch.float64) * 2
    scores[-1] *= 0.1
    return scores.to(dtype)


def results(function, scores, parameters):
    """The distribution and the gradients in scores and parameters."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (scores, *parameters)]
    probs = function(*leaves)
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(scores.shape, generator=generator, dtype=torch.float64)
    return probs, *torch.autograd.grad(probs, leaves, weights.to(scores.dtype))


@pytest.mark.parametrize(
    ("name", "size", "dtype"),
    pairwise(CASES, [1, 2, 63, 130, 1000], [torch.float64, torch.float32]),
)
def test_values_and_gradients(monkeypatch, name, size, dtype):
    function, parameters = CASES[name]
    scores = rows_of(size, dtype)
    given = parameters(scores)
    found = results(function, scores, given)
    monkeypatch.setattr(dispatch, "has_kernel", lambda tensor: False)
    monkeypatch.setattr("repro.mappings._segments.AVAILABLE", False)
    # Below zero by a rounding of single precision is too low for double precision.
    single = dtype == torch.float32
    wide = [item.double().clamp(min=0) for item in given] if single else given
    expected = results(function, scores.double(), wide)
    assert found[0].dtype == dtype
    assert_close(found[0], expected[0], ABSOLUTE)
    assert ((found[0] == 0) == (expected[0].to(dtype) == 0)).all()
    # Where a few entries hold nearly all mass, their rounding errors are large relative to the
    # rest.
    for k in range(1, 2 if single else len(found)):
        assert_close(found[k], expected[k], {torch.float64: 1e-11, torch.float32: 2e-4})


@every_case
def test_the_same_bits_for_any_number_of_threads(function, parameters, threads):
    scores, found = torch.randn(400, 700), []
    for count in (1, 2):
        threads(count)
        found.append(results(function, scores, parameters(scores)))
    for actual, wanted in zip(*found, strict=True):
        assert torch.equal(actual, wanted)


@every_case
def test_gradients_that_do_not_count_are_not_read(function, parameters):
    """NaN in the gradient of an entry without mass stays there."""
    scores = rows_of(63, torch.float64)
    scores[:, 5] = -INF
    leaf = scores.requires_grad_()
    probs = function(leaf, *parameters(scores))
    weights = torch.ones_like(probs)
    weights[:, 5] = math.nan
    (grad,) = torch.autograd.grad(probs, leaf, weights)
    assert grad.isfinite().all()
    assert torch.equal(grad[:, 5], torch.zeros(9, dtype=torch.float64))


@every_case
def test_bad_rows_keep_to_themselves(function, parameters):
    scores = rows_of(100, torch.float32)
    scores[1], scores[3, 7], scores[5, 9] = -INF, math.nan, INF
    given = parameters(scores)
    probs = function(scores, *given)
    assert torch.equal(probs[1], torch.zeros(100))
    assert probs[3].isnan().all()
    others = [0, 2, 4, 6, 7, 8]
    alone = function(scores[others], *(item[others] for item in given))
    assert torch.equal(probs[others], alone)
    assert probs[5].isfinite().all()
