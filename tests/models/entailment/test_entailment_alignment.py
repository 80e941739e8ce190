"""Alignments against definitions, and structured ones against every structure of tiny sentences."""

from functools import partial
from itertools import pairwise, product

import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from repro.mappings import Softmax, Sparsemax, sparsemax
from repro.models.entailment.alignment import (
    Aligner,
    Alignment,
    SequentialAligner,
    StructuredAligner,
    TransitionScores,
    WordAligner,
    cell_mask,
)
from repro.structures import ConvergenceWarning, Matching

LENGTHS = torch.tensor([[4, 3], [1, 3], [2, 1], [3, 2], [1, 1]])
ALIGNERS = [
    WordAligner(Softmax()),
    WordAligner(Sparsemax()),
    SequentialAligner(),
    StructuredAligner(Matching()),
]
ROW_WISE = ALIGNERS[:3]


def names(aligner: Aligner) -> str:
    return type(aligner).__name__


@pytest.fixture
def scores() -> Tensor:
    return torch.randn(5, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def drawn() -> SequentialAligner:
    """Transition scores that differ from each other."""
    aligner = SequentialAligner().double()
    generator = torch.Generator().manual_seed(2)
    for parameter in aligner.parameters():
        parameter.data = torch.randn(parameter.shape, dtype=torch.float64, generator=generator)
    return aligner


@pytest.mark.parametrize("aligner", ALIGNERS, ids=names)
def test_weights_are_zero_at_padding_only_where_they_must(aligner, scores):
    found = aligner.double()(scores, LENGTHS, LENGTHS)
    mask = cell_mask(scores, LENGTHS)
    assert found.premise_to_hypothesis.shape == (5, 4, 3)
    assert found.hypothesis_to_premise.shape == (5, 3, 4)
    assert (found.premise_to_hypothesis[~mask] == 0).all()
    assert (found.hypothesis_to_premise.transpose(1, 2)[~mask] == 0).all()
    assert (found.premise_to_hypothesis >= 0).all()
    assert (found.hypothesis_to_premise >= 0).all()


@pytest.mark.parametrize("aligner", ROW_WISE, ids=names)
def test_rows_of_real_words_sum_to_one(aligner, scores):
    found = aligner.double()(scores, LENGTHS, LENGTHS)
    for weights, lengths in (
        (found.premise_to_hypothesis, LENGTHS[:, 0]),
        (found.hypothesis_to_premise, LENGTHS[:, 1]),
    ):
        real = (torch.arange(weights.shape[1]) < lengths.unsqueeze(1)).double()
        torch.testing.assert_close(weights.sum(2), real, atol=1e-9, rtol=0)


def test_matchings_are_symmetrical_and_spend_one_on_each_word_of_the_shorter(scores):
    found = StructuredAligner(Matching())(scores, LENGTHS, LENGTHS)
    forth = found.premise_to_hypothesis
    assert torch.equal(found.hypothesis_to_premise, forth.transpose(1, 2))
    pairs = LENGTHS.min(1).values.double()
    torch.testing.assert_close(forth.sum((1, 2)), pairs, atol=1e-9, rtol=0)
    assert forth.sum(1).max() < 1 + 1e-9
    assert forth.sum(2).max() < 1 + 1e-9


def test_one_bin_for_each_distance():
    transitions = TransitionScores()
    transitions.step.data = torch.tensor([10.0, 11.0, 12.0, 13.0, 14.0])
    transitions.start.data = torch.tensor([1.0, 2.0])
    transitions.end.data = torch.tensor([3.0, 4.0])
    steps, _, _ = transitions(4, torch.tensor([4]))
    assert steps.tolist() == [
        [12.0, 13.0, 14.0, 14.0],
        [11.0, 12.0, 13.0, 14.0],
        [10.0, 11.0, 12.0, 13.0],
        [10.0, 10.0, 11.0, 12.0],
    ]
    _, starts, ends = transitions(3, torch.tensor([3, 1]))
    assert starts.tolist() == [1.0, 2.0, 2.0]
    assert ends.tolist() == [[3.0, 3.0, 4.0], [4.0, 3.0, 3.0]]


def test_eighteen_parameters():
    assert sum(parameter.numel() for parameter in SequentialAligner().parameters()) == 18


def path_score(transitions: TransitionScores, table: Tensor, path: tuple[int, ...]) -> float:
    """The paper's sum for one path: words, distances in five bins, first and last tag."""
    total = sum(float(table[word, tag]) for word, tag in enumerate(path))
    for before, after in pairwise(path):
        total += float(transitions.step[max(-2, min(2, after - before)) + 2].detach())
    total += float(transitions.start[0 if path[0] == 0 else 1].detach())
    return total + float(transitions.end[1 if path[-1] == table.shape[1] - 1 else 0].detach())


def mixture(vertices: Tensor, values: Tensor) -> Tensor:
    """SparseMAP by a general solver: the best mixture of all structures, Eq. 5 of the paper."""

    def loss(weights):
        u = vertices.T.numpy() @ weights
        return 0.5 * u @ u - values.numpy() @ weights, vertices.numpy() @ u - values.numpy()

    count = len(values)
    found = minimize(
        loss, [1 / count] * count, jac=True, method="SLSQP", bounds=[(0, 1)] * count,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1}, options={"ftol": 1e-14},
    )  # fmt: skip
    return vertices.T @ torch.from_numpy(found.x)


