"""SparseMAP of chains reaches a small gap whatever the scale of unary scores and transitions."""

import pytest
import torch
from chain_problems import HARD, certified_gap, chain_problem, gap_limit

from repro.structures import ConvergenceWarning, LinearChain, sparsemap
from repro.structures.arc_flow import POSITIVE, flows, paths, trellis


@pytest.mark.parametrize("seed", sorted({*range(3, 500, 40), *HARD}))
def test_every_chain_is_solved(seed):
    unary, pairs = chain_problem(seed)
    solution = sparsemap(LinearChain(), unary, pairs, tol=1e-9)
    assert solution.converged.all()
    gap = certified_gap(unary, pairs, solution.marginals, solution.additional)
    assert gap <= gap_limit(unary, pairs)


def test_iterations_of_both_phases_are_bounded_together():
    unary, pairs = chain_problem(80)
    with pytest.warns(ConvergenceWarning):
        stopped = sparsemap(LinearChain(), unary, pairs, max_iter=400)
    assert stopped.iterations.tolist() == [400]
    solved = sparsemap(LinearChain(), unary, pairs)
    again = sparsemap(LinearChain(), unary, pairs, start=solved)
    assert 2110 < int(solved.iterations) < 10_000
    assert int(again.iterations) <= 3


@pytest.mark.parametrize("scale", [1e-4, 1e-3, 1e-2])
def test_small_scores_converge_within_a_thousand_calls(scale):
    """Scores as of an untrained aligner converge within 1,000 calls, the solver's default bound."""
    generator = torch.Generator().manual_seed(1)
    unary = torch.randn(8, 14, 9, generator=generator, dtype=torch.float64) * scale
    pairs = torch.randn(8, 13, 9, 9, generator=generator, dtype=torch.float64) * scale / 10
    assert sparsemap(LinearChain(), unary, pairs, max_iter=1000).converged.all()


def test_hard_chains_do_not_depend_on_their_batch():
    hard, easy = chain_problem(178), chain_problem(3)
    n, m = hard[0].shape[1:]
    unary, pairs = torch.zeros(3, n + 1, m).double(), torch.zeros(3, n, m, m).double()
    unary[1, :n], pairs[1, : n - 1] = hard[0][0], hard[1][0]
    unary[2, :2] = easy[0][0, :2, :1]
    together = sparsemap(LinearChain(), unary, pairs, lengths=torch.tensor([n + 1, n, 2]))
    alone = sparsemap(LinearChain(), *hard)
    assert together.iterations[1] == alone.iterations[0]
    assert torch.equal(together.marginals[1, :n], alone.marginals[0])
    assert together.counts[1] == alone.counts[0]
    assert torch.equal(together.structures[1, : int(alone.counts), :n], alone.structures[0])


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 100.0])
@pytest.mark.parametrize("forbidden", [False, True])
def test_flows_are_the_optimum_over_all_sequences(scale, forbidden):
    generator = torch.Generator().manual_seed(4)
    unary = torch.randn(3, 4, 3, generator=generator, dtype=torch.float64) * scale
    pairs = torch.randn(3, 3, 3, 3, generator=generator, dtype=torch.float64) * scale
    if forbidden:
        unary[0, 1, 2] = pairs[1, 0, 0, 1] = -torch.inf
        pairs[2, 1, 1] = pairs[2, 2, :, 0] = -torch.inf
    flow = flows(trellis(unary, pairs))
    marginals = torch.cat((flow.sum(-1), flow[:, -1:].sum(-2)), 1)
    assert (flow[pairs == -torch.inf] == 0).all()
    torch.testing.assert_close(marginals.sum(-1), torch.ones(3, 4).double(), rtol=0, atol=1e-8)
    torch.testing.assert_close(flow[:, 1:].sum(-1), marginals[:, 1:-1], rtol=0, atol=1e-8)
    scores = torch.where(pairs > -torch.inf, pairs, 0)
    lowered = unary - marginals
    best = LinearChain().score(LinearChain().map(lowered, pairs), lowered, pairs)
    allowed = torch.where(unary > -torch.inf, lowered, 0)
    mean = (allowed * marginals).sum((1, 2)) + (scores * flow).sum((1, 2, 3))
    assert (best - mean).max() <= 1e-8 * (1 + scale)


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_flows_of_long_chains_use_few_arcs(scale):
    """Far from the solution, the error of long chains rises for several iterations."""
    generator = torch.Generator().manual_seed(0)
    unary = torch.randn(4, 100, 10, generator=generator, dtype=torch.float64) * scale
    pairs = torch.randn(1, 1, 10, 10, generator=generator, dtype=torch.float64).expand(
        4, 99, -1, -1
    )
    flow = flows(trellis(unary, 0.003 * pairs))
    assert ((flow > POSITIVE).sum((1, 2, 3)) <= 1000).all()  # of 9,900
    marginals = torch.cat((flow.sum(-1), flow[:, -1:].sum(-2)), 1)
    torch.testing.assert_close(flow[:, 1:].sum(-1), marginals[:, 1:-1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", [3, 26, 153])
def test_paths_have_the_flow_as_pairwise_marginals(seed):
    flow = flows(trellis(*chain_problem(seed)))
    arcs = int((flow > 1e-9).sum())
    tags, weights = paths(flow, arcs + 1)
    mixed = LinearChain().mixture(tags, weights, flow[0])
    torch.testing.assert_close(mixed, flow, rtol=0, atol=1e-6)
    assert (weights > 0).sum() <= arcs - flow.size(1) + 1
