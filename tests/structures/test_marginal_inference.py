"""Marginal inference as methods of the structures."""

import pytest
import torch

from repro.structures import Arborescence, LinearChain, Matching
from repro.structures.forward_backward import sequence_log_partition
from repro.structures.matrix_tree import tree_log_partition


@pytest.mark.parametrize("single_root", [False, True])
def test_trees(single_root):
    structure, scores = Arborescence(single_root=single_root), torch.randn(3, 5, 5)
    lengths = torch.tensor([4, 2, 1])
    total = structure.log_partition(scores, lengths=lengths)
    torch.testing.assert_close(total, tree_log_partition(scores, lengths, single_root))
    assert structure.marginals(scores, lengths=lengths)[1] is None
    with pytest.raises(ValueError, match="no additional parts"):
        structure.log_partition(scores, scores)
    with pytest.raises(ValueError, match=r"arcs \(B, n\+1, n\+1\) expected"):
        structure.marginals(scores[:, :3])
    with pytest.raises(ValueError, match="floating point"):
        structure.log_partition(scores.long())


def test_sequences():
    unary, pairs, lengths = torch.randn(2, 4, 3), torch.randn(3, 3, 3), torch.tensor([4, 2])
    total = LinearChain().log_partition(unary, pairs, lengths)
    torch.testing.assert_close(total, sequence_log_partition(unary, pairs, lengths))
    for method in (LinearChain().log_partition, LinearChain().marginals):
        for wrong in (pairs[:2], pairs[0], pairs[None]):
            with pytest.raises(ValueError, match=r"transitions \(3, 3, 3\)"):
                method(unary, wrong)
    with pytest.raises(ValueError, match=r"unary scores \(B, n, m\)"):
        LinearChain().marginals(unary[0])


@pytest.mark.parametrize("structure", [LinearChain(), Arborescence()])
@pytest.mark.parametrize(
    "lengths", [torch.tensor([5, 1]), torch.tensor([1.0, 2.0]), torch.tensor([1])]
)
def test_lengths_are_checked(structure, lengths):
    for method in (structure.log_partition, structure.marginals):
        with pytest.raises(ValueError, match="length"):
            method(torch.randn(2, 4, 4), lengths=lengths)


def test_matchings_have_none():
    scores = torch.randn(2, 3, 3)
    for method in (Matching().log_partition, Matching().marginals):
        with pytest.raises(NotImplementedError, match="Matching has no marginal inference"):
            method(scores)
