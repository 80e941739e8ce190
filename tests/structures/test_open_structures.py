"""Structures with an oracle in PyTorch: the same active set, derivatives and losses."""

import itertools

import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from repro.losses.structured import (
    CRFLoss,
    MarginSparseMAPLoss,
    SparseMAPLoss,
    StructuredPerceptronLoss,
    StructuredSVMLoss,
)
from repro.mappings import budget, sparsemax
from repro.structures import InfeasibleError, LinearChain, Matching, Structure, sparsemap


class Assignment(Structure):
    """Matchings by SciPy."""

    def best(self, scores: Tensor, lengths: Tensor | None) -> Tensor:
        found = torch.zeros_like(scores)
        for b, one in enumerate(scores):
            m, n = one.shape if lengths is None else lengths[b].tolist()
            found[b][linear_sum_assignment(one[:m, :n].numpy(), maximize=True)] = 1
        return found


class Chain(Structure):
    """Tags by Viterbi's algorithm, with its transitions as additional parts."""

    has_additional = True

    def best(
        self, scores: Tensor, lengths: Tensor | None, additional: Tensor
    ) -> tuple[Tensor, Tensor]:
        parts, pairs = LinearChain().best(scores, lengths, additional)
        return parts, pairs


class Best(Structure):
    """``k`` of all parts."""

    def __init__(self, k: int) -> None:
        self.k = k

    def best(self, scores: Tensor, lengths: Tensor | None) -> Tensor:
        return torch.zeros_like(scores).scatter(1, scores.topk(self.k).indices, 1)


class Copies(Structure):
    """One structure of two parts, in three copies that differ in the additional part."""

    has_additional = True

    def best(
        self, scores: Tensor, lengths: Tensor | None, additional: Tensor
    ) -> tuple[Tensor, Tensor]:
        highest, copy = additional.max(1)
        pair = scores[:, 0] + scores[:, 1] + highest >= scores[:, 2]
        more = torch.nn.functional.one_hot(copy, 3) * pair.unsqueeze(1)
        return torch.stack([pair, pair, ~pair], 1).to(scores), more.to(scores)


class Fixed(Structure):
    """An oracle with the same answer whatever the scores."""

    def __init__(self, answer: Tensor) -> None:
        self.answer = answer

    def best(self, scores: Tensor, lengths: Tensor | None) -> Tensor:
        return self.answer


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def test_same_as_the_compiled_structure():
    unary, direction = draw(3, 4, 6), torch.randn(3, 4, 6, dtype=torch.float64)
    lengths = torch.tensor([[4, 6], [4, 3], [2, 6]])
    found = [sparsemap(one, unary, lengths=lengths) for one in (Assignment(), Matching())]
    assert found[0].converged.all()
    assert torch.equal(found[0].counts, found[1].counts)
    torch.testing.assert_close(found[0].marginals, found[1].marginals, atol=1e-6, rtol=0)
    grads = [torch.autograd.grad(one.marginals, unary, direction)[0] for one in found]
    torch.testing.assert_close(*grads, atol=1e-6, rtol=0)
    best = Assignment().map(unary, lengths=lengths)
    assert best.shape == (3, 24)
    parts = Matching().indicator(Matching().map(unary, lengths=lengths), unary)
    torch.testing.assert_close(Assignment().indicator(best, unary), parts)
    torch.testing.assert_close(Assignment().score(best, unary), (parts * unary).sum((1, 2)))
    alone = sparsemap(Assignment(), unary[1:2], lengths=lengths[1:2])
    assert torch.equal(alone.marginals[0], found[0].marginals[1])


def test_additional_parts():
    unary, more = draw(4, 3, 2), draw(4, 2, 2, 2)
    found, expected = (sparsemap(one, unary, more) for one in (Chain(), LinearChain()))
    torch.testing.assert_close(found.marginals, expected.marginals)
    torch.testing.assert_close(found.additional, expected.additional)
    assert torch.autograd.gradcheck(
        lambda u, v: (lambda s: (s.marginals, s.additional))(sparsemap(Chain(), u, v)),
        (unary, more),
    )
    assert torch.autograd.gradgradcheck(
        lambda u, v: sparsemap(Chain(), u, v).weights.square().sum(), (unary, more)
    )


def test_subsets_are_the_budget_mapping():
    scores = draw(5, 7).detach()
    for k in (1, 3):
        found = sparsemap(Best(k), scores).marginals
        expected = sparsemax(scores) if k == 1 else budget(scores, k)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_copies_of_a_structure():
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


