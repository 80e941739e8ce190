"""Values against oracles: enumeration, bisection, sorting, a quadratic program, other libraries."""

from functools import partial
from itertools import product

import entmax as peer
import pytest
import torch
from enumeration import box_by_enumeration, entmax15_by_enumeration
from hard_rows import hard_rows
from mapping_references import (
    REFERENCES,
    budget_by_bisection,
    entmax_by_bisection,
    fusedmax_by_splitting,
    normmax_by_bisection,
    oscarmax_by_pooling,
    sq_pnorm_max_by_bisection,
)
from pairwise import pairwise
from plain import plain
from tolerances import ABSOLUTE, ADVERSARIAL, SUM, assert_close

from repro.mappings import (
    MAPPINGS,
    budget,
    entmax,
    fusedmax,
    normmax,
    oscarmax,
    softmax,
    sparsemax,
    sq_pnorm_max,
)
from repro.mappings._threshold import entmax15_powers, entmax_powers, sparsemax_powers
from repro.mappings.kernels import dispatch

FLOATS = (torch.float64, torch.float32)
ALPHAS = (1.01, 1.05, 1.25, 1.5, 1.75, 1.9, 2.0)
HARD = ABSOLUTE if dispatch.AVAILABLE else ADVERSARIAL
"""Tolerance on hard rows: kernels on the processor are as accurate there as elsewhere."""


reference = partial(entmax_by_bisection, passes=80)
NORMS = (1.1, 1.3, 1.5, 1.8)
OFFSETS = [0.0, 1e4, 1e8]
HARD_ROWS = {  # the oracle, parameters, sizes, offsets, tolerance
    entmax: (reference, ALPHAS, [2, 20, 63, 127, 129, 400, 1000], OFFSETS, HARD),
    normmax: (normmax_by_bisection, [1.1, 1.5, 2.0, 2.5, 4.0], [2, 20, 400], OFFSETS, ABSOLUTE),
    budget: (budget_by_bisection, [0.3, 2, 5.5, 19.5], [20, 400], OFFSETS, ABSOLUTE),
    sq_pnorm_max: (sq_pnorm_max_by_bisection, NORMS, [60, 100, 1500], OFFSETS[:2], ABSOLUTE),
    fusedmax: (fusedmax_by_splitting, [0.01, 0.1, 0.5], [24], OFFSETS[:2], ABSOLUTE),
    oscarmax: (oscarmax_by_pooling, [0.01, 0.05, 0.3], [2, 24, 300], OFFSETS[:2], ABSOLUTE),
}


def hard_cases():
    for function, (_, parameters, sizes, offsets, _) in HARD_ROWS.items():
        combine = product if function in (fusedmax, oscarmax) else pairwise
        for case in combine(sizes, FLOATS, parameters, offsets):
            yield function, *case


@pytest.mark.parametrize("spec", MAPPINGS.values(), ids=MAPPINGS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_mapping_equals_its_reference(spec, dtype):
    scores = torch.randn(200, 30, dtype=dtype, generator=torch.Generator().manual_seed(0)) * 2
    function, reference = plain(spec.function, spec), plain(REFERENCES[spec.name], spec)
    assert_close(function(scores), reference(scores), ABSOLUTE)


@pytest.mark.parametrize("size", range(1, 7))
def test_every_support_enumerated(size):
    rows = torch.randn(8, size, dtype=torch.float64, generator=torch.Generator().manual_seed(size))
    rows[-1] = 0.0
    for row in rows:
        unbounded = torch.full_like(row, torch.inf)
        assert_close(sparsemax(row), box_by_enumeration(row, unbounded, 1.0), ABSOLUTE)
        assert_close(entmax(row), entmax15_by_enumeration(row), ABSOLUTE)


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize(("function", "size", "dtype", "parameter", "offset"), [*hard_cases()])
def test_hard_rows_at_any_offset(function, size, dtype, parameter, offset):
    oracle, *_, tolerance = HARD_ROWS[function]
    width = parameter - 1 if function is entmax else 1
    scores = (hard_rows(size) / width + offset).to(dtype)
    probs = function(scores, parameter)
    assert (probs >= 0).all()
    assert_close(probs, oracle(scores, parameter), tolerance)
    total = parameter if function is budget else 1
    assert_close(probs.sum(-1), probs.new_full((len(scores),), total), SUM)


@pytest.mark.parametrize("alpha", [1.25, 1.5, 2.0])
def test_hard_rows_of_an_output_vocabulary(alpha):
    scores = (hard_rows(32000)[::3] / (alpha - 1)).float()
    probs = entmax(scores, alpha)
    assert_close(probs, reference(scores, alpha), HARD)
    assert_close(probs.sum(-1), torch.ones(len(scores)), SUM)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_stopping_early_changes_no_bit(monkeypatch, dtype):
    """Once nothing moves, further passes change nothing: compiled and eager results agree."""
    centered = hard_rows(60).to(dtype)
    centered = centered - centered.amax(-1, keepdim=True)
    solvers = (
        sparsemax_powers,
        entmax15_powers,
        lambda scores: entmax_powers(scores, 0.3, convex=True),
    )
    early = [solve(centered) for solve in solvers]
    monkeypatch.setattr("repro.mappings._threshold.is_concrete", lambda tensor: False)
    for solve, expected in zip(solvers, early, strict=True):
        assert torch.equal(solve(centered), expected)


@pytest.mark.parametrize("alpha", [1.0, 1 + 1e-12, 1 + 1e-6, 1 + 1e-3])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_continuous_at_one(alpha, dtype):
    """To first order in ``α - 1`` the map leaves softmax with the derivative from the right."""
    scores = torch.randn(20, 8, dtype=dtype, generator=torch.Generator().manual_seed(1)) * 2
    start = scores.double().softmax(-1)
    logs = start.log().square()
    slope = start * ((start * logs).sum(-1, keepdim=True) - logs) / 2
    expected = start + (alpha - 1) * slope
    error = (entmax(scores, alpha).double() - expected).abs().max()
    assert error <= ABSOLUTE[dtype] + 100 * (alpha - 1) ** 2


def test_alpha_one_is_softmax_and_alpha_two_is_sparsemax():
    scores = torch.randn(5, 7)
    assert torch.equal(entmax(scores, 1), softmax(scores))
    assert torch.equal(entmax(scores, 2), sparsemax(scores))
    assert_close(softmax(scores), scores.softmax(-1), ABSOLUTE)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_alpha_tensor_mixes_values(dtype):
    values = [1.0, 1.0001, 1.3, 1.5, 2.0]
    scores = torch.randn(len(values), 4, 9, dtype=dtype, generator=torch.Generator().manual_seed(2))
    alpha = torch.tensor(values, dtype=torch.float64).view(-1, 1, 1)
    expected = torch.stack([entmax(s, a) for s, a in zip(scores, values, strict=True)])
    assert_close(entmax(scores, alpha), expected, {d: 4 * ABSOLUTE[d] for d in FLOATS})


def test_agrees_with_the_entmax_package():
    scores = torch.randn(30, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    assert_close(sparsemax(scores), peer.sparsemax(scores, -1), ABSOLUTE)
    assert_close(entmax(scores), peer.entmax15(scores, -1), ABSOLUTE)
    bisected = peer.entmax_bisect(scores, 1.25, n_iter=60)
    assert_close(entmax(scores, 1.25), bisected, ABSOLUTE)
