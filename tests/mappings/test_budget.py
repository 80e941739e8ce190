"""The top-k budget: values, derivatives, masks, refusals, laws."""

import math

import pytest
import torch
from drawn import draw, leaf
from enumeration import box_by_enumeration
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import ABSOLUTE, LOSS, SUM, assert_close
from torch.autograd import gradcheck, gradgradcheck
from torch.func import vmap

from repro.mappings import Budget, budget, csparsemax, sparsemax

INF = math.inf


def rows_of(value, *shape):
    return torch.full(shape, value, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("size", range(1, 6))
def test_every_partition_enumerated(size):
    for seed in range(3):
        scores = draw(size, seed=seed)
        for k in (0.5, 1.0, 1.7, 2.0, 3.0, 5.0):
            if k <= size:
                expected = box_by_enumeration(scores, torch.ones_like(scores), k)
                assert_close(budget(scores, k), expected, ABSOLUTE)


def test_one_is_sparsemax_and_all_is_one():
    scores = draw(6, 5)
    assert_close(budget(scores, 1), sparsemax(scores), ABSOLUTE)
    assert torch.equal(budget(scores, 5), torch.ones_like(scores))


def test_clear_winners_are_selected():
    scores = torch.tensor([3.0, -1.0, 2.0, 0.5])
    assert torch.equal(budget(scores, 2), torch.tensor([1.0, 0.0, 1.0, 0.0]))
    far = torch.tensor([1e8, 0.25, 3.0, -1e30])
    assert torch.equal(budget(far, 2.5), torch.tensor([1.0, 0.5, 1.0, 0.0]))


def test_one_number_per_row():
    scores = draw(3, 4, 6)
    k = torch.tensor([1.0, 2.5, 4.0])
    probs = budget(scores, k[:, None, None])
    for row, number in enumerate(k.tolist()):
        assert_close(probs[row], budget(scores[row], number), ABSOLUTE)
    turned = budget(scores.movedim(-1, 1), k[:, None, None], dim=1)
    assert_close(turned.movedim(1, -1), probs, ABSOLUTE)


def test_masks_and_infinities():
    scores = torch.tensor([[0.5, -INF, 0.25, 0.0], [INF, INF, INF, 0.0], [-INF] * 4])
    probs = budget(scores, 2)
    assert_close(probs[0, [0, 2, 3]], budget(scores[0, [0, 2, 3]], 2), ABSOLUTE)
    assert probs[0, 1] == 0
    assert_close(probs[1], torch.tensor([2 / 3, 2 / 3, 2 / 3, 0.0]), ABSOLUTE)
    assert torch.equal(probs[2], torch.zeros(4))
    mask = torch.tensor([True, False, True, True])
    masked = budget(torch.tensor([0.5, math.nan, 0.25, 0.0]), 2, mask=mask)
    assert torch.equal(masked, probs[0])
    assert budget(torch.tensor([0.0, math.nan, 1.0]), 2).isnan().all()


def test_more_than_there_is_to_select_is_refused():
    mask = torch.tensor([[True, True, True], [True, False, True]])
    with pytest.raises(ValueError, match=r"got 3 for 2 entries in row \(1,\)"):
        budget(torch.zeros(2, 3), 3, mask=mask)
    with pytest.raises(ValueError, match=r"got 2\.5 for 2 entries in row \(1,\)"):
        budget(torch.zeros(2, 3), torch.tensor([[3.0], [2.5]]), mask=mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_nothing_to_select(dtype):
    scores = torch.randn(3, 5, dtype=dtype)
    scores[1, 0], scores[2] = -INF, -INF
    scores.requires_grad_()
    k = torch.tensor([[0.0], [2.0], [0.0]], dtype=dtype, requires_grad=True)
    for probs in (budget(scores, 0), budget(scores, k)[::2]):
        assert torch.equal(probs, torch.zeros_like(probs))
        assert not torch.autograd.grad(probs.sum(), scores, retain_graph=True)[0].any()
    assert torch.equal(budget(scores, k)[1], budget(scores[1], 2.0))
    assert torch.equal(Budget(0.0).value(scores[:2]), torch.zeros(2, dtype=dtype))


def test_where_values_are_not_read_bad_rows_are_nan():
    scores, k = torch.zeros(3, 2), torch.tensor([3.0, -1.0, 1.5])
    mapped = vmap(budget)(scores, k)
    compiled = torch.compile(budget, fullgraph=True, backend="eager")(scores, k[:, None])
    for probs in (mapped, compiled):
        assert probs[:2].isnan().all()
        assert_close(probs[2], torch.full((2,), 0.75), ABSOLUTE)


@pytest.mark.parametrize("dim", [-2, 0, 2])
def test_gradients_on_every_dim(dim):
    shape = [3, 4, 5]
    shape[dim] = 1
    inputs = leaf(3, 4, 5, seed=1) * 0.7, rows_of(1.7, *shape)
    probs = budget(*inputs, dim=dim)
    assert (probs == 1).any()
    assert gradcheck(lambda s, k: budget(s, k, dim=dim), inputs)


def test_second_derivatives():
    inputs = leaf(4, 5, seed=2), rows_of(1.7, 4, 1)
    assert gradgradcheck(budget, inputs)
    assert gradcheck(lambda s, k: Budget(k).value(s), inputs)
    assert gradgradcheck(lambda s, k: Budget(k).value(s), inputs)


def test_value_is_the_maximum():
    scores, module = leaf(6, seed=5), Budget(2.5)
    best, probs = module.value(scores), module(scores)
    assert_close((probs * scores).sum() - module.omega(probs), best, LOSS)
    trials = torch.rand(4000, 6, dtype=torch.float64)
    trials = trials * 2.5 / trials.sum(-1, keepdim=True)
    trials = trials[(trials <= 1).all(-1)]
    assert len(trials) > 100
    assert ((trials * scores).sum(-1) - module.omega(trials) <= best + 1e-12).all()
    assert torch.equal(torch.autograd.grad(best, scores)[0], probs)


ROWS = st.lists(st.integers(-320, 320), min_size=2, max_size=10).map(
    lambda row: torch.tensor(row, dtype=torch.float64) / 64
)
SHARES = st.sampled_from([0.25, 0.5, 0.75, 1.0])
EXAMPLES = settings(max_examples=40, deadline=None)


@EXAMPLES
@given(scores=ROWS, share=SHARES, scale=st.sampled_from([1.0, 1e-9, 1e9]))
def test_entries_between_zero_and_one_that_sum_to_k(scores, share, scale):
    k = share * len(scores)
    probs = budget(scores * scale, k)
    assert (probs >= 0).all()
    assert (probs <= 1).all()
    assert_close(probs.sum(), torch.tensor(k), SUM)


@EXAMPLES
@given(scores=ROWS, share=SHARES, shift=st.sampled_from([-1e6, 0.5, 1e4]))
def test_a_common_shift_changes_nothing(scores, share, shift):
    k = share * len(scores)
    assert torch.equal(budget(scores + shift, k), budget(scores, k))


@EXAMPLES
@given(scores=ROWS)
def test_it_is_constrained_sparsemax_scaled(scores):
    """Dividing scores, bounds and total by ``k`` divides the solution by ``k``."""
    k = len(scores) / 2
    scaled = csparsemax(scores / k, torch.full_like(scores, 1 / k))
    assert_close(budget(scores, k), scaled * k, {torch.float64: 1e-11})