def test_sequential_weights_are_the_best_mixture_of_all_paths(drawn, scores):
    found = drawn(scores, LENGTHS, LENGTHS)
    for row, (m, n) in enumerate(LENGTHS.tolist()):
        for transitions, table, weights in (
            (drawn.premise_to_hypothesis, scores[row, :m, :n], found.premise_to_hypothesis[row]),
            (drawn.hypothesis_to_premise, scores[row, :m, :n].T, found.hypothesis_to_premise[row]),
        ):
            words, tags = table.shape
            paths = list(product(range(tags), repeat=words))
            vertices = torch.eye(tags, dtype=torch.float64)[torch.tensor(paths)].flatten(1)
            values = torch.tensor([path_score(transitions, table, path) for path in paths])
            best = mixture(vertices, values.double()).view(words, tags)
            torch.testing.assert_close(weights[:words, :tags].detach(), best, atol=1e-5, rtol=0)


def test_without_transition_scores_paths_are_words_by_themselves(scores):
    """A chain without transitions decomposes: SparseMAP is then sparsemax of each word."""
    found = SequentialAligner().double()(scores, LENGTHS, LENGTHS)
    words = sparsemax(scores, mask=cell_mask(scores, LENGTHS))
    torch.testing.assert_close(found.premise_to_hypothesis, words, atol=1e-6, rtol=0)


def test_gradients_of_scores_and_all_eighteen_parameters(drawn):
    generator = torch.Generator().manual_seed(7)
    scores = torch.randn(8, 4, 4, dtype=torch.float64, generator=generator) * 0.3
    probe = torch.randn(2, 8, 4, 4, dtype=torch.float64, generator=generator)
    for parameter in drawn.parameters():
        parameter.data *= 0.1

    def value(table: Tensor, *_: Tensor) -> Tensor:
        lengths = torch.tensor([[4, 4]]).expand(8, 2)
        found = drawn(table, lengths, lengths)
        both = torch.stack([found.premise_to_hypothesis, found.hypothesis_to_premise])
        return (both * probe).sum()

    inputs = scores.requires_grad_(), *drawn.parameters()
    assert torch.autograd.gradcheck(value, inputs, atol=1e-6, rtol=1e-4)
    gradients = torch.autograd.grad(value(*inputs), [*drawn.parameters()])
    assert sum(int((gradient != 0).sum()) for gradient in gradients) == 18


@pytest.mark.parametrize("aligner", [SequentialAligner(), StructuredAligner(Matching())], ids=names)
def test_solutions_give_the_structures_to_draw(aligner, scores):
    found = aligner.double()(scores, LENGTHS, LENGTHS)
    assert len(found.solutions) == (2 if isinstance(aligner, SequentialAligner) else 1)
    first = found.solutions[0]
    torch.testing.assert_close(first.marginals, found.premise_to_hypothesis)
    torch.testing.assert_close(first.weights.sum(1), torch.ones(5, dtype=torch.float64))


def unsolved(found: Alignment) -> int:
    return sum(int((~solution.converged).sum()) for solution in found.solutions)


@pytest.mark.parametrize("kind", [SequentialAligner, partial(StructuredAligner, Matching())])
def test_solutions_that_stop_early_are_told_once(kind, scores):
    aligner = kind(max_iter=1).double()
    with pytest.warns(ConvergenceWarning, match=r"did not converge .*max_iter=1"):
        first = aligner(scores, LENGTHS, LENGTHS)
    again = aligner(scores, LENGTHS, LENGTHS)
    assert unsolved(again) == unsolved(first) > 0
    assert unsolved(kind().double()(scores, LENGTHS, LENGTHS)) == 0


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 0.3])
@pytest.mark.parametrize("steps", [1e-3, 1e-2])
def test_sentences_of_usual_lengths_are_aligned_within_the_bound(scale, steps):
    """Early in training scores are small, and those of transitions smaller still."""
    generator = torch.Generator().manual_seed(3)
    aligner = SequentialAligner()
    for parameter in aligner.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * steps
    scores = torch.randn(2, 14, 8, generator=generator) * scale
    lengths = torch.tensor([[14, 8], [12, 7]])
    found = aligner(scores, lengths, lengths)
    assert unsolved(found) == 0
