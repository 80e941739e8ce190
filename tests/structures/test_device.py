"""The batched active set against enumeration: the optimum is certified by the Frank–Wolfe gap."""

import chain_problems
import pytest
import torch
from chain_problems import chain_problem
from every_structure import all_tag_sequences, sequence_parts
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from repro.mappings import sparsemax
from repro.structures import LinearChain
from repro.structures.device import (
    MORE,
    ActiveSets,
    SequenceScores,
    _indicator,
    solve,
    viterbi,
)


def random_scores(
    batch: int, positions: int, tags: int, scale: float, seed: int = 0, ties: bool = False
) -> SequenceScores:
    generator = torch.Generator().manual_seed(seed)
    unary = torch.randn(batch, positions, tags, generator=generator, dtype=torch.float64) * scale
    shape = (batch, positions - 1, tags, tags)
    pairs = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
    lengths = torch.randint(1, positions + 1, (batch, 1), generator=generator)
    if ties:
        unary, pairs = unary.round(), pairs.round()
    return SequenceScores(unary, pairs, torch.arange(positions) < lengths)


def enumerate_parts(scores: SequenceScores, instance: int) -> tuple[Tensor, Tensor]:
    """``M`` (one row per sequence) and the scores of all sequences of an instance."""
    length, tags = int(scores.inside[instance].sum()), scores.unary.size(-1)
    parts = [sequence_parts(s, length, tags) for s in all_tag_sequences(length, tags)]
    unary = torch.stack([u.flatten() for u, _ in parts])
    pairs = torch.stack([v.flatten() for _, v in parts])
    theta = unary @ scores.unary[instance, :length].flatten()
    return unary, theta + pairs @ scores.transitions[instance, : length - 1].flatten()


def certified_gap(scores: SequenceScores, state: ActiveSets, instance: int) -> float:
    """Check that a mixture is one, and bound its distance from the optimum over all sequences."""
    matrix, theta = enumerate_parts(scores, instance)
    length, tags = int(scores.inside[instance].sum()), scores.unary.size(-1)
    places = {s: k for k, s in enumerate(all_tag_sequences(length, tags))}
    shares = torch.zeros(len(places), dtype=torch.float64)
    for slot in state.active[instance].nonzero().flatten().tolist():
        chosen = tuple(state.tags[instance, slot, :length].tolist())
        shares[places[chosen]] += state.weights[instance, slot]
    assert shares.sum().item() == pytest.approx(1)
    assert (shares >= 0).all()
    assert torch.linalg.matrix_rank(matrix[shares > 0]) == (shares > 0).sum()
    linear = theta - matrix @ (matrix.mT @ shares)
    return (linear.max() - linear @ shares).item()


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 20.0])
def test_solutions_are_optimal(scale: float, ties: bool) -> None:
    scores = random_scores(24, 4, 3, scale, ties=ties)
    state = solve(scores, 200, 1e-10)
    assert state.finished.all()
    for instance in range(24):
        assert certified_gap(scores, state, instance) < 1e-9
    if scale == 0.1 and not ties:
        assert state.active.sum(-1).max() > 4


def test_a_structure_that_depends_on_the_others_is_exchanged() -> None:
    """Without unary scores the sequences differ by transitions only; (0,0), (0,1), (1,0) span all.

    The transitions favour (1, 1), so it has to push one of these out. By hand: the weights of the
    four sequences keep uniform marginals, and of those (0, 0) and (1, 1) score best.
    """
    pairs = torch.tensor([[[[0.4, 0.05], [0.05, 0.4]]]], dtype=torch.float64)
    scores = SequenceScores(
        torch.zeros(1, 2, 2, dtype=torch.float64), pairs, torch.ones(1, 2, dtype=torch.bool)
    )
    state = solve(scores, 50, 1e-12)
    assert certified_gap(scores, state, 0) < 1e-12
    chosen = {tuple(s) for s in state.tags[0][state.active[0]].tolist()}
    assert chosen == {(0, 0), (1, 1)}
    seeded = random_scores(64, 5, 2, 0.3, seed=5)
    unaries = SequenceScores(torch.zeros_like(seeded.unary), seeded.transitions, seeded.inside)
    state = solve(unaries, 200, 1e-10)
    for instance in range(64):
        assert certified_gap(unaries, state, instance) < 1e-9


def test_one_position_is_sparsemax() -> None:
    scores = random_scores(50, 1, 6, 1.0)
    state = solve(scores, 50, 1e-12)
    marginals = scores.marginals(state.tags, state.weights)
    torch.testing.assert_close(marginals, sparsemax(scores.unary))


def test_without_transitions_each_position_is_sparsemax() -> None:
    scores = random_scores(8, 6, 4, 1.0)
    free = SequenceScores(scores.unary, None, scores.inside)
    state = solve(free, 300, 1e-12)
    expected = sparsemax(scores.unary) * scores.inside.unsqueeze(-1)
    torch.testing.assert_close(free.marginals(state.tags, state.weights), expected)


