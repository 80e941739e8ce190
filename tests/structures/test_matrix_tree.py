"""The Matrix-Tree theorem against the enumeration of all trees."""

import pytest
import torch
from every_structure import tree_case
from torch import Tensor

from repro.structures import Arborescence
from repro.structures.matrix_tree import _eliminated, tree_log_partition

ROOTS = pytest.mark.parametrize("single_root", [False, True], ids=["roots", "root"])
SCALES = pytest.mark.parametrize("scale", [0.1, 1.0, 50.0, 1e4])
SMALL = torch.finfo(torch.float64).eps


def enumerated(scores: Tensor, single_root: bool) -> Tensor:
    """The log-partition function."""
    return tree_case(scores.size(-1) - 1, single_root).theta(scores).logsumexp(-1)


def tree_marginals(
    scores: Tensor, lengths: Tensor | None = None, single_root: bool = False
) -> Tensor:
    return Arborescence(single_root).marginals(scores, None, lengths)[0]


def random_scores(batch: int, size: int, scale: float, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, size, size, generator=generator, dtype=torch.float64) * scale


@ROOTS
@SCALES
@pytest.mark.parametrize("words", [1, 2, 3, 5])
def test_log_partition_and_marginals(words, scale, single_root):
    scores = random_scores(6, words + 1, scale, words).requires_grad_()
    expected = enumerated(scores, single_root)
    slope = torch.autograd.grad(expected.sum(), scores)[0]
    actual = tree_log_partition(scores, None, single_root)
    torch.testing.assert_close(actual, expected, rtol=4 * SMALL, atol=1e-13)
    rounding = {"rtol": 0, "atol": 1e-13 * max(1.0, scale)}
    torch.testing.assert_close(torch.autograd.grad(actual.sum(), scores)[0], slope, **rounding)
    marginals = tree_marginals(scores, None, single_root)
    torch.testing.assert_close(marginals, slope, **rounding)
    torch.testing.assert_close(marginals.sum(-2)[:, 1:], torch.ones(6, words).double(), **rounding)


@ROOTS
@SCALES
def test_marginals_are_differentiable(scale, single_root):
    scores = random_scores(4, 5, scale, 3).requires_grad_()
    direction = random_scores(4, 5, 1.0, 4)
    marginals = tree_marginals(scores, None, single_root)
    actual = torch.autograd.grad((marginals * direction).sum(), scores)[0]
    total = enumerated(scores, single_root).sum()
    slope = torch.autograd.grad(total, scores, create_graph=True)[0]
    expected = torch.autograd.grad((slope * direction).sum(), scores)[0]
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12 * max(1.0, scale))


@ROOTS
def test_lengths_hide_everything_behind_them(single_root):
    scores = random_scores(5, 6, 2.0)
    lengths = torch.tensor([5, 3, 1, 0, 2])
    for instance, length in enumerate(lengths.tolist()):
        inside = slice(0, length + 1)
        alone = scores[instance : instance + 1, inside, inside]
        together = tree_log_partition(scores, lengths, single_root)[instance]
        torch.testing.assert_close(tree_log_partition(alone, None, single_root)[0], together)
        padded = torch.zeros(6, 6, dtype=torch.float64)
        padded[inside, inside] = tree_marginals(alone, None, single_root)[0]
        found = tree_marginals(scores, lengths, single_root)[instance]
        torch.testing.assert_close(found, padded)
        assert (found[padded == 0] == 0).all()
    poisoned = scores.clone()
    poisoned[3] = torch.nan
    poisoned[1, 4:] = torch.nan
    torch.testing.assert_close(
        tree_log_partition(poisoned, lengths, single_root),
        tree_log_partition(scores, lengths, single_root),
    )


@ROOTS
@pytest.mark.parametrize("seed", range(12))
def test_forbidden_arcs(seed, single_root):
    """Many patterns of forbidden arcs, with and without any tree that avoids them."""
    generator = torch.Generator().manual_seed(seed)
    forbidden = torch.rand(8, 5, 5, generator=generator) < 0.2 + 0.05 * seed
    scores = random_scores(8, 5, 3.0, seed).masked_fill(forbidden, -torch.inf).requires_grad_()
    expected = enumerated(scores, single_root)
    actual = tree_log_partition(scores, None, single_root)
    torch.testing.assert_close(actual, expected)
    marginals = tree_marginals(scores.detach(), None, single_root)
    exists = expected > -torch.inf
    slope = torch.autograd.grad(expected[exists].sum(), scores, allow_unused=True)[0]
    torch.testing.assert_close(marginals[exists], slope[exists], rtol=0, atol=1e-12)
    assert (marginals[~exists] == 0).all()
    assert (marginals[forbidden] == 0).all()


