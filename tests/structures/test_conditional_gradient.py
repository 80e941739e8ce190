"""Conditional gradient against the active set, which finds the same optimum another way."""

import pytest
import torch
from torch import Tensor

from repro.structures import (
    Arborescence,
    InfeasibleError,
    LinearChain,
    Matching,
    Structure,
    sparsemap,
)
from repro.structures.conditional_gradient import VARIANTS, conditional_gradient

EVERY_VARIANT = pytest.mark.parametrize("variant", VARIANTS)
STRUCTURES = {
    "trees": (Arborescence(), (7, 7)),
    "sequences": (LinearChain(), (5, 4)),
    "wide matchings": (Matching(), (3, 6)),
}
EVERY_STRUCTURE = pytest.mark.parametrize("name", STRUCTURES)


def random_problem(name: str, scale: float = 1.0) -> tuple[Structure, list[Tensor]]:
    """A structure, and its unary and perhaps additional scores."""
    torch.manual_seed(7)
    structure, (n, m) = STRUCTURES[name]
    shapes = [(n, m), (n - 1, m, m)] if isinstance(structure, LinearChain) else [(n, m)]
    return structure, [torch.randn(shape, dtype=torch.float64) * scale for shape in shapes]


@EVERY_VARIANT
@EVERY_STRUCTURE
def test_it_finds_the_solution_of_the_active_set(name, variant):
    structure, scores = random_problem(name)
    tol = 3e-2 if variant == "vanilla" else 1e-9
    run = conditional_gradient(structure, *scores, variant=variant, max_iter=3000, tol=tol)
    best = sparsemap(structure, *(one[None] for one in scores), tol=1e-11)
    assert run.converged
    distance = (run.marginals - best.marginals[0]).square().sum().item()
    assert distance <= 2 * tol, "strong convexity bounds the distance by the gap"


@EVERY_VARIANT
@EVERY_STRUCTURE
def test_histories_keep_their_promises(name, variant):
    structure, scores = random_problem(name, 0.5)
    run = conditional_gradient(structure, *scores, variant=variant, max_iter=60, tol=0.0)
    batch = [one[None] for one in scores]
    first = structure.map(*batch)
    norm = structure.indicator(first, batch[0]).square().sum() / 2
    torch.testing.assert_close(run.objective[:1], structure.score(first, *batch) - norm)
    assert run.support[0] == 1
    assert (run.objective.diff() >= -1e-12).all()
    assert (run.support.diff() <= 1).all()
    best = sparsemap(structure, *batch, tol=1e-11)
    value = (best.marginals * batch[0]).sum() - best.marginals.square().sum() / 2
    if len(batch) > 1:
        value = value + (best.additional * batch[1]).sum()
    assert (value - run.objective >= -1e-10).all()
    assert (value - run.objective <= run.gap + 1e-10).all()


@EVERY_VARIANT
def test_the_first_step_by_hand(variant):
    """One position: from the best of (0.6, 0.5, 0.3) a step of 0.45 to the second.

    All variants agree on it: ``γ = ⟨η - u, d⟩ / ‖d‖² = (0.5 - 0.6 + 1) / 2`` with ``d = e₂ - e₁``.
    """
    scores = torch.tensor([[0.6, 0.5, 0.3]], dtype=torch.float64)
    run = conditional_gradient(LinearChain(), scores, variant=variant, max_iter=2, tol=0.0)
    expected = torch.tensor([[0.55, 0.45, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(run.marginals, expected)


def test_bad_input_is_refused():
    scores = torch.randn(4, 4, dtype=torch.float64)
    with pytest.raises(ValueError, match="variant must be one of vanilla, away, pairwise"):
        conditional_gradient(Arborescence(), scores, variant="lazy")
    with pytest.raises(ValueError, match="max_iter must be at least 1"):
        conditional_gradient(Arborescence(), scores, max_iter=0)
    with pytest.raises(ValueError, match="NaN"):
        conditional_gradient(Matching(), scores / 0 * 0)
    with pytest.raises(InfeasibleError):
        conditional_gradient(Arborescence(), scores.fill_(-torch.inf))
