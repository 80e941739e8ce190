"""Solutions of SparseMAP against enumeration, and what must hold for all of them."""

import pytest
import torch
from every_structure import CASES, Case, spread
from torch import Tensor

from repro.mappings import sparsemax
from repro.structures import Arborescence, LinearChain, Matching, Solution, Structure, sparsemap


def objective(
    structure: Structure, solution: Solution, unary: Tensor, additional: Tensor | None
) -> Tensor:
    scores = structure.score(solution.structures, unary, additional)
    square = solution.marginals.square().sum((1, 2))
    return (scores * solution.weights).sum(1) - 0.5 * square


def independent_gap(
    structure: Structure, solution: Solution, unary: Tensor, more: Tensor | None
) -> Tensor:
    """The gap from the definition, with the best structure of the lowered scores."""
    lowered = unary - solution.marginals
    best = structure.score(structure.map(lowered, more), lowered, more)
    mean = (structure.score(solution.structures, lowered, more) * solution.weights).sum(1)
    return best - mean


@pytest.mark.parametrize(("name", "scale"), spread(CASES, [0.1, 1.0, 5.0]))
def test_optimum_over_all_structures(name, scale):
    case = CASES[name]
    unary, additional = case.scores(4)
    unary = unary * scale
    solution = sparsemap(case.structure, unary, additional)
    marginals, values = case.sparsemap(case.theta(unary, additional))
    assert (objective(case.structure, solution, unary, additional) >= values - 1e-10).all()
    torch.testing.assert_close(solution.marginals, marginals, rtol=0, atol=5e-5)


@pytest.mark.parametrize(("name", "scale"), spread(CASES, [0.0, 1e-3, 1.0, 1e4]))
def test_certificate(name, scale):
    case = CASES[name]
    unary, additional = case.scores(8, seed=1)
    unary = unary * scale
    solution = sparsemap(case.structure, unary, additional)
    assert solution.converged.all()
    gap = independent_gap(case.structure, solution, unary, additional)
    assert gap.max() <= 1e-10 + 1e-15 * scale * 100
    rebuilt = sum(
        case.structure.indicator(solution.structures[:, k], unary)
        * solution.weights[:, k, None, None]
        for k in range(solution.weights.size(1))
    )
    torch.testing.assert_close(solution.marginals, rebuilt, rtol=0, atol=1e-13)
    assert (solution.weights >= 0).all()
    torch.testing.assert_close(solution.weights.sum(1), torch.ones(8).double())
    assert torch.equal((solution.weights > 0).sum(1), solution.counts)


@pytest.mark.parametrize(
    ("structure", "shape", "transitions", "dtype"),
    [
        (LinearChain(), (20, 20), True, torch.float32),
        (LinearChain(), (30, 8), False, torch.float64),
        (Matching(), (20, 20), False, torch.float64),
        (Matching(), (12, 25), False, torch.float32),
        (Arborescence(), (21, 21), False, torch.float32),
        (Arborescence(single_root=True), (16, 16), False, torch.float64),
    ],
)
def test_larger_problems(structure, shape, transitions, dtype):
    unary = torch.randn(6, *shape, dtype=dtype)
    n, m = shape
    additional = torch.randn(6, n - 1, m, m, dtype=dtype) if transitions else None
    solution = sparsemap(structure, unary, additional)
    assert solution.converged.all()
    assert solution.marginals.dtype == dtype
    gap = independent_gap(structure, solution, unary, additional)
    assert gap.max() <= (1e-10 if dtype == torch.float64 else 1e-4)


