"""The forward–backward algorithm against the enumeration of all tag sequences."""

import pytest
import torch
from every_structure import sequence_case
from torch import Tensor

from repro.structures import LinearChain
from repro.structures.forward_backward import sequence_log_partition

sequence_marginals = LinearChain().marginals
SCALES = pytest.mark.parametrize("scale", [1.0, 50.0, 1e4])


def enumerated(unary: Tensor, transitions: Tensor, length: int) -> Tensor:
    """The log-partition function of one instance."""
    if length == 0:
        return unary.sum() * 0
    case = sequence_case(int(length), unary.size(-1))
    return case.theta(unary[None, :length], transitions[None, : length - 1])[0].logsumexp(0)


def random_scores(
    batch: int, positions: int, tags: int, scale: float, seed: int = 0
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, positions - 1, tags, tags)
    unary = torch.randn(batch, positions, tags, generator=generator, dtype=torch.float64) * scale
    pairs = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
    return unary.requires_grad_(), pairs.requires_grad_()


@SCALES
def test_log_partition_marginals_and_their_derivatives(scale):
    unary, pairs = random_scores(5, 4, 3, scale)
    lengths = torch.tensor([4, 2, 1, 0, 3])
    expected = torch.stack([enumerated(*one) for one in zip(unary, pairs, lengths, strict=True)])
    torch.testing.assert_close(sequence_log_partition(unary, pairs, lengths), expected)
    slopes = torch.autograd.grad(expected.sum(), (unary, pairs), create_graph=True)
    found = sequence_marginals(unary, pairs, lengths)
    directions = [torch.randn_like(slope) for slope in slopes]
    seconds = []
    for marginals in (found, slopes):
        for one, other in zip(marginals, slopes, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
        total = sum((m * d).sum() for m, d in zip(marginals, directions, strict=True))
        seconds.append(torch.autograd.grad(total, (unary, pairs), retain_graph=True))
    for one, other in zip(*seconds, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


def test_pairs_agree_with_tags():
    unary, pairs = (one.detach() for one in random_scores(3, 6, 4, 2.0))
    tags, both = sequence_marginals(unary, pairs)
    torch.testing.assert_close(both.sum(-1), tags[:, :-1])
    torch.testing.assert_close(both.sum(-2), tags[:, 1:])
    torch.testing.assert_close(tags.sum(-1), torch.ones(3, 6).double())


def test_without_transitions_positions_are_independent():
    unary, _ = random_scores(3, 5, 4, 3.0)
    marginals, pairs = sequence_marginals(unary)
    torch.testing.assert_close(marginals, unary.softmax(-1))
    assert pairs is None


def test_one_item_has_no_transitions():
    unary, pairs = torch.randn(2, 1, 3), torch.zeros(2, 0, 3, 3)
    tags, both = sequence_marginals(unary, pairs)
    torch.testing.assert_close(tags, unary.softmax(-1))
    assert both.shape == pairs.shape


def test_shared_transitions_receive_the_sum_of_the_gradients():
    unary, pairs = random_scores(3, 4, 2, 1.0)
    shared = pairs[0].detach().requires_grad_()
    each = shared.detach().expand(3, -1, -1, -1).clone().requires_grad_()
    sequence_log_partition(unary, shared).sum().backward()
    sequence_log_partition(unary, each).sum().backward()
    torch.testing.assert_close(shared.grad, each.grad.sum(0))
    assert sequence_marginals(unary, shared)[1].shape == pairs.shape


def test_forbidden_tags_and_transitions():
    unary, pairs = (one.detach() for one in random_scores(3, 4, 3, 1.0))
    unary[0, 1, 2] = -torch.inf
    pairs[1, 0, :, 1] = -torch.inf
    unary[2, 2] = -torch.inf
    lengths = torch.full((3,), 4)
    expected = torch.stack([enumerated(*one) for one in zip(unary, pairs, lengths, strict=True)])
    total = sequence_log_partition(unary, pairs)
    torch.testing.assert_close(total, expected)
    assert total[2] == -torch.inf
    tags, both = sequence_marginals(unary, pairs)
    assert tags[0, 1, 2] == 0
    assert (both[1, 0, :, 1] == 0).all()
    assert (tags[2] == 0).all()
    assert tags.isfinite().all()
    assert both.isfinite().all()


def test_dtypes_and_empty_batches():
    unary, pairs = (one.detach().half() for one in random_scores(2, 5, 3, 1.0))
    assert sequence_log_partition(unary, pairs).dtype == torch.half
    assert [one.dtype for one in sequence_marginals(unary, pairs)] == [torch.half] * 2
    assert sequence_log_partition(torch.zeros(0, 3, 2)).shape == (0,)
    assert sequence_log_partition(torch.zeros(2, 0, 3)).tolist() == [0, 0]