def test_a_word_that_only_the_root_can_lead():
    """Elimination has to leave it for last, at any scale."""
    scores = random_scores(3, 5, 100.0)
    scores[:, 1:, 2] = -torch.inf
    expected = enumerated(scores, True)
    torch.testing.assert_close(tree_log_partition(scores, None, True), expected)


@ROOTS
@pytest.mark.parametrize("gap", [30.0, 700.0, 1e4, 1e6])
def test_best_heads_in_a_cycle(gap, single_root):
    """Two words that prefer each other have a determinant far below its products.

    The trees are 0→1→2 and 0→2→1, and 0→1, 0→2 where the root may have two children.
    """
    scores = torch.zeros(1, 3, 3, dtype=torch.float64)
    scores[0, 1, 2] = scores[0, 2, 1] = gap
    trees = [gap, gap] + ([] if single_root else [0.0])
    expected = torch.tensor(trees, dtype=torch.float64).logsumexp(0, keepdim=True)
    torch.testing.assert_close(
        tree_log_partition(scores, None, single_root), expected, rtol=4 * SMALL, atol=0
    )
    assert tree_marginals(scores, None, single_root)[0, 0, 1].item() == pytest.approx(0.5)


@ROOTS
def test_scores_of_fifty_words_at_large_scales(single_root):
    for scale in (50.0, 1e4):
        marginals = tree_marginals(random_scores(2, 51, scale), None, single_root)
        torch.testing.assert_close(marginals.sum(-2)[:, 1:], torch.ones(2, 50).double())
        assert marginals.min() > -1e-12
    roots = marginals[:, 0].sum(-1)
    assert (roots > 1 - 1e-9).all()
    if single_root:
        torch.testing.assert_close(roots, torch.ones(2).double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_dtypes_are_computed_in_double(dtype):
    scores = random_scores(3, 6, 4.0).to(dtype)
    total = tree_log_partition(scores)
    assert total.dtype == dtype
    torch.testing.assert_close(total, tree_log_partition(scores.double()).to(dtype))
    assert tree_marginals(scores).dtype == dtype


@ROOTS
def test_nan_stays_in_its_instance(single_root):
    scores = random_scores(3, 4, 1.0)
    clean = tree_marginals(scores, None, single_root)
    scores[1, 2, 3] = torch.nan
    assert tree_log_partition(scores, None, single_root).isnan().tolist() == [False, True, False]
    torch.testing.assert_close(tree_marginals(scores, None, single_root)[[0, 2]], clean[[0, 2]])


def test_no_instances_and_no_words():
    assert tree_log_partition(torch.zeros(0, 4, 4)).shape == (0,)
    assert tree_marginals(torch.zeros(0, 4, 4)).shape == (0, 4, 4)
    assert tree_log_partition(torch.zeros(2, 1, 1)).tolist() == [0, 0]
    assert tree_marginals(torch.zeros(2, 1, 1)).tolist() == [[[0.0]], [[0.0]]]


@pytest.mark.parametrize("single_root", [False, True])
def test_elimination_gives_what_factorization_does(single_root):
    scores = torch.randn(4, 6, 6, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([5, 3, 1, 4])
    words = torch.arange(5) < lengths.unsqueeze(1)
    outside = ~torch.nn.functional.pad(words, (1, 0), value=True)
    forbidden = torch.eye(6, dtype=torch.bool) | outside.unsqueeze(1) | outside.unsqueeze(2)
    forbidden[..., 0] = True
    found = _eliminated(scores.masked_fill(forbidden, -torch.inf), words, single_root)
    expected = tree_log_partition(scores, lengths, single_root)
    torch.testing.assert_close(found, expected)
    moved, wanted = (torch.autograd.grad(one.sum(), scores)[0] for one in (found, expected))
    torch.testing.assert_close(moved, wanted)


def test_lengths_on_the_device_are_not_read():
    scores, lengths = torch.empty(2, 4, 4, device="meta"), torch.empty(2, device="meta").long()
    assert tree_log_partition(scores, lengths).shape == (2,)