def test_independent_tags_are_sparsemax():
    unary = torch.randn(5, 7, 9, dtype=torch.float64)
    marginals = sparsemap(LinearChain(), unary).marginals
    torch.testing.assert_close(marginals, sparsemax(unary), rtol=0, atol=1e-5)
    transitions = torch.randn(6, 9, 1, dtype=torch.float64) + torch.randn(6, 1, 9).double()
    folded = unary.clone()
    folded[:, :-1] += transitions[:, :, 0] - transitions[:, :1, 0]
    folded[:, 1:] += transitions[:, 0]
    chained = sparsemap(LinearChain(), unary, transitions.contiguous()).marginals
    torch.testing.assert_close(chained, sparsemax(folded), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_padding_changes_nothing(name):
    case = CASES[name]
    unary, additional = case.scores(3)
    alone = sparsemap(case.structure, unary, additional)
    wide = torch.full((3, unary.size(1) + 2, unary.size(2) + 3), torch.nan).double()
    if isinstance(case.structure, Arborescence):
        wide = wide[:, :, :-1]
    if isinstance(case.structure, LinearChain):
        wide = wide[:, :, : unary.size(2)]
    wide[:, : unary.size(1), : unary.size(2)] = unary
    more = None
    if additional is not None:
        more = torch.full((3, wide.size(1) - 1, *additional.shape[2:]), torch.nan).double()
        more[:, : additional.size(1)] = additional
    padded = sparsemap(case.structure, wide, more, lengths=full_lengths(case, unary))
    inside = padded.marginals[:, : unary.size(1), : unary.size(2)].clone()
    assert torch.equal(inside, alone.marginals)
    padded.marginals[:, : unary.size(1), : unary.size(2)] = 0
    assert (padded.marginals == 0).all()
    vertices = case.structure.map(wide, more, lengths=full_lengths(case, unary))
    width = case.structure.map(unary, additional).size(1)
    assert torch.equal(vertices[:, :width], case.structure.map(unary, additional))
    assert (vertices[:, width:] == -1).all()


def full_lengths(case: Case, unary: Tensor) -> Tensor:
    if isinstance(case.structure, Matching):
        return torch.tensor([unary.shape[1:]] * 3)
    return torch.tensor([unary.size(1) - isinstance(case.structure, Arborescence)] * 3)


def test_lengths_differ_within_a_batch():
    unary = torch.randn(4, 5, 6, dtype=torch.float64)
    lengths = torch.tensor([[5, 6], [2, 3], [5, 2], [0, 4]])
    solution = sparsemap(Matching(), unary, lengths=lengths)
    for b, (rows, columns) in enumerate(lengths.tolist()):
        if min(rows, columns):
            alone = sparsemap(Matching(), unary[b : b + 1, :rows, :columns])
            assert torch.equal(solution.marginals[b, :rows, :columns], alone.marginals[0])
        assert solution.marginals[b].sum().item() == pytest.approx(min(rows, columns))
    assert (solution.structures[3] == -1).all()


@pytest.mark.parametrize("structure", [LinearChain(), Matching(), Arborescence()])
def test_smallest_problems(structure):
    size = 2 if isinstance(structure, Arborescence) else 1
    one = torch.randn(1, size, size)
    solution = sparsemap(structure, one)
    assert solution.marginals.sum() == 1
    assert solution.counts.tolist() == [1]
    empty = torch.zeros(0, 3, 3)
    assert sparsemap(structure, empty).marginals.shape == (0, 3, 3)
    assert structure.map(empty).shape[0] == 0


def test_one_item_with_transitions():
    unary = torch.randn(2, 1, 4, requires_grad=True)
    transitions = torch.zeros(0, 4, 4, requires_grad=True)
    solution = sparsemap(LinearChain(), unary, transitions)
    torch.testing.assert_close(solution.marginals, sparsemax(unary.detach()), atol=2e-3, rtol=0)
    direction, scores = torch.randn(2, 1, 4, requires_grad=True), (unary, transitions)
    grads = torch.autograd.grad(solution.marginals, scores, direction, create_graph=True)
    assert grads[1].shape == (0, 4, 4)
    sum(grad.sum() for grad in grads).backward()
    assert direction.grad.shape == direction.shape
    assert solution.additional.shape == (2, 0, 4, 4)


@pytest.mark.parametrize("name", CASES)
def test_all_scores_equal(name):
    """Every structure is as good as any other; the marginals are still unique."""
    case = CASES[name]
    unary = torch.full((1, *case.unary.shape[1:]), 1e4, dtype=torch.float64)
    solution = sparsemap(case.structure, unary)
    assert solution.converged.all()
    expected, _ = case.sparsemap(case.theta(unary * 0))
    torch.testing.assert_close(solution.marginals, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "scale"), spread(CASES, [1e4, 1e8]))
def test_large_scores_give_the_best_structure(name, scale):
    case = CASES[name]
    unary, additional = case.scores(6)
    unary = unary * scale
    solution = sparsemap(case.structure, unary, additional)
    assert solution.converged.all()
    best = case.structure.indicator(case.structure.map(unary, additional), unary)
    torch.testing.assert_close(solution.marginals, best)


@pytest.mark.parametrize("name", CASES)
def test_a_common_shift_changes_nothing(name):
    case = CASES[name]
    unary, additional = case.scores(4)
    moved = sparsemap(case.structure, unary + 2**20, additional)
    expected = sparsemap(case.structure, unary, additional).marginals
    torch.testing.assert_close(moved.marginals, expected, rtol=0, atol=1e-6)


def test_transitions_decide_among_equal_marginals():
    """Four paths of a square have the same mean in pairs; only the transitions tell them apart."""
    unary = torch.zeros(1, 2, 2, dtype=torch.float64)
    transitions = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    solution = sparsemap(LinearChain(), unary, transitions)
    torch.testing.assert_close(solution.marginals, torch.full((1, 2, 2), 0.5).double())
    torch.testing.assert_close(solution.additional[0, 0], torch.eye(2).double() / 2)


def test_ties_between_whole_structures():
    unary = torch.zeros(1, 12, 12, dtype=torch.float64)
    unary[:, torch.arange(12), torch.arange(12)] = 0.5
    solution = sparsemap(Matching(), unary)
    assert solution.converged.all()
    diagonal = solution.marginals[0].diagonal()
    torch.testing.assert_close(diagonal, diagonal.mean().expand(12), rtol=0, atol=1e-5)