@pytest.mark.parametrize(
    "kind", [StructuredPerceptronLoss, StructuredSVMLoss, SparseMAPLoss, MarginSparseMAPLoss]
)
@pytest.mark.parametrize("chained", [False, True])
def test_losses_are_those_of_the_compiled_structure(kind, chained):
    unary, lengths = draw(3, 4, 4), None if chained else torch.tensor([[4, 4], [4, 3], [2, 4]])
    more = draw(3, 3, 4, 4) if chained else None
    own, compiled = (Chain(), LinearChain()) if chained else (Assignment(), Matching())
    found = []
    for structure in (own, compiled):
        target = structure.map(-unary, None if more is None else -more, lengths)
        losses = kind(structure, reduction="none")(unary, target, lengths, more)
        found.append((losses, torch.autograd.grad(losses.sum(), unary)[0]))
        predicted = kind(structure).predict(unary, lengths, more)
        assert (predicted.additional is None) == (more is None)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


def test_targets():
    loss, scores = SparseMAPLoss(Assignment(), reduction="none"), torch.zeros(2, 3, 3)
    identity = torch.eye(3, dtype=torch.long).expand(2, 3, 3).clone()
    torch.testing.assert_close(loss(scores, identity), loss(scores, identity.flatten(1)))
    with pytest.raises(ValueError, match=r"target \(2, 9\) expected"):
        loss(scores, identity[:, :2])
    with pytest.raises(ValueError, match="integers"):
        loss(scores, identity.float())
    identity[1, 0, 0] = 2
    with pytest.raises(ValueError, match=r"instance 1: .* entries outside 0..1"):
        loss(scores, identity)
    identity[1, 0, 0] = 0
    with pytest.raises(ValueError, match=r"instance 1: .* is not a valid Assignment"):
        loss(scores, identity)
    with pytest.raises(NotImplementedError, match="Assignment has no marginal inference"):
        CRFLoss(Assignment())(scores[:1], identity[:1])


def test_choices_of_rows():
    parts = torch.tensor([[[0, 1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 1]]])
    found = Assignment().choices(parts, torch.zeros(1, 2, 3))
    assert found.tolist() == [[[1, -1], [1, 2]]]
    assert Matching().choices(found[:, :1], torch.zeros(1, 2, 3)).tolist() == [[[1, -1]]]


@pytest.mark.parametrize(
    "answer", [torch.zeros(1, 3), torch.full((1, 4), 0.5), torch.zeros(4), (torch.zeros(1, 4),) * 2]
)
def test_answers_that_are_no_parts_are_refused(answer):
    with pytest.raises(ValueError, match=r"Fixed.best must return 0/1 parts \(1, 4\)"):
        sparsemap(Fixed(answer), torch.zeros(1, 4))


def test_bad_scores_are_refused():
    with pytest.raises(ValueError, match="instance 0: a score is NaN"):
        sparsemap(Best(1), torch.full((1, 4), torch.nan))
    with pytest.raises(InfeasibleError, match="instance 0"):
        Best(1).map(torch.full((1, 4), -torch.inf))
    with pytest.raises(InfeasibleError, match="instance 1"):
        sparsemap(Best(2), torch.zeros(2, 4), lengths=torch.tensor([2, 1]))
    with pytest.raises(ValueError, match="no additional parts"):
        sparsemap(Best(1), torch.zeros(1, 4), torch.zeros(1, 4))
    with pytest.raises(ValueError, match="Chain needs additional scores"):
        sparsemap(Chain(), torch.zeros(1, 2, 2))
    with pytest.raises(ValueError, match="unary scores"):
        sparsemap(Best(1), torch.zeros(4))
    for lengths in (torch.tensor([5]), torch.tensor(4)):
        with pytest.raises(ValueError, match="length"):
            sparsemap(Best(1), torch.zeros(1, 4), lengths=lengths)
    start = sparsemap(Best(1), torch.zeros(1, 4))
    for structure, scores in ((Best(1), torch.zeros(1, 4)), (Matching(), torch.zeros(1, 2, 2))):
        with pytest.raises(ValueError, match="start"):
            sparsemap(structure, scores, start=start)


def test_an_empty_batch():
    assert sparsemap(Best(1), torch.zeros(0, 4)).marginals.shape == (0, 4)


def test_no_additional_parts_between_one_item_and_none():
    unary, more = draw(2, 1, 3), torch.zeros(2, 0, 3, 3, dtype=torch.float64)
    found, expected = (sparsemap(one, unary, more) for one in (Chain(), LinearChain()))
    torch.testing.assert_close(found.marginals, expected.marginals)
    assert found.additional.shape == more.shape
    assert SparseMAPLoss(Chain())(unary, Chain().map(unary, more), additional=more).isfinite()


def test_a_loss_that_a_rough_solution_makes_negative_is_zero_but_has_its_gradient():
    class Subset(Structure):
        def best(self, scores: Tensor, lengths: Tensor | None) -> Tensor:
            return (scores > 0).to(scores)

    scores = torch.full((1, 2), 0.4, requires_grad=True)
    loss = SparseMAPLoss(Subset(), tol=10.0)(scores, torch.zeros(1, 2).long())
    (grad,) = torch.autograd.grad(loss, scores)
    assert loss.item() == 0.0  # the score of both parts is 0.8, their penalty is 1
    assert torch.equal(grad, torch.ones(1, 2))
