"""The compiled oracles find the best structure, compared with enumeration, scipy and networkx."""

import networkx
import numpy as np
import pytest
import torch
from every_structure import CASES, is_tree, spread
from scipy.optimize import linear_sum_assignment

from repro.structures import Arborescence, InfeasibleError, LinearChain, Matching


@pytest.mark.parametrize(("name", "scale"), spread(CASES, [1.0, 1e8, 0.0]))
def test_best_of_all_structures(name, scale):
    case = CASES[name]
    unary, additional = case.scores(20)
    unary = unary * scale
    additional = None if additional is None else additional * scale
    vertices = case.structure.map(unary, additional)
    scores = case.structure.score(vertices, unary, additional)
    best = case.theta(unary, additional).amax(-1)
    torch.testing.assert_close(scores, best, rtol=1e-14, atol=1e-12)
    assert (vertices.unsqueeze(1) == case.vertices).all(-1).any(-1).all()


@pytest.mark.parametrize("name", CASES)
def test_forbidden_parts(name):
    case = CASES[name]
    for seed in range(20):
        unary, additional = case.scores(1, seed)
        holes = torch.rand(unary.shape, generator=torch.Generator().manual_seed(seed)) < 0.4
        forbidden = unary.masked_fill(holes, -torch.inf)
        best = case.theta(forbidden, additional).max().item()
        if best == -torch.inf:
            with pytest.raises(InfeasibleError, match="instance 0: no structure is allowed"):
                case.structure.map(forbidden, additional)
            continue
        vertex = case.structure.map(forbidden, additional)
        assert torch.equal(vertex, case.structure.map(unary, additional, mask=~holes))
        found = case.structure.score(vertex, forbidden, additional).item()
        assert found == pytest.approx(best, abs=1e-12)


def test_infeasible_instances_are_named():
    unary = torch.zeros(4, 3, 3)
    unary[2, 0] = -torch.inf
    unary[3, :, 1] = -torch.inf
    with pytest.raises(InfeasibleError, match=r"instance 2 \(and 1 more\)"):
        Matching().map(unary)


def test_forbidden_transitions():
    transitions = torch.full((2, 2, 2), -torch.inf)
    with pytest.raises(InfeasibleError):
        LinearChain().map(torch.zeros(1, 3, 2), transitions)
    transitions[:, 0, 0] = 0
    assert LinearChain().map(torch.tensor([[[0.0, 9.0]] * 3]), transitions).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (17, 17), (40, 40), (9, 23), (23, 9)])
def test_matchings_against_scipy(shape):
    unary = torch.randn(10, *shape, dtype=torch.float64)
    found = Matching().score(Matching().map(unary), unary)
    for b in range(10):
        rows, columns = linear_sum_assignment(unary[b].numpy(), maximize=True)
        assert found[b].item() == pytest.approx(unary[b].numpy()[rows, columns].sum(), abs=1e-10)


@pytest.mark.parametrize("n", [1, 2, 7, 15])
@pytest.mark.parametrize("integers", [False, True])
def test_trees_against_networkx(n, integers):
    unary = torch.randn(5, n + 1, n + 1, dtype=torch.float64)
    unary = (2 * unary).round() if integers else unary
    vertices = Arborescence().map(unary)
    found = Arborescence().score(vertices, unary)
    for b in range(5):
        assert is_tree(tuple(vertices[b, 1:].tolist()))
        assert found[b].item() == pytest.approx(networkx_optimum(unary[b].numpy()), abs=1e-10)


def networkx_optimum(scores: np.ndarray) -> float:
    graph = networkx.DiGraph()
    for head in range(len(scores)):
        for word in range(1, len(scores)):
            if head != word:
                graph.add_edge(head, word, weight=scores[head, word])
    tree = networkx.maximum_spanning_arborescence(graph)
    return sum(scores[head, word] for head, word in tree.edges)


@pytest.mark.parametrize("n", [1, 5, 12])
@pytest.mark.parametrize("offset", [0.0, -1e9, 1e9])
def test_single_root_is_exact(n, offset):
    """Against all choices of the root word, each solved without the constraint."""
    unary = torch.randint(-40, 40, (5, n + 1, n + 1), dtype=torch.float64)
    unary[:, 0] += offset
    structure = Arborescence(single_root=True)
    vertices = structure.map(unary)
    best = torch.full((5,), -torch.inf, dtype=torch.float64)
    for word in range(1, n + 1):
        mask = torch.ones(n + 1, n + 1, dtype=torch.bool)
        mask[0, 1:] = torch.arange(1, n + 1) == word
        free = Arborescence()
        best = torch.maximum(best, free.score(free.map(unary, mask=mask), unary))
    assert ((vertices == 0).sum(1) == 1).all()
    assert torch.equal(structure.score(vertices, unary), best)


def test_single_root_without_a_way():
    """Two words that only the root can govern: two roots, or nothing."""
    unary = torch.zeros(1, 4, 4)
    unary[:, 1:, 1:3] = -torch.inf
    assert Arborescence().map(unary)[0, 1:3].tolist() == [0, 0]
    with pytest.raises(InfeasibleError):
        Arborescence(single_root=True).map(unary)


@pytest.mark.parametrize("name", CASES)
def test_indicator_has_the_score(name):
    case = CASES[name]
    unary, _ = case.scores(6)
    vertex = case.structure.map(unary)
    indicator = case.structure.indicator(vertex, unary)
    assert set(indicator.unique().tolist()) <= {0.0, 1.0}
    torch.testing.assert_close((indicator * unary).sum((1, 2)), case.structure.score(vertex, unary))


def test_boundary_scores_are_scores_of_the_ends():
    unary, start, end = torch.randn(2, 4, 3), torch.randn(3), torch.randn(2, 3)
    lengths = torch.tensor([4, 2])
    full = LinearChain.with_ends(unary, start, end, lengths)
    tags = torch.tensor([[0, 1, 2, 1], [2, 0, -1, -1]])
    expected = LinearChain().score(tags, unary) + start[tags[:, 0]]
    expected += torch.stack([end[0, 1], end[1, 0]])
    torch.testing.assert_close(LinearChain().score(tags, full), expected)
    whole = LinearChain.with_ends(unary, end=end)
    torch.testing.assert_close(whole[:, -1], unary[:, -1] + end)
