"""Structures of users: an oracle in Python gets the same active set."""

import itertools

import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from repro.mappings import budget, sparsemax
from repro.structures import InfeasibleError, LinearChain, MapOracle, Matching, sparsemap
from repro.structures.any_oracle import OracleStructure


class Assignment:
    """Square matchings by scipy."""

    additional_parts = 0

    def __init__(self, n: int) -> None:
        self.n, self.unary_parts = n, n * n

    def map(self, scores: Tensor) -> Tensor:
        found = torch.zeros(self.n, self.n)
        found[linear_sum_assignment(scores.view(self.n, self.n), maximize=True)] = 1
        return found.flatten()


class Chain:
    """Two items with two tags each, by enumeration."""

    unary_parts, additional_parts = 4, 4

    def map(self, scores: Tensor) -> Tensor:
        vertices = []
        for a, b in itertools.product(range(2), repeat=2):
            vertex = torch.zeros(8, dtype=torch.float64)
            vertex[[a, 2 + b, 4 + 2 * a + b]] = 1
            vertices.append(vertex)
        return max(vertices, key=lambda v: float(v @ scores))


class Best:
    """``k`` of all parts."""

    additional_parts = 0

    def __init__(self, parts: int, k: int) -> None:
        self.unary_parts, self.k = parts, k

    def map(self, scores: Tensor) -> Tensor:
        return torch.zeros_like(scores).index_fill(0, scores.topk(self.k).indices, 1)


class Copies:
    """One structure of two parts, in three copies that differ in the additional part."""

    unary_parts, additional_parts = 3, 3

    def map(self, scores: Tensor) -> Tensor:
        best = scores[3:].argmax()
        pair = torch.tensor([1.0, 1, 0, 0, 0, 0])
        alone = torch.tensor([0.0, 0, 1, 0, 0, 0])
        pair[3 + best] = 1
        value = scores[0] + scores[1] + scores[3 + best]
        return pair if value >= scores[2] else alone


def test_protocol() -> None:
    assert isinstance(Best(4, 2), MapOracle)


def test_same_as_the_compiled_structure() -> None:
    unary = torch.randn(3, 6, 6, dtype=torch.float64, requires_grad=True)
    direction = torch.randn(3, 6, 6, dtype=torch.float64)
    expected = sparsemap(Matching(), unary)
    found = sparsemap(Assignment(6), unary.flatten(1))
    assert found.converged.all()
    torch.testing.assert_close(found.marginals.view(3, 6, 6), expected.marginals, atol=1e-6, rtol=0)
    (grad,) = torch.autograd.grad(found.marginals.view(3, 6, 6), unary, direction)
    (right,) = torch.autograd.grad(expected.marginals, unary, direction)
    torch.testing.assert_close(grad, right, atol=1e-6, rtol=0)


def test_additional_parts() -> None:
    unary = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    more = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    found = sparsemap(Chain(), unary, more)
    expected = sparsemap(LinearChain(), unary.view(4, 2, 2), more.view(4, 1, 2, 2))
    torch.testing.assert_close(found.marginals, expected.marginals.flatten(1))
    torch.testing.assert_close(found.additional, expected.additional.flatten(1))
    assert torch.autograd.gradcheck(
        lambda u, v: (lambda s: (s.marginals, s.additional))(sparsemap(Chain(), u, v)),
        (unary, more),
    )


def test_subsets_are_the_budget_mapping() -> None:
    scores = torch.randn(5, 7, dtype=torch.float64)
    for k in (1, 3):
        found = sparsemap(Best(7, k), scores).marginals
        expected = sparsemax(scores) if k == 1 else budget(scores, k)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_copies_of_a_structure() -> None:
    """Equal unary parts: only the best copy stays, whatever comes first."""
    unary = torch.tensor([[0.0, 0.0, 1.2]], dtype=torch.float64)
    for order in itertools.permutations([0.1, 0.5, 0.3]):
        more = torch.tensor([order], dtype=torch.float64)
        solution = sparsemap(Copies(), unary, more)
        assert solution.converged.all()
        best = more.argmax()
        others = [k for k in range(3) if k != best]
        assert (solution.additional[0, others] == 0).all()
        # argmax of (0.5 p + 1.2 q - (2 p² + q²) / 2) with p + q = 1
        assert solution.additional[0, best].item() == pytest.approx(0.1)


def test_score_and_map_of_an_oracle() -> None:
    scores = torch.randn(3, 5, dtype=torch.float64)
    structure = OracleStructure(Best(5, 2))
    vertex = structure.map(scores)
    torch.testing.assert_close(structure.score(vertex, scores), scores.topk(2).values.sum(1))


@pytest.mark.parametrize("answer", [torch.zeros(3), torch.full((4,), 0.5), torch.zeros(1, 4)])
def test_answers_that_are_no_vertices_are_refused(answer: Tensor) -> None:
    oracle = Best(4, 1)
    oracle.map = lambda scores: answer
    with pytest.raises(ValueError, match="vector of 4 zeros and ones"):
        sparsemap(oracle, torch.zeros(1, 4))


def test_bad_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="4 unary parts expected"):
        sparsemap(Best(4, 1), torch.zeros(1, 5))
    with pytest.raises(ValueError, match="instance 0: a score is NaN"):
        sparsemap(Best(4, 1), torch.full((1, 4), torch.nan))
    with pytest.raises(InfeasibleError, match="instance 0"):
        sparsemap(Best(4, 1), torch.full((1, 4), -torch.inf))
    with pytest.raises(ValueError, match="no additional parts"):
        sparsemap(Best(4, 1), torch.zeros(1, 4), torch.zeros(1, 4))
    with pytest.raises(ValueError, match="additional scores"):
        sparsemap(Chain(), torch.zeros(1, 4), torch.zeros(1, 3))
    with pytest.raises(ValueError, match="no lengths"):
        sparsemap(Best(4, 1), torch.zeros(1, 4), lengths=torch.tensor([4]))
    start = sparsemap(Best(4, 1), torch.zeros(1, 4))
    with pytest.raises(ValueError, match="a start needs"):
        sparsemap(Best(4, 1), torch.zeros(1, 4), start=start)


def test_an_empty_batch() -> None:
    assert sparsemap(Best(4, 1), torch.zeros(0, 4)).marginals.shape == (0, 4)