def test_viterbi_finds_the_best_sequence() -> None:
    scores = random_scores(30, 5, 3, 2.0)
    tags = viterbi(scores.unary, scores.transitions, scores.inside)
    best = torch.stack([enumerate_parts(scores, instance)[1].max() for instance in range(30)])
    torch.testing.assert_close(scores.score(tags), best)
    assert (tags[~scores.inside] == 0).all()


def test_forbidden_tags_get_no_weight() -> None:
    scores = random_scores(6, 4, 3, 0.3)
    scores.unary[:, 1, 2] = -torch.inf
    scores.transitions[:, 0, 0, 1] = -torch.inf
    state = solve(scores, 100, 1e-10)
    assert state.finished.all()
    marginals = scores.marginals(state.tags, state.weights)
    assert (marginals[:, 1, 2] == 0).all()
    inside = scores.inside[:, 1]
    used = state.active & (state.tags[:, :, 0] == 0) & (state.tags[:, :, 1] == 1)
    assert not used[inside].any()


def test_stopping_early_leaves_a_mixture() -> None:
    scores = random_scores(10, 5, 4, 0.1)
    state = solve(scores, 3, 1e-12)
    assert (state.iterations <= 3).all()
    assert not state.finished.all()
    torch.testing.assert_close(state.weights.sum(-1), torch.ones(10).double())
    assert (state.gap[~state.finished] > 1e-12).all()


def test_instances_do_not_depend_on_their_batch() -> None:
    scores = random_scores(12, 5, 3, 0.3)
    together = solve(scores, 100, 1e-10)
    marginals = scores.marginals(together.tags, together.weights)
    for instance in range(12):
        chosen = slice(instance, instance + 1)
        one = SequenceScores(
            scores.unary[chosen], scores.transitions[chosen], scores.inside[chosen]
        )
        alone = solve(one, 100, 1e-10)
        torch.testing.assert_close(one.marginals(alone.tags, alone.weights), marginals[chosen])
        assert alone.iterations == together.iterations[instance]


def whole(seed: int) -> SequenceScores:
    unary, pairs = chain_problem(seed)
    inside = torch.ones(unary.shape[:2], dtype=torch.bool)
    return SequenceScores(unary - unary.amax(-1, keepdim=True), pairs, inside)


@pytest.mark.parametrize("seed", [7, 12, 25, 136, 156])
def test_chains_of_any_scale_are_solved(seed: int) -> None:
    """The last three need thousands of exchanges unless they go on from flows."""
    scores = whole(seed)
    assert scores.transitions is not None
    state = solve(scores, 10_000, 1e-9)
    assert state.converged.all()
    marginals = scores.marginals(state.tags, state.weights)
    additional = LinearChain().mixture(state.tags, state.weights, scores.transitions[0])
    unary, pairs = chain_problem(seed)
    gap = chain_problems.certified_gap(unary, pairs, marginals, additional)
    assert gap <= chain_problems.gap_limit(unary, pairs)
    active = state.active[0]
    parts = _indicator(state.tags[0, active], unary.size(-1)).double().flatten(1)
    assert torch.linalg.matrix_rank(parts) == active.sum()


class NoSynchronization(TorchDispatchMode):
    """Refuses what a host has to wait for, and what is not deterministic on CUDA."""

    REFUSED = (
        "_local_scalar_dense",
        "nonzero",
        "is_nonzero",
        "masked_select",
        "scatter_add",
        "index_add",
        "equal",
        "item",
    )

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        assert name not in self.REFUSED
        assert name.rstrip("_") not in self.REFUSED
        booleans = [i for i in args[1:2] if name.startswith("index")]
        assert not any(t is not None and t.dtype == torch.bool for i in booleans for t in i)
        return func(*args, **(kwargs or {}))


def test_no_synchronization_with_given_slots() -> None:
    """Past the start from flows, and with lengths and an instance that allows nothing."""
    scores = random_scores(4, 4, 3, 0.01)
    scores.unary[2, 0] = -torch.inf
    iterations = 4 * 3 + MORE + 3
    expected = solve(scores, iterations, 1e-10)
    with NoSynchronization():
        state = solve(scores, iterations, 1e-10, slots=10)
        marginals = scores.marginals(state.tags, state.weights)
    allowed = torch.tensor([0, 1, 3])
    assert state.converged[allowed].all()
    torch.testing.assert_close(
        marginals[allowed],
        scores.marginals(expected.tags, expected.weights)[allowed],
        rtol=0,
        atol=1e-7,
    )


def test_shapes_do_not_depend_on_values() -> None:
    scores = random_scores(3, 4, 3, 0.1)
    assert scores.transitions is not None
    with FakeTensorMode() as mode:
        fake = SequenceScores(
            *(mode.from_tensor(t) for t in (scores.unary, scores.transitions, scores.inside))
        )
        state = solve(fake, 4 * 3 + MORE + 2, 1e-10, slots=10)
    assert state.tags.shape == (3, 10, 4)


def test_deterministic_algorithms_are_enough() -> None:
    scores = random_scores(3, 4, 3, 0.1)
    found = []
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(2):
            state = solve(scores, 100, 1e-10)
            found.append(scores.marginals(state.tags, state.weights))
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(*found)
